"""Two systems on the same gold: by how much they differ, whether by more than chance, and in which sentences."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from nestree.data.errors import DataError
from nestree.data.model import Document, Entity, Range
from nestree.data.splitting import Splitter
from nestree.evaluation.bootstrap import Interval, Paired, Unit, choose_unit, compare_units, count_units
from nestree.evaluation.metrics import Counts, Key, Scores, keys, score

if TYPE_CHECKING:
    from nestree.drawing.page import Part

Drawn = tuple[int, int, str, float | None]
"""An entity as it is drawn: words ``[start, end)`` of its sentence, label, score."""

METRICS = {"precision": "P", "recall": "R", "f1": "F1", "macro_f1": "macro F1"}
"""What is compared, and what it is called in tables."""
MOST_DRAWN = 1000
"""So many sentences a page can hold and still be scrolled."""


@dataclass(frozen=True)
class Differing:
    """A sentence in which two systems do not find the same.

    Attributes:
        place: ``file:line`` or name of the document.
        document: its number, from 1.
        sentence: the number of the sentence in it, from 1.
        words: the sentence.
        gold: its entities.
        found: what either system finds.
        counts: how many are right.
    """

    place: str
    document: int
    sentence: int
    words: tuple[str, ...]
    gold: tuple[Drawn, ...]
    found: tuple[tuple[Drawn, ...], tuple[Drawn, ...]]
    counts: tuple[Counts, Counts]

    @property
    def errors(self) -> tuple[int, int]:
        """What either system finds that is wrong, and what it misses, together."""
        one, other = (counts.predicted + counts.gold - 2 * counts.correct for counts in self.counts)
        return one, other

    def as_dict(self, names: tuple[str, str]) -> dict[str, Any]:
        """For JSON; offsets count words."""
        sides = zip(("gold", *names), (self.gold, *self.found), strict=True)
        return {
            "place": self.place,
            "document": self.document,
            "sentence": self.sentence,
            "words": list(self.words),
            **{name: [_named(one) for one in side] for name, side in sides},
        }


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` finds.

    Attributes:
        scores: of either system.
        paired: their scores with intervals, the difference, and its p value.
        unit: what was drawn for the intervals and swapped for the test.
        units: how many there are.
        sentences: how many there are.
        differing: those of them in which the systems do not find the same, in order.
        resamples: of intervals and test.
        level: of the intervals.
        seed: of both.
    """

    scores: tuple[Scores, Scores]
    paired: Paired
    unit: Unit
    units: int
    sentences: int
    differing: tuple[Differing, ...]
    resamples: int
    level: float
    seed: int

    @property
    def better(self) -> tuple[int, int]:
        """Of the differing sentences, in how many either system makes fewer errors."""
        pairs = [one.errors for one in self.differing]
        return sum(one < other for one, other in pairs), sum(other < one for one, other in pairs)

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON: the systems are ``a`` and ``b``, the difference is b less a."""
        found = self.paired.as_dict()
        sides = {
            name: {**scores.as_dict(), "intervals": found[key]}
            for name, key, scores in zip("ab", ("one", "other"), self.scores, strict=True)
        }
        first, second = self.better
        return {
            **sides,
            "difference": found["difference"],
            "p_value": found["p_value"],
            "exact": found["exact"],
            "unit": self.unit,
            "units": self.units,
            "differing_units": found["differing_units"],
            "resamples": self.resamples,
            "level": self.level,
            "seed": self.seed,
            "sentences": self.sentences,
            "differing_sentences": len(self.differing),
            "fewer_errors": {"a": first, "b": second},
            "differing": [one.as_dict(("a", "b")) for one in self.differing],
        }


def _named(one: Drawn) -> dict[str, Any]:
    start, end, label, points = one
    return {"start": start, "end": end, "label": label, **({} if points is None else {"score": round(points, 6)})}


# --- Comparing -------------------------------------------------------------------------------------------------------


def compare(
    gold: Iterable[Document],
    one: Iterable[Document],
    other: Iterable[Document],
    *,
    names: tuple[str, str] = ("A", "B"),
    unit: Unit | Literal["auto"] = "auto",
    splitter: Splitter | None = None,
    resamples: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compares two predictions of the same documents.

    Args:
        gold: documents as they are annotated.
        one: the same documents in the same order, as a system annotates them; joined labels split.
        other: likewise.
        names: what messages call the two.
        unit: what intervals and test draw; "auto" chooses (:func:`nestree.evaluation.bootstrap.choose_unit`).
        splitter: for gold without words or sentences; the default one, if None.
        resamples: of intervals and test.
        level: of the intervals.
        seed: of both.

    Raises:
        DataError: there is no document, or a prediction is not of the same documents; says which.
    """
    how = splitter or Splitter()
    wanted = [how.split(document) for document in gold]
    found = [list(one), list(other)]
    if not wanted:
        raise DataError("gold holds no documents, so there is nothing to compare")
    scores = [_scores(wanted, side, name) for side, name in zip(found, names, strict=True)]
    chosen = choose_unit(wanted) if unit == "auto" else unit
    counts = count_units(wanted, *found, unit=chosen)
    return Comparison(
        scores=(scores[0], scores[1]),
        paired=compare_units(counts[0], counts[1], resamples=resamples, level=level, seed=seed),
        unit=chosen,
        units=len(counts[0]),
        sentences=sum(len(document.sentences or ()) for document in wanted),
        differing=tuple(_differing(wanted, found[0], found[1])),
        resamples=resamples,
        level=level,
        seed=seed,
    )


def _scores(gold: list[Document], predicted: list[Document], name: str) -> Scores:
    try:
        return score(gold, predicted)
    except DataError as error:
        raise DataError(f"{name} does not go with gold: {error.what}", path=error.path, advice=error.advice) from None


def _differing(gold: list[Document], one: list[Document], other: list[Document]) -> Iterator[Differing]:
    for number, (wanted, *sides) in enumerate(zip(gold, one, other, strict=True), 1):
        listed = [keys(document) for document in (wanted, *sides)]
        if listed[1] == listed[2]:
            continue
        assert wanted.tokens is not None
        sentences = wanted.sentences or ()
        starts = [0, *(wanted.tokens[first].start for first, _ in sentences[1:])]
        by_sentence = [_by_sentence(some, starts) for some in listed]
        for at, sentence in enumerate(sentences):
            right, *found = (some[at] for some in by_sentence)
            if found[0] == found[1]:
                continue
            yield Differing(
                place=wanted.place,
                document=number,
                sentence=at + 1,
                words=wanted.words[slice(*sentence)],
                gold=_drawn(wanted, wanted, right, sentence),
                found=(_drawn(sides[0], wanted, found[0], sentence), _drawn(sides[1], wanted, found[1], sentence)),
                counts=(Counts.of(right, found[0]), Counts.of(right, found[1])),
            )


def _by_sentence(listed: set[Key], starts: Sequence[int]) -> list[set[Key]]:
    """The entities of each sentence: those that begin in it."""
    found: list[set[Key]] = [set() for _ in starts]
    for key in listed:
        found[bisect_right(starts, key[0][0]) - 1].add(key)
    return found


def _drawn(document: Document, split: Document, listed: set[Key], sentence: Range) -> tuple[Drawn, ...]:
    """Entities in words of the sentence. What is off word boundaries gets the words it touches, and ends with them."""
    assert split.tokens is not None
    spans: dict[Key, Drawn] = {}
    for entity in document.entities:
        key = _key(entity)
        if key in listed:
            first, last = split.tokens.touched(entity.start, entity.end)
            start = min(max(first, sentence[0]), sentence[1] - 1) - sentence[0]
            end = max(start + 1, min(last, sentence[1]) - sentence[0])
            label = f"{entity.label} (in pieces)" if entity.fragments else entity.label
            spans.setdefault(key, (start, end, label, entity.score))
    return tuple(sorted(spans.values(), key=lambda one: (one[0], -one[1], one[2])))


def _key(entity: Entity) -> Key:
    return (entity.start, entity.end, entity.fragments), entity.label


# --- What is shown ---------------------------------------------------------------------------------------------------


def rows(comparison: Comparison) -> list[list[str]]:
    """The cells of the table: metric, first system, second, difference; in percent, with intervals."""
    paired = comparison.paired
    return [
        [
            name,
            *(_cell(getattr(one, key)) for one in (paired.one, paired.other)),
            _cell(getattr(paired.difference, key), "+"),
        ]
        for key, name in METRICS.items()
    ]


def _cell(interval: Interval, sign: str = "") -> str:
    value, low, high = (round(100 * one, 2) + 0.0 for one in interval)  # no -0.00
    return f"{value:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]"


def verdict(comparison: Comparison, names: tuple[str, str]) -> list[str]:
    """Sentences that say what was found."""
    paired, units = comparison.paired, f"{comparison.units:,} {comparison.unit}{'s' * (comparison.units != 1)}"
    ways = "all" if paired.exact else f"{comparison.resamples:,} random"
    p_value = "p < 0.001" if paired.p_value < 0.001 else f"p = {paired.p_value:.3f}"
    found = [
        f"difference in micro F1 ({names[1]} less {names[0]}): {100 * paired.difference.f1.value:+.2f}, {p_value} "
        f"(two-sided; {ways} ways of swapping the {paired.differing:,} of {units} whose counts differ)",
        f"intervals: {100 * comparison.level:g} percent, {comparison.resamples:,} resamples of {units}",
    ]
    number, (one, other) = len(comparison.differing), comparison.better
    if not number:
        return [*found, "they find the same in all sentences"]
    equal = number - one - other
    return [
        *found,
        f"they differ in {number:,} of {comparison.sentences:,} sentences: {names[0]} makes fewer errors in {one:,}, "
        f"{names[1]} in {other:,}, equally many in {equal:,}",
    ]


def heading(one: Differing, names: tuple[str, str]) -> str:
    """Where a sentence is, and how either system did on it."""
    where = f"{one.place or f'document {one.document}'}, sentence {one.sentence}"
    did = "; ".join(
        f"{name}: {counts.correct} right, {counts.predicted - counts.correct} wrong, "
        f"{counts.gold - counts.correct} missed"
        for name, counts in zip(names, one.counts, strict=True)
    )
    return f"{where} ({did})"


def differences_page(comparison: Comparison, names: tuple[str, str], gold: str = "gold") -> str:
    """A page of HTML: the table, and every sentence in which they differ, drawn three times."""
    from nestree.drawing.page import Figure, Section, Table, Text, page
    from nestree.drawing.spans import spans_svg

    labels = sorted({label for scores in comparison.scores for label in scores.labels})
    parts: list[Part] = []
    for one in comparison.differing[:MOST_DRAWN]:
        parts.append(Text(heading(one, names)))
        for name, side in zip(("gold", *names), (one.gold, *one.found), strict=True):
            parts.append(Figure(spans_svg(one.words, side, labels=labels), name))
    left_out = len(comparison.differing) - MOST_DRAWN
    if left_out > 0:
        parts.append(Text(f"{left_out:,} more are not drawn; nestree compare --json has them all."))
    table = Table(["", *names, "difference"], rows(comparison))
    result = Section("Scores", [table, *map(Text, verdict(comparison, names))])
    return page(
        f"{names[0]} and {names[1]} on {gold}", [result, *([Section("Where they differ", parts)] if parts else [])]
    )
