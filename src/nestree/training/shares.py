"""How much of what is there was annotated: shares of entities, by label.

They are estimated by comparing how many entities there are per word where annotation is complete, and where it is not;
labels that differ widely in this have their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from nestree.data import Document
from nestree.data.errors import DataError
from nestree.training.incomplete import Ground, Parts, Places, is_entity

ENOUGH = 10
"""Expected entities of a label from which on it can have a share of its own."""
ALIKE = 2.0
"""Shares of labels that differ by less than this factor are taken to be the same: topics differ as much."""
NEVER_BY_CHANCE = 3.0
"""So many expected entities of which none is there: by chance, that happens once in twenty times."""


class Counts:
    """Words and entities by ground. Joined labels count for each of their parts.

    Args:
        parts: how labels are taken apart.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.words: Counter[Ground] = Counter()
        self.entities: dict[Ground, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, documents: Iterable[Document], *, parts: Parts | None = None) -> Counts:
        """Counts documents in; their labels may be of another kind."""
        parts = parts or self._parts
        for document in documents:
            places = Places(document)
            hidden = sum(end - start for start, end in places.words)
            self.words[places.unlooked] += hidden
            self.words[places.looked] += len(document.tokens or ()) - hidden
            listed = {(one.start, one.end, part): 1.0 for one in document.entities for part in parts(one.label)}
            for one in filter(is_entity, document.admissible):
                for label in one.labels:
                    assert label is not None
                    listed.setdefault((one.start, one.end, label), 1 / len(one.labels))
            for (start, end, part), number in listed.items():
                ground = places.unlooked if places.is_within(start, end) else places.looked
                self.entities[ground][part] += number
        return self

    def rate(self, part: str) -> float | None:
        """Entities of a label per word where it was annotated completely; None if that is nowhere."""
        complete = [ground for ground, words in self.words.items() if words and not ground.leaves_open(part)]
        words = sum(self.words[ground] for ground in complete)
        found = sum(self.entities[ground][part] for ground in complete)
        return found / words if words and found else None

    def rate_anywhere(self, part: str) -> float:
        """The same, or what was annotated per word of all text if it was nowhere annotated completely."""
        found = sum(of_ground[part] for of_ground in self.entities.values())
        return self.rate(part) or found / max(1, sum(self.words.values()))


Shares = dict[Ground, dict[str, float]]
"""Of each ground, and each single label that is open there, the share of its entities that was annotated."""


def annotated_shares(own: Counts, reference: Counts, labels: Sequence[str], given: float, path: str) -> Shares:
    """The share of the entities of each label that was annotated, by ground.

    Args:
        own: of the training data.
        reference: of all data.
        labels: single ones.
        given: a share that the user knows; 0: it is estimated.
        path: of the training data, for errors.

    Raises:
        DataError: nothing was annotated completely, so that there is nothing to compare with.
    """
    rates = {label: reference.rate(label) for label in labels}
    found: Shares = {}
    for ground, words in own.words.items():
        open_ones = [label for label in labels if ground.leaves_open(label)]
        if not words or not open_ones:
            continue
        observed = {label: own.entities[ground][label] for label in open_ones}
        expected = {label: words * (rates[label] or 0.0) for label in open_ones}
        if not any(observed.values()):
            found[ground] = dict.fromkeys(open_ones, 0.0)
        elif given and not ground.unknown:
            found[ground] = dict.fromkeys(open_ones, given)
        elif not any(expected.values()):
            raise DataError(
                f"no document, of training or dev data, is annotated completely for any of {', '.join(open_ones)}: "
                "nothing says what share of the entities is annotated in the others",
                path=path,
                advice="Add complete documents."
                if ground.unknown
                else "Say it by annotated_share (0.5: every second one), or add complete documents.",
            )
        elif ground.whole:  # answers to single questions are no share of what is there
            found[ground] = dict.fromkeys(open_ones, 0.0)
        else:
            found[ground] = _estimated(observed, expected, without_measure=0.0 if ground.unknown else 1.0)
    return found


def _estimated(observed: dict[str, float], expected: dict[str, float], *, without_measure: float) -> dict[str, float]:
    """The share of the expected entities that was observed, of each label; or what it is if nothing measures it."""
    alike = [label for label, number in expected.items() if number and observed[label]]
    if not alike:  # nothing of what is there was to be expected
        return dict.fromkeys(expected, without_measure)
    while True:
        together = sum(observed[label] for label in alike) / sum(expected[label] for label in alike)
        like_all = [label for label in alike if _is_like(observed[label], expected[label], together)]
        if like_all == alike or not like_all:
            break
        alike = like_all  # what differs widely is no measure for the others
    shares = {}
    for label, number in expected.items():
        if not observed[label] and number * together > NEVER_BY_CHANCE:
            shares[label] = 0.0
        else:
            like = _is_like(observed[label], number, together)
            shares[label] = min(1.0, together if like else observed[label] / number)
    return shares


def _is_like(observed: float, expected: float, share: float) -> bool:
    return expected < ENOUGH or share / ALIKE <= observed / expected <= share * ALIKE


def described(shares: Shares, documents: int) -> Iterator[str]:
    """What to tell people about incomplete annotation."""
    yield f"{documents} training documents are not annotated completely or not for certain: what is open is summed out"
    for ground, of_label in sorted(shares.items(), key=str):
        where = "where nobody looked" if ground.unknown else f"where {_listed(ground.complete)} complete"
        where = "where only single answers are known" if ground.whole and ground.touched else where
        listed = ", ".join(f"{label} {100 * share:.0f}%" for label, share in of_label.items())
        yield f"  {where}, of the entities are taken to be annotated: {listed}"


def _listed(labels: tuple[str, ...] | None) -> str:
    if not labels:
        return "no label is"
    return f"{labels[0]} is" if len(labels) == 1 else f"{', '.join(labels)} are"
