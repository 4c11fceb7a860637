"""The core of all engines: batches of texts in, batches of predictions out. It knows no engine and no files."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from nestree.data import Document
from nestree.model import NestedNER
from nestree.prediction.predict import Options, predictions
from nestree.prediction.results import Prediction


def predict_batches(
    model: NestedNER, batches: Iterable[Sequence[str | Document]], options: Options | None = None
) -> Iterator[list[Prediction]]:
    """For each batch the predictions of its texts, in their order.

    The size of a batch is the caller's business: the model reads on over the ends of batches, so that small ones cost
    nothing, and holds a few thousand sentences at a time, however many batches there are.

    Args:
        model: on any device.
        batches: of texts, or of documents; those without words are split as the model was trained to read them.
        options: as of ``NestedNER.predict``.

    Raises:
        TypeError: an item is neither a text nor a document; says which one.
        ValueError: a threshold makes no sense, or trees are asked of a model that has none.
    """
    sizes: deque[int] = deque()

    def documents() -> Iterator[Document]:
        for number, batch in enumerate(batches):
            sizes.append(len(batch))
            for place, item in enumerate(batch):
                yield _document(model, item, f"item {place} of batch {number}")

    return _in_batches(predictions(model, documents(), options or Options()), sizes)


def _in_batches(found: Iterable[Prediction], sizes: deque[int]) -> Iterator[list[Prediction]]:
    """Predictions in lists of these sizes, which are known when the first of a list comes."""
    ready: list[Prediction] = []
    for one in found:
        while sizes[0] == 0:
            sizes.popleft()
            yield []
        ready.append(one)
        if len(ready) == sizes[0]:
            sizes.popleft()
            yield ready
            ready = []
    for _ in sizes:
        yield []


def _document(model: NestedNER, item: str | Document, place: str) -> Document:
    if isinstance(item, str):
        item = Document(item)
    elif not isinstance(item, Document):
        raise TypeError(f"{place} is a {type(item).__name__}, not a text or a document.")
    if item.tokens is None or item.sentences is None:
        return model.config.splitter.split(item)
    return item
