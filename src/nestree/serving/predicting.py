"""From the body of a request to the body of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic_core import to_json

from nestree import __version__
from nestree.data import Document
from nestree.model import NestedNER
from nestree.prediction import Prediction
from nestree.prediction.documents import words_of
from nestree.prediction.predict import Finder, Options, assembled, check_options
from nestree.serving.batcher import Batcher, QueueFullError
from nestree.serving.jobs import TREES, Job
from nestree.serving.metrics import Metrics
from nestree.serving.problems import Problem, of_validation, pointer
from nestree.serving.schema import PredictRequest
from nestree.serving.settings import Limits, Settings

AT_ONCE = 8192
"""Requests of so many characters are split, and their answers written, on the event loop; larger ones in a thread."""
CHARACTERS_OF_A_WORD = 6
"""With the space after it: to know about how many words a text has before it is split."""

Result = TypeVar("Result")
Receive = Callable[[], Awaitable[Any]]


class ClientLeftError(Exception):
    """Nobody waits for the answer."""


class Answered(NamedTuple):
    """An answer, and what is said of it in the logs."""

    body: bytes
    documents: int
    words: int
    entities: int


class Predictor:
    """Answers requests with a model.

    Args:
        model: that reads them.
        name: of the model.
        settings: of the service.
        metrics: where things are counted.
    """

    def __init__(self, model: NestedNER, name: str, settings: Settings, metrics: Metrics) -> None:
        self._model = model
        self._limits = settings.limits
        self._max_words = settings.max_words
        self._metrics = metrics
        self._told = {"name": name, "version": __version__}
        self.batcher = Batcher(
            model,
            queue_words=settings.limits.queue_words,
            queue_seconds=settings.limits.seconds / 3,
            max_words=settings.max_words,
            batch_work=settings.batch_work,
            cores=settings.threads,
            batching=settings.batching,
            on_batch=metrics.read,
        )
        self._aside = ThreadPoolExecutor(1, "nestree-aside")

    def start(self) -> None:
        """Begins to read."""
        self.batcher.start()

    async def close(self) -> None:
        """Ends when all that was accepted is read."""
        await self.batcher.close()
        self._aside.shutdown(wait=False)

    def check_room(self, words: int = 1) -> None:
        """Raises a Problem if so many words are too many to wait."""
        try:
            self.batcher.check_room(words)
        except QueueFullError as error:
            waiting, most = self.batcher.waiting_words, self._limits.queue_words
            self._metrics.refused.labels("queue-full").inc()
            raise Problem(
                "queue-full",
                f"about {waiting} words wait or are being read, this request has about {words}, and {most} may wait",
                headers={"Retry-After": str(error.seconds)},
            ) from None

    async def answer(self, body: bytes, receive: Receive) -> Answered:
        """The answer to a request.

        Args:
            body: of the request.
            receive: tells when the client leaves.

        Raises:
            Problem: the request is wrong, or there is no room, or no time.
            ClientLeftError: nobody waits any more.
        """
        request = parsed(body)
        check_limits(request, self._limits)
        options, find = self._options(request)
        size = _size(request)
        words = max(1 + size // CHARACTERS_OF_A_WORD, sum(map(len, request.tokens or ())))
        price = TREES if options.alternatives else 1
        self.check_room(words * price)
        self._wait_for(words * price)
        working = asyncio.ensure_future(self._work(request, options, find, size))
        left = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((working, left), timeout=self._limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            if left.done():
                raise ClientLeftError
            raise Problem("took-too-long", f"the answer was not there after {self._limits.seconds:g} s")
        finally:
            left.cancel()
            working.cancel()
            self._wait_for(-words * price)

    async def _work(
        self, request: PredictRequest, options: Options, find: Callable[[int], Finder], size: int
    ) -> Answered:
        documents = await self._run(size, partial(self._documents, request))
        job = self.batcher.submit(find, _sentences(documents))
        await job.done  # cancelled with this task, at once, so that readers know it before the client does
        return await self._run(size, partial(self._written, request, documents, job, options))

    def _options(self, request: PredictRequest) -> tuple[Options, Callable[[int], Finder]]:
        """What is asked for, and what finds it in a sentence of so many words."""
        options = Options(
            threshold=request.threshold,
            flat=request.flat,
            trees=request.trees,
            alternatives=request.alternatives,
            max_words=self._max_words,
        )
        try:
            thresholds = check_options(options, self._model.config)
        except ValueError as error:
            raise Problem("not-valid", str(error), where=_where(request, self._model.config.single_labels)) from None
        whole = Finder(self._model, options, thresholds)
        if not options.alternatives:
            return options, lambda words: whole
        plain, most = Finder(self._model, replace(options, alternatives=0), thresholds), self._limits.alternative_words
        return options, lambda words: whole if words <= most else plain

    def _wait_for(self, words: int) -> None:
        self.batcher.waiting_words += words
        self._metrics.waiting.set(self.batcher.waiting_words)

    async def _run(self, size: int, do: Callable[[], Result]) -> Result:
        """What takes long must not stop the event loop."""
        if size <= AT_ONCE:
            return do()
        return await asyncio.get_running_loop().run_in_executor(self._aside, do)

    def _documents(self, request: PredictRequest) -> list[Document]:
        if request.tokens is not None:
            return [Document.from_words(words) for words in request.tokens]
        texts = [request.text] if request.text is not None else request.texts or []
        split = self._model.config.splitter.split
        return [split(Document(text)) for text in texts]

    def _written(self, request: PredictRequest, documents: Sequence[Document], job: Job, options: Options) -> Answered:
        in_words = request.tokens is not None
        at, found = 0, []
        for document in documents:
            end = at + len(document.sentences or ())
            found.append(assembled(document, job.found[at:end], job.windowed[at:end], options, in_words))
            at = end
        content = {"model": self._told, "documents": [_as_dict(one) for one in found]}
        for one in found:
            for entity in one.entities:
                self._metrics.entities.labels(entity.label).inc()
        words = sum(len(document.tokens or ()) for document in documents)
        return Answered(to_json(content), len(found), words, sum(map(len, found)))


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def parsed(body: bytes) -> PredictRequest:
    """A request, as far as it can be checked without the model and its limits.

    Raises:
        Problem: it is no JSON, or not what is described.
    """
    try:
        return PredictRequest.model_validate_json(body)
    except ValidationError as error:
        raise of_validation(error, PredictRequest.model_fields) from None


def check_limits(request: PredictRequest, limits: Limits) -> None:
    """Raises a Problem that says which limit a request exceeds, and where."""
    if request.alternatives > limits.alternatives:
        raise _beyond("alternatives", request.alternatives, "next best trees", limits.alternatives, "/alternatives")
    if request.text is not None and len(request.text) > limits.characters:
        raise _beyond("text", len(request.text), "characters", limits.characters, "/text")
    for name, what in (("texts", "texts"), ("tokens", "lists of words")):
        found = getattr(request, name)
        if found is not None and len(found) > limits.texts:
            raise _beyond(name, len(found), what, limits.texts, f"/{name}")
    for number, text in enumerate(request.texts or ()):
        if len(text) > limits.characters:
            raise _beyond("a text", len(text), "characters", limits.characters, f"/texts/{number}")
    for number, words in enumerate(request.tokens or ()):
        if len(words) > limits.words:
            raise _beyond("a list", len(words), "words", limits.words, f"/tokens/{number}")
        for place, word in enumerate(words):
            if not word or word.isspace():
                advice = "Every word needs a visible character."
                where = pointer(("tokens", number, place))
                raise Problem("not-valid", "there is an empty word", where=where, advice=advice)


def _where(request: PredictRequest, labels: Sequence[str]) -> str:
    """What of a request does not go with the model."""
    if isinstance(request.threshold, dict):
        for label in request.threshold:
            if label not in labels:
                return pointer(("threshold", label))
    return "/trees" if request.trees else "/alternatives"


def _beyond(what: str, found: int, unit: str, most: int, where: str) -> Problem:
    return Problem("not-valid", f"{what} has {found} {unit}, and {most} are allowed", where=where)


def _size(request: PredictRequest) -> int:
    """In characters."""
    if request.text is not None:
        return len(request.text)
    if request.texts is not None:
        return sum(map(len, request.texts))
    return sum(len(words) + sum(map(len, words)) for words in request.tokens or ())


def _sentences(documents: Sequence[Document]) -> list[list[str]]:
    return [words_of(document, *one) for document in documents for one in document.sentences or ()]


def _as_dict(found: Prediction) -> dict[str, Any]:
    document = found.document
    tokens = document.tokens
    assert tokens is not None
    trees = alternatives = None
    if found.trees is not None:
        trees = [{"nodes": [node._asdict() for node in tree]} for tree in found.trees]
    if found.alternatives is not None:
        alternatives = [
            [
                {
                    "probability": one.probability,
                    "nodes": [{"start": start, "end": end, "label": label} for start, end, label in one.nodes],
                }
                for one in of_sentence
            ]
            for of_sentence in found.alternatives
        ]
    return {
        "text": document.text,
        "words": list(zip(tokens.starts, tokens.ends, strict=True)),
        "sentences": document.sentences,
        "entities": [entity._asdict() for entity in found.entities],
        "windowed": found.windowed,
        "trees": trees,
        "alternatives": alternatives,
    }
