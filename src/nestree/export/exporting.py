"""From a trained model to a folder with an ONNX file."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nestree.export.exported import FINGERPRINT, INPUTS, INT8, LIMIT, LOG_GAIN, OUTPUT, ExportedNER, open_session
from nestree.export.extra import FOR_EXPORTING, module, require
from nestree.model.ensemble import EnsembleNER
from nestree.model.errors import ModelError, first_line
from nestree.model.folder import EXPORTED, SETTINGS, WEIGHTS
from nestree.model.ner import NestedNER
from nestree.model.saving import save_folder

MOST_BYTES = 2**31 - 2**24
"""More weights do not fit into one ONNX file, with room for the rest of it."""
TOLERANCE = 1e-3
"""How far a score may be from torch's, relative to the largest: what is more is a fault, not rounding."""
_OPSET = 20
_INTEGERS = 4
"""What ONNX Runtime calls computing with whole numbers, not with numbers made from them."""
_AXES = {
    "pieces": ("window", "piece"),
    "attention": ("window", "piece"),
    "first": ("batch", "n"),
    "last": ("batch", "n"),
}


def export(model: NestedNER, folder: str | PathLike[str], int8: bool = False, *, force: bool = False) -> None:
    """Writes a model into a folder that :func:`nestree.export.load` reads, complete or not at all.

    Encoder and scorer become ``model.onnx``. Settings, tokenizer, scores and model card are as in any model's folder.

    Args:
        model: a trained model; it stays as it is.
        folder: where to.
        int8: whether the encoder's matrices become whole numbers of 8 bits: smaller, quicker on CPUs, less exact.
        force: whether to replace an exported model that is there; other files stay.

    Raises:
        ImportError: the packages for it are missing.
        ModelError: the folder is taken, or the encoder cannot be exported.
    """
    require(*FOR_EXPORTING)
    if isinstance(model, ExportedNER):
        raise ModelError("this model is exported already", advice="Export the model that it was exported from.")
    if isinstance(model, EnsembleNER):
        advice = "Distil it into one model (nestree distil), or average its members' weights; and export that."
        raise ModelError("a combined model cannot be exported", advice=advice)
    path = Path(folder)
    check_place(path, force)

    def write(file: Path, fingerprint: str) -> None:
        metadata = {FINGERPRINT: fingerprint, INT8: "yes" if int8 else "no"}
        if model.log_gain is not None:
            metadata[LOG_GAIN] = repr(model.log_gain.item())
        _write_onnx(model, file, metadata, int8)

    save_folder(model, path, EXPORTED, write)


def check_place(path: Path, force: bool) -> None:
    """Raises a ModelError if nothing may be written there."""
    if not path.exists():
        return
    if not path.is_dir():
        raise ModelError("this is a file, and a model is exported into a folder", path=path)
    if (path / WEIGHTS).exists():
        what = "there is a model in this folder that is not exported"
        raise ModelError(what, path=path, advice="Name another folder.")
    if next(path.iterdir(), None) is not None and not force:
        raise ModelError("there is something in this folder already", path=path, advice="Name another one, or --force.")
    if (path / SETTINGS).exists() and not (path / EXPORTED).exists():
        raise ModelError(f"there is a {SETTINGS} of something else", path=path, advice="Name another folder.")


# --- The graph -------------------------------------------------------------------------------------------------------


class _SpanScores(nn.Module):
    """Encoder and scorer of a model, with tensors in place of a batch."""

    def __init__(self, model: NestedNER) -> None:
        super().__init__()
        encoder: Any = copy.deepcopy(model.encoder.model).cpu().float()
        self.scorer = copy.deepcopy(model.scorer).cpu().float()
        self.word = model.config.word
        # The plain form of attention: what torch computes is the same, and the graph has fewer operations.
        if hasattr(encoder, "set_attn_implementation"):
            encoder.set_attn_implementation("eager")
        self.encoder = encoder
        self.eval()

    def forward(self, pieces: Tensor, attention: Tensor, first: Tensor, last: Tensor) -> Tensor:
        """Shape: ``[batch, n, n, label]``."""
        hidden = self.encoder(input_ids=pieces, attention_mask=attention).last_hidden_state
        if self.word == "mean":
            return self.scorer(_means(hidden, first, last))
        return self.scorer(hidden.flatten(0, 1)[first if self.word == "first" else last])


def _means(hidden: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Means of neighbouring pieces, as differences of sums: ONNX has no loop as simple as Python's.

    In float64, or the sum of a whole window would leave too few digits for the difference.
    """
    exact = hidden.double()
    before = (exact.cumsum(1) - exact).flatten(0, 1)
    total = before[last] + exact.flatten(0, 1)[last] - before[first]
    return (total / (last - first + 1)[..., None]).to(hidden.dtype)


def _write_onnx(model: NestedNER, file: Path, metadata: dict[str, str], int8: bool) -> None:
    part = _SpanScores(model)
    size = sum(value.numel() * value.element_size() for value in part.state_dict().values())
    if size > MOST_BYTES:
        raise ModelError(f"weights of {size / 1e9:.1f} GB do not fit into an ONNX file, which holds 2", path=file)
    example = _example(model, windows=3, width=7, batch=2, n=5)
    with _quiet():
        try:
            program = torch.onnx.export(
                part,
                (),
                kwargs=dict(zip(INPUTS, example, strict=True)),
                input_names=list(INPUTS),
                output_names=[OUTPUT],
                dynamic_shapes={name: dict(enumerate(axes)) for name, axes in _AXES.items()},
                opset_version=_OPSET,
                dynamo=True,
                verbose=False,
            )
        except Exception as error:  # of any encoder, and a library that tells in many ways
            kind = type(part.encoder).__name__
            raise ModelError(f"torch cannot export a {kind} ({first_line(error)})", path=file) from error
    assert program is not None
    graph: Any = program.model
    of_scorer = _strip(graph)
    graph.metadata_props.update(
        metadata | {LIMIT: str(model.pieces.limit), "onnx.quant.pre_process": "onnxruntime.quant"}
    )
    plain = file.with_suffix(".plain") if int8 else file
    program.save(plain, external_data=False)
    _check(model, part, plain)
    if int8:
        with _quiet():
            _quantize(plain, file, of_scorer)
        plain.unlink()
        open_session(file)


def _example(model: NestedNER, *, windows: int, width: int, batch: int, n: int) -> tuple[Tensor, ...]:
    """What could be the tensors of a batch. Only shapes matter."""
    width = min(width, model.pieces.limit)
    known = [piece for word in model.pieces.of_words(["one", "two", "three", "of", "a"]) for piece in word]
    pieces = torch.tensor(known).repeat(windows * width)[: windows * width].view(windows, width)
    attention = torch.ones_like(pieces)
    attention[-1, -1] = 0
    first = torch.arange(batch * n).view(batch, n) % (windows * width // 2) * 2
    return pieces, attention, first, (first + 1).clamp(max=windows * width - 1)


def _strip(graph: Any) -> list[str]:
    """Takes notes of the exporter out of the graph, such as paths of source files; returns the nodes of the scorer."""
    found = []
    for node in graph.graph.all_nodes():
        if "'scorer'" in node.metadata_props.get("pkg.torch.onnx.name_scopes", ""):
            found.append(node.name)
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()
    for value in graph.graph.inputs:
        value.metadata_props.clear()
    graph.graph.metadata_props.clear()
    return found


def _check(model: NestedNER, part: nn.Module, file: Path) -> None:
    """Raises a ModelError if the file does not give the scores of the model, for shapes that were not traced."""
    session = open_session(file)
    for shape in ({"windows": 2, "width": 12, "batch": 1, "n": 9}, {"windows": 1, "width": 3, "batch": 1, "n": 1}):
        tensors = _example(model, **shape)
        with torch.inference_mode():
            wanted = part(*tensors)
        given = {name: value.numpy() for name, value in zip(INPUTS, tensors, strict=True)}
        try:
            found = torch.from_numpy(session.run([OUTPUT], given)[0])
            far = float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1))
        except Exception as error:  # as above
            raise ModelError(f"what was exported does not run ({first_line(error)})", path=file) from error
        if not far <= TOLERANCE:
            raise ModelError(f"what was exported gives other scores than the model (by {far:.2g})", path=file)


def _quantize(plain: Path, file: Path, of_scorer: Sequence[str]) -> None:
    """Whole numbers of 8 bits for the encoder's matrices.

    Square matrices (of attention) have a scale for each column, and the vectors that they are multiplied with one for
    all: the quickest way there is. Others (of feed-forward layers) caused most of the error that way; there, each
    vector has a scale for every 128 numbers. The scorer stays as it is: it is a small
    part of the work, and nothing after it makes up for its errors.
    """
    weights = module("onnxruntime.quantization.matmul_nbits_quantizer")
    quantization = module("onnxruntime.quantization")
    graph = module("onnx").load(plain)
    shapes = {one.name: tuple(one.dims) for one in graph.graph.initializer}
    of_encoder = {
        node.name: shapes[node.input[1]]
        for node in graph.graph.node
        if node.op_type == "MatMul" and node.name not in of_scorer and len(shapes.get(node.input[1], ())) == 2
    }
    square = [name for name, (rows, columns) in of_encoder.items() if rows == columns]
    others = of_encoder.keys() - set(square)
    in_blocks = weights.MatMulNBitsQuantizer(
        graph,
        nodes_to_exclude=[node.name for node in graph.graph.node if node.name not in others],
        algo_config=weights.DefaultWeightOnlyQuantConfig(
            block_size=128, is_symmetric=True, accuracy_level=_INTEGERS, bits=8
        ),
    )
    in_blocks.process()
    graph = in_blocks.model.model
    if not square:  # none would mean all
        module("onnx").save(graph, file)
        return
    quantization.quantize_dynamic(
        graph,
        file,
        op_types_to_quantize=["MatMul"],
        nodes_to_quantize=square,
        per_channel=True,
        reduce_range=False,
        weight_type=quantization.QuantType.QInt8,  # with unsigned vectors, as the instructions of CPUs want them
        extra_options={"MatMulConstBOnly": True},
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Within it, torch and ONNX Runtime say nothing; what goes wrong is raised."""
    root = logging.root
    before, level, handlers = root.manager.disable, root.level, list(root.handlers)  # which some import changes
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
        root.setLevel(level)
        root.handlers[:] = handlers
