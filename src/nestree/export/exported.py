"""A model whose encoder and scorer are run by ONNX Runtime; all else is as ever."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from nestree.export.extra import module
from nestree.model.config import ModelConfig
from nestree.model.encoder import read_tokenizer
from nestree.model.errors import ModelError, NoModelError, first_line
from nestree.model.folder import AGAIN, ENCODER, EXPORTED, read_folder
from nestree.model.ner import NestedNER
from nestree.model.pieces import Batch, Pieces

INPUTS = ("pieces", "attention", "first", "last")
OUTPUT = "scores"
FINGERPRINT, LIMIT, INT8, LOG_GAIN = "nestree.fingerprint", "nestree.limit", "nestree.int8", "nestree.log_gain"
"""What stands in the metadata of the ONNX file."""


def load(folder: str | PathLike[str], threads: int | None = None) -> ExportedNER:
    """A model that :func:`nestree.export.export` wrote, ready to predict on the CPU.

    Args:
        folder: where it is.
        threads: of ONNX Runtime; as many as torch uses, if None.

    Raises:
        ModelError: there is no exported model, or it is damaged, or not one of nestree.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}; there must be at least one.")
    path = Path(folder)
    if not path.is_dir():
        advice = "Name a folder that nestree export wrote."
        raise NoModelError("there is no such folder", path=path, advice=advice)
    settings = read_folder(path)
    file = path / EXPORTED
    if not file.is_file():
        advice = (
            "nestree export MODEL --output FOLDER makes one; NestedNER.from_pretrained loads one that is not exported."
        )
        raise NoModelError("there is no exported model", path=file, advice=advice)
    session = open_session(file, threads)
    found: dict[str, str] = session.get_modelmeta().custom_metadata_map
    if FINGERPRINT not in found or {one.name for one in session.get_inputs()} - set(INPUTS):
        raise ModelError("this ONNX file was not written by nestree", path=file, advice=AGAIN)
    if found[FINGERPRINT] != settings.fingerprint:
        what = "this ONNX file belongs to other settings than those in nestree.json"
        raise ModelError(what, path=file, advice="Are these files of two models? Export the model again.")
    model = ExportedNER(settings.config, session, read_tokenizer(path / ENCODER), int(found[LIMIT]))
    model.int8 = found.get(INT8) == "yes"
    if LOG_GAIN in found:
        model.log_gain = nn.Parameter(torch.tensor(float(found[LOG_GAIN])), requires_grad=False)
    model.metrics, model.trained_with = settings.metrics, settings.training
    return model.eval()


def open_session(file: Path, threads: int | None = None) -> Any:
    """What runs an ONNX file."""
    runtime = module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads() if threads is None else threads
    # Torch decodes between two runs: threads that wait busily, as they would by default, would take its cores.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4  # errors are raised: they need not be printed, too
    try:
        return runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of a library that tells in many ways
        raise ModelError(f"this ONNX file cannot be loaded ({first_line(error)})", path=file, advice=AGAIN) from error


class ExportedNER(NestedNER):
    """Finds nested entities, as the model that was exported does. It cannot be trained, or saved again.

    Args:
        config: all settings.
        session: of ONNX Runtime.
        tokenizer: the encoder's.
        limit: how many pieces the encoder reads at a time.

    Attributes:
        int8: whether the encoder computes with whole numbers of 8 bits.
    """

    def __init__(self, config: ModelConfig, session: Any, tokenizer: Any, limit: int) -> None:
        nn.Module.__init__(self)  # no encoder and no scorer: they are in the session
        self.config = config
        self.tokenizer = tokenizer
        self.pieces = Pieces(tokenizer, limit)
        self.metrics: dict[str, Any] = {}
        self.trained_with: dict[str, Any] = {}
        self.log_gain = None
        self.label_shift = None
        self.int8 = False
        self._session = session
        self._inputs = [one.name for one in session.get_inputs()]

    @property
    def device(self) -> torch.device:
        """Always the CPU."""
        return torch.device("cpu")

    def span_scores(self, batch: Batch) -> Tensor:
        """Scores of all labelled spans, as they come from the scorer. Shape: ``[batch, n, n, label]``."""
        values = {name: getattr(batch, name).cpu().numpy() for name in self._inputs}
        return torch.from_numpy(self._session.run([OUTPUT], values)[0])

    def words(self, batch: Batch) -> None:
        """Vectors of words stay in the session."""
        return

    def loss(self, *_: Any, **__: Any) -> NoReturn:
        """Raises an error: an exported model does not learn."""
        raise ModelError("an exported model cannot be trained", advice="Train the model it was exported from.")

    def save_pretrained(self, folder: str | PathLike[str], **_: Any) -> NoReturn:
        """Raises an error: what was exported is in its folder already."""
        advice = "Copy its folder; or change and save the model that it was exported from, and export that again."
        raise ModelError("an exported model cannot be saved", path=folder, advice=advice)

    def push_to_hub(self, name: str, **_: Any) -> NoReturn:
        """Raises an error: the hub gets the model that was exported."""
        advice = f"Send the model it was exported from; or its folder, as it is: hf upload {name} FOLDER"
        raise ModelError("an exported model cannot be sent", path=name, advice=advice)
