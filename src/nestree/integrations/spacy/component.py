"""The component that finds nested entities in the documents of a spaCy pipeline."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from spacy.pipeline import Pipe
from spacy.util import minibatch

from nestree.integrations.spacy import storage
from nestree.integrations.spacy.documents import check_free, document_of, write_entities
from nestree.integrations.spacy.settings import Settings

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.training import Example

    from nestree.model import NestedNER


class NestedEntityRecognizer(Pipe):
    """Writes the nested entities that a model finds to ``doc.spans``.

    Args:
        name: of the component in its pipeline.
        settings: how it reads and writes.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self._ner: NestedNER | None = None
        self._inherited: NestedNER | None = None
        self._origin: Path | None = None
        self._process = os.getpid()

    # --- The model ---

    @property
    def ner(self) -> NestedNER:
        """The model; loaded now, if it was not needed before."""
        if self._process != os.getpid():
            self._become_a_worker()
        if self._ner is None:
            self.load()
        assert self._ner is not None
        return self._ner

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that entities can have; none as long as the model is not loaded."""
        return () if self._ner is None else self._ner.config.single_labels

    def load(self) -> None:
        """Loads the model that the settings name.

        Raises:
            ModelError: there is none, or it is damaged.
        """
        from nestree.model import ModelError

        if self.settings.model is None:
            advice = 'Name one: nlp.add_pipe("nestree", config={"model": "runs/mine"}).'
            raise ModelError(f"the component {self.name!r} has no model", advice=advice)
        self._load(self.settings.model)

    def _load(self, name: str | Path) -> None:
        from nestree.model import NestedNER
        from nestree.prediction.results import check_threshold

        device = _device(self.settings.device)
        ner = NestedNER.from_pretrained(name)
        check_threshold(self.settings.threshold, ner.config.single_labels)
        self._ner = ner.to(device).eval()
        self._origin = Path(name).resolve() if Path(name).is_dir() else None

    def _become_a_worker(self) -> None:
        """What holds in a process that was forked: threads are not inherited, and whoever waits for one waits forever.

        Processes share the cores, so one thread is also what each of them should use.
        """
        from nestree.export import ExportedNER
        from nestree.export import load as load_exported

        _use_one_thread()
        if self._ner is not None and self._ner.device.type == "cuda":
            raise RuntimeError(
                f"the model of the component {self.name!r} is on a GPU, which processes that are forked cannot use. "
                'Take n_process=1, or set device = "cpu".'
            )
        if isinstance(self._ner, ExportedNER) and self._origin is not None:
            self._inherited = self._ner  # kept: to end it would wait for its threads, too
            self._ner = load_exported(self._origin, threads=1)
        self._process = os.getpid()

    # --- Documents ---

    def __call__(self, doc: Doc) -> Doc:
        """The same Doc, with its entities."""
        check_free(doc, self.settings, self.name)
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """The same Docs, in their order, with their entities.

        Sentences of similar length are read together, wherever they stand in the ``batch_size`` Docs that are looked at
        at a time.
        """
        handle = self.get_error_handler()
        for docs in minibatch(stream, batch_size):  # type: ignore[no-untyped-call]
            fit = []
            for doc in docs:
                try:
                    check_free(doc, self.settings, self.name)
                    fit.append(doc)
                except ValueError as error:
                    handle(self.name, self, [doc], error)
            try:
                self._annotate(fit)
            except Exception:  # one of them is at fault
                yield from self._one_by_one(fit)
            else:
                yield from fit

    def _one_by_one(self, docs: Sequence[Doc]) -> Iterator[Doc]:
        """Docs with their entities; of those that fail, the pipeline decides what becomes of them."""
        handle = self.get_error_handler()
        for doc in docs:
            try:
                self._annotate([doc])
            except Exception as error:
                handle(self.name, self, [doc], error)
            else:
                yield doc

    def _annotate(self, docs: Sequence[Doc]) -> None:
        from nestree.prediction.predict import Options, predictions

        ner, settings = self.ner, self.settings
        documents = (document_of(doc, settings, ner.config.splitter) for doc in docs)
        found = predictions(ner, documents, Options(threshold=settings.threshold))
        for doc, prediction in zip(docs, found, strict=True):
            write_entities(doc, prediction.document.entities, settings, self.name)

    def score(self, examples: Iterable[Example], **options: Any) -> dict[str, Any]:
        """Precision, recall and F1 of the spans, for ``nlp.evaluate``."""
        from spacy.pipeline.spancat import spancat_score

        return spancat_score(examples, **{"spans_key": self.settings.spans_key, "labels": self.labels, **options})

    # --- Saving ---

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Writes the model into a folder, from which ``NestedNER.from_pretrained`` can load it, too."""
        storage.save(self.ner, Path(path), self._origin)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> NestedEntityRecognizer:
        """Takes the model from a folder; if the pipeline was saved without it, the one that the settings name."""
        from nestree.model import ModelError

        if Path(path).is_dir():
            self._load(Path(path))
            return self
        try:
            self.load()
        except ModelError as error:
            what = "the pipeline was saved without the model of this component"
            raise ModelError(what, path=path, advice=f"It is not where it came from either: {error}") from None
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The files of the model, packed."""
        return storage.to_bytes(self.ner, self._origin)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> NestedEntityRecognizer:
        """Takes the model from what :meth:`to_bytes` gave."""
        from nestree.export import ExportedNER

        folder = Path(mkdtemp(prefix="nestree-")).resolve()
        remove = weakref.finalize(self, _remove, folder, os.getpid())
        kept = False
        try:
            storage.from_bytes(data, folder)
            self._load(folder)
            kept = isinstance(self._ner, ExportedNER)  # to be copied if the pipeline is saved, or read by a worker
        finally:
            if not kept:
                remove()
                self._origin = None if self._origin == folder else self._origin
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """For processes that are not forked: the model goes as bytes."""
        data = None if self._ner is None else self.to_bytes()
        return _again, (self.name, self.settings, data, getattr(self, "error_handler", None))


def _again(name: str, settings: Settings, data: bytes | None, error_handler: Any) -> NestedEntityRecognizer:
    if multiprocessing.parent_process() is not None:
        _use_one_thread()
    found = NestedEntityRecognizer(name, settings)
    if error_handler is not None:
        found.set_error_handler(error_handler)
    return found if data is None else found.from_bytes(data)


def _remove(folder: Path, process: int) -> None:
    """Removes a folder, unless it belongs to the process that this one was forked from."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _use_one_thread() -> None:
    import torch

    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # their threads, too


def _device(name: str) -> Any:
    """Where to compute.

    Raises:
        ValueError: torch does not know such a device, or there is none here.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device is {name!r}; known are 'auto', 'cpu', 'cuda', 'cuda:1' and so on, 'mps'.") from None
    there: dict[str, Callable[[], bool]] = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    if device.type in there and not there[device.type]():
        raise ValueError(f"device is {name!r}, and torch finds none here; 'auto' takes what is there.")
    return device
