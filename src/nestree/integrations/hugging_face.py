"""A call like that of a Hugging Face pipeline: strings in, lists of dictionaries out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice
from os import PathLike
from typing import Any, TypedDict, overload

import torch

from nestree.model import NestedNER
from nestree.prediction import Prediction
from nestree.prediction.predict import checked_texts
from nestree.prediction.results import Flat, Threshold


class EntityGroup(TypedDict):
    """An entity with the keys of transformers' token-classification pipeline, and where it is nested.

    ``start`` and ``end`` count characters of the text, and ``word`` is exactly what stands there. ``score`` is the
    exact marginal probability. ``depth`` is 1 for entities in no other; ``parent`` the number, in the same list, of
    the smallest entity around it, or None.
    """

    entity_group: str
    score: float
    word: str
    start: int
    end: int
    depth: int
    parent: int | None


@dataclass(frozen=True)
class CallOptions:
    """What can be said when a pipeline is made, and again when it is called.

    Attributes:
        batch_size: so many texts are read together; left out, some thousands of sentences of texts.
        threshold: the least probability of an entity, for all labels or by label; left out, the model decides.
        flat: leave out nesting: keep the "outermost", the "innermost" or the "best"-scoring entities.
    """

    batch_size: int | None = None
    threshold: Threshold | None = None
    flat: Flat | None = None

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}; it must be 1 at least.")

    def updated(self, options: Mapping[str, Any]) -> CallOptions:
        """With others. An unknown one is an error that lists the known ones."""
        known = [one.name for one in fields(self)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise TypeError(f"there is no option {unknown[0]!r}; known are {', '.join(known)}.")
        return replace(self, **options)


class NestedPipeline:
    """Finds the entities of texts; :func:`pipeline` makes one.

    Args:
        model: a trained model.
        options: for all calls.
    """

    def __init__(self, model: NestedNER, options: CallOptions | None = None) -> None:
        self.model = model
        self.options = options or CallOptions()

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    @overload
    def __call__(self, inputs: str, **options: Any) -> list[EntityGroup]: ...
    @overload
    def __call__(self, inputs: list[str] | tuple[str, ...], **options: Any) -> list[list[EntityGroup]]: ...
    @overload
    def __call__(self, inputs: Iterable[str], **options: Any) -> Iterator[list[EntityGroup]]: ...
    def __call__(
        self, inputs: str | Iterable[str], **options: Any
    ) -> list[EntityGroup] | list[list[EntityGroup]] | Iterator[list[EntityGroup]]:
        """The entities of one text: a list of dictionaries. Of a list of texts: a list of such lists.

        Of anything else that gives texts (a generator, a data set, a ``KeyDataset`` of transformers): one list after
        the other, as they are asked for, in bounded memory.

        Args:
            inputs: a string, several, or any number.
            **options: of :class:`CallOptions`, for this call.

        Raises:
            TypeError: a text is not a string, or an option is not known.
            ValueError: an option makes no sense.
        """
        how = self.options.updated(options)
        if isinstance(inputs, str):
            return next(self._stream([inputs], how))
        if isinstance(inputs, list | tuple):
            return list(self._stream(inputs, how))
        return self._stream(_items(inputs), how)

    def _stream(self, texts: Iterable[str], how: CallOptions) -> Iterator[list[EntityGroup]]:
        settings = {"threshold": how.threshold, "flat": how.flat}
        if how.batch_size is None:
            yield from map(groups_of, self.model.predict_stream(texts, **settings))
            return
        waiting = checked_texts(texts)
        while some := list(islice(waiting, how.batch_size)):
            yield from map(groups_of, self.model.predict_stream(some, **settings))


def pipeline(
    model: NestedNER | str | PathLike[str],
    *,
    device: str | int | torch.device | None = None,
    batch_size: int | None = None,
    threshold: Threshold | None = None,
    flat: Flat | None = None,
    **hub: Any,
) -> NestedPipeline:
    """Something to call with text, which answers as transformers' token-classification pipeline does.

    ::

        ner = pipeline("runs/mine")
        ner("The mayor of Leeds resigned.")
        # [{'entity_group': 'PER', 'score': 0.84, 'word': 'The mayor of Leeds', 'start': 0, 'end': 18, 'depth': 1, ...

    Args:
        model: a model, the folder of one, or its name on the hub.
        device: where it is to run: "cpu", "cuda:1", the number of a GPU (-1: the CPU); left out, on an NVIDIA GPU if
            there is one and the model is loaded here, else where it is.
        batch_size: as of :class:`CallOptions`.
        threshold: as of :class:`CallOptions`.
        flat: as of :class:`CallOptions`.
        **hub: of :meth:`NestedNER.from_pretrained`: revision, token, cache_dir, local_files_only.

    Raises:
        ModelError: there is no such model.
    """
    if isinstance(model, NestedNER):
        if hub:
            raise TypeError(f"{min(hub)!r} is for models that are to be loaded, and this one is.")
        found = model
    else:
        found = NestedNER.from_pretrained(model, **hub)
        if device is None and torch.cuda.is_available():
            device = "cuda"
    if device is not None:
        found = found.to(_device(device))
    return NestedPipeline(found, CallOptions(batch_size, threshold, flat))


def groups_of(prediction: Prediction) -> list[EntityGroup]:
    """The entities of a prediction, with the keys that people know."""
    return [
        {
            "entity_group": entity.label,
            "score": entity.score,
            "word": entity.text,
            "start": entity.start,
            "end": entity.end,
            "depth": entity.depth,
            "parent": entity.parent,
        }
        for entity in prediction
    ]


def _items(inputs: Any) -> Iterator[Any]:
    """What a data set holds: those of torch need not be iterable, but have a length and numbers."""
    if isinstance(inputs, Mapping):
        raise TypeError("this is a dictionary, and text is wanted; name the texts: inputs['text'].")
    if hasattr(inputs, "__iter__"):
        return iter(inputs)
    if hasattr(inputs, "__len__") and hasattr(inputs, "__getitem__"):
        return (inputs[at] for at in range(len(inputs)))
    raise TypeError(f"texts are wanted, found a {type(inputs).__name__}.")


def _device(device: str | int | torch.device) -> torch.device:
    if isinstance(device, int):
        return torch.device("cpu" if device < 0 else f"cuda:{device}")
    return torch.device(device)
