"""What a run learns from: sentences with words, pieces and entities, and a report of how they came to be."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from nestree.crf import Doubts
from nestree.data import Document, Report, Splitter, apply, read, split_label
from nestree.data.errors import DataError
from nestree.data.formats import detect, get
from nestree.data.model import Range
from nestree.data.statistics import Statistics, count
from nestree.evaluation.metrics import keys, unreachable
from nestree.training.config import TrainConfig
from nestree.training.incomplete import has_entities, labels_in_doubt, parts_of
from nestree.training.openings import Openings
from nestree.training.shares import Counts, annotated_shares, described

Spans = tuple[tuple[int, int, str | int], ...]


class Sentence(NamedTuple):
    """Words, and their entities: start, end (half-open, in words), label; and what annotation leaves open.

    In place of a label there may be the number of a set of labels, one of which it has.
    """

    words: tuple[str, ...]
    spans: Spans
    doubts: Doubts | None = None


@dataclass(frozen=True)
class Part:
    """One split of a corpus, as it was found.

    Attributes:
        path: where it was read; of several files, all of them.
        format: as what.
        options: of that format.
        fingerprint: SHA-256 over all words and entities: the same in any format.
        documents: with words and sentences; entities as the files say.
        statistics: of those.
        report: what was noticed while reading.
        parts: what it was put together from, if it was.
    """

    path: str
    format: str
    options: Mapping[str, str]
    fingerprint: str
    documents: tuple[Document, ...]
    statistics: Statistics
    report: Report
    parts: tuple[Part, ...] = ()

    @property
    def files(self) -> tuple[Part, ...]:
        """Each file, or folder, that was read for it."""
        return self.parts or (self,)


@dataclass(frozen=True)
class Corpus:
    """What a run needs of its corpora.

    Attributes:
        train: as read.
        dev: as read; gold is what it says.
        sentences: of train, with entities that a tree can hold.
        labels: of those entities, joined ones included.
        sets: sets of labels that spans may have where annotation is not complete or not certain: a weight for each
            label, and for being no entity.
        rates: entities per word of each label, where it was annotated completely; of a joined one, of its rarest part.
        report: what the policies did to train.
        notes: what the user should know before training.
    """

    train: Part
    dev: Part
    sentences: tuple[Sentence, ...]
    labels: tuple[str, ...]
    report: Report
    notes: tuple[str, ...] = field(default=())
    sets: tuple[tuple[float, ...], ...] = field(default=())
    rates: tuple[float, ...] = field(default=())


def load_part(
    path: str | PathLike[str],
    splitter: Splitter,
    format_name: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Part:
    """Reads one split; splits text that comes without words or sentences."""
    report = Report()
    found = detect(Path(path)) if format_name is None else get(format_name)
    documents = tuple(
        document if document.tokens is not None and document.sentences is not None else splitter.split(document)
        for document in read(path, format_name, options=dict(options or {}), report=report)
    )
    for document in documents:
        _check_text(document)
    return Part(str(path), found.name, dict(options or {}), fingerprint(documents), documents, count(documents), report)


def together(parts: Sequence[Part]) -> Part:
    """Several files as one split, in their order."""
    if len(parts) == 1:
        return parts[0]
    documents = tuple(document for part in parts for document in part.documents)
    report = Report()
    for part in parts:
        for note in part.report:
            report.add(note)
    path = ", ".join(part.path for part in parts)
    formats = ", ".join(dict.fromkeys(part.format for part in parts))
    return Part(path, formats, {}, fingerprint(documents), documents, count(documents), report, tuple(parts))


def _check_text(document: Document) -> None:
    """Refuses what is no text: neither a tokenizer nor a file takes it."""
    for what, text in (("text", document.text), *(("label", entity.label) for entity in document.entities)):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            found = f"a {what} holds a lone surrogate, {text[error.start]!r}, which is no character"
            raise DataError(found, path=document.place or None, advice="Mend the file's encoding.") from None


def fingerprint(documents: Iterable[Document]) -> str:
    """SHA-256 over words, sentences and entities, and what annotation leaves open."""
    digest = hashlib.sha256()
    for document in documents:
        entities = [(one.start, one.end, one.label, one.fragments) for one in document.entities]
        found: tuple[object, ...] = (document.words, document.sentences, entities)
        if document.incomplete:
            found = (*found, document.complete_labels, document.unknown, document.admissible)
        digest.update(repr(found).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def prepare(train: Part, dev: Part, config: TrainConfig) -> Corpus:
    """Makes train learnable by the policies, and refuses what could only fail.

    Raises:
        DataError: a split without entities, none that a tree can hold, a label of dev that train does not have, or
            whatever a policy calls an error.
    """
    for part, name in ((train, "training"), (dev, "dev")):
        if not any(map(has_entities, part.documents)):
            what = f"there is no entity in the {name} data, read as {part.format}"
            raise DataError(
                what, path=part.path, advice="Is it annotated, and is that its format? Name it by --format."
            )
    report = Report()
    fitted = [apply(document, config.policies, report) for document in train.documents]
    joined = config.same_span == "composite"
    in_doubt = labels_in_doubt(fitted, joined=joined)
    labels = tuple(sorted({entity.label for one in fitted for entity in one.entities} | in_doubt))
    if not labels:
        raise DataError(
            f"no entity of the training data can be learned: {'; '.join(report.summary())}",
            path=train.path,
            advice="Choose other policies (alignment, crossing, discontinuous), or mend it: `nestree data check`.",
        )
    notes = [*_missing(labels, dev, config), *_unreachable(dev), *_predicted(train)]
    if train.fingerprint == dev.fingerprint:
        notes.append("training and dev data are the same: scores will say what was learned by heart")
    parts = parts_of(joined=joined)
    own = Counts(parts).add(fitted)
    incomplete = sum(document.incomplete for document in fitted)
    shares = {}
    if incomplete:
        single = sorted({part for label in labels for part in parts(label)})
        reference = Counts(parts).add(fitted).add(dev.documents, parts=parts_of(joined=False))
        shares = annotated_shares(own, reference, single, config.annotated_share, train.path)
        notes += described(shares, incomplete)
    if any(document.incomplete for document in dev.documents):
        notes.append("dev is not annotated completely: predictions that it cannot judge are left out of its scores")
    openings = Openings(labels, parts, shares, report)
    sentences = tuple(sentence for document in fitted for sentence in _sentences(document, openings))
    rates = tuple(min(own.rate_anywhere(part) for part in parts(label)) for label in labels)
    return Corpus(train, dev, sentences, labels, report, tuple(notes), openings.sets, rates)


def label_shift(corpus: Corpus, strength: float, latent_labels: int) -> list[float]:
    """What to add to the log potentials of each label in training, so that rare ones are favoured in prediction.

    It is the logarithm of how frequent a label is, beside the most frequent one, times the strength. What is added
    for a model to learn with, it need not learn itself: when it predicts, its scores are as if labels were alike.
    """
    known = [rate for rate in corpus.rates if rate]
    most, least = max(known, default=1.0), min(known, default=1.0)
    return [strength * math.log((rate or least) / most) for rate in corpus.rates] + [0.0] * latent_labels


def _sentences(document: Document, openings: Openings) -> Iterator[Sentence]:
    """The sentences of a document to which policies were applied."""
    waiting = sorted((one.token_start or 0, one.token_end or 0, one.label) for one in document.entities)
    at = 0
    listed: list[tuple[Range, list[tuple[int, int, str]]]] = []
    for start, end in document.sentences or ():
        spans = []
        while at < len(waiting) and waiting[at][0] < end:
            first, last, label = waiting[at]
            spans.append((first - start, last - start, label))
            at += 1
        listed.append(((start, end), spans))
    for ((start, end), _), opened in zip(listed, openings.of_document(document, listed), strict=True):
        yield Sentence(document.words[start:end], *opened)


def _missing(labels: Sequence[str], dev: Part, config: TrainConfig) -> Iterator[str]:
    """Labels of dev that cannot be learned."""
    joined = config.same_span == "composite"
    known = {single for label in labels for single in (split_label(label) if joined else (label,))}
    listed = Counter(entity.label for document in dev.documents for entity in document.entities)
    missing = {label: number for label, number in listed.items() if label not in known}
    if not missing:
        return
    names = ", ".join(f"{label!r} ({number} entities)" for label, number in sorted(missing.items()))
    if config.missing_labels == "error":
        raise DataError(
            f"dev has labels that the training data does not have: {names}; it has {', '.join(sorted(known))}",
            path=dev.path,
            advice="Mend the labels, or set missing_labels = ignore (they then count as missed).",
        )
    yield f"labels of dev that the training data does not have count as missed: {names}"


def _predicted(train: Part) -> Iterator[str]:
    """Whether entities look as if nobody annotated them."""
    found = sum(any(one.score is not None for one in document.entities) for document in train.documents)
    if found:
        yield f"entities of {found} training documents have scores, as predictions do: they are taken as annotated"


def _unreachable(dev: Part) -> Iterator[str]:
    """How much of dev's gold no tree can hold; stops if that is all of it."""
    found: Counter[str] = Counter()
    for document in dev.documents:
        found.update(unreachable(document, document))
    total = sum(len(keys(document)) for document in dev.documents)
    if not found.total():
        return
    why = ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in found.items())
    if found.total() == total:
        raise DataError(
            f"no entity of dev can be found by a model, whatever it learns: {why}",
            path=dev.path,
            advice="Choose another splitting (words, sentences, language), or mend the offsets: `nestree data check`.",
        )
    yield f"{found.total()} of dev's {total} entities cannot be in any tree and count as missed: {why}"
