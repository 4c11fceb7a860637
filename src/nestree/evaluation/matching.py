"""Which predicted entity stands for which gold entity, and how much that is worth. No torch here.

Four ways (:data:`MATCHES`). In all of them an entity of either side is part of one pair at most, so that nothing is
credited twice, and the pairing is a best one, so that the order of entities does not matter:

- ``exact``: the same place and the same label; worth 1.
- ``boundary``: the same place, whatever the label; worth 1.
- ``overlap``: the same label and a shared character; worth 1. The most pairs there can be.
- ``partial``: the same label and a shared character; worth the characters that both have over those that one of them
  has (intersection over union). The largest sum there can be.

White space counts as no character. Of a discontinuous entity the characters are those of its pieces.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import accumulate
from typing import Literal, NamedTuple, get_args

from nestree.data.model import Range
from nestree.evaluation.metrics import Key, Place

Match = Literal["exact", "boundary", "overlap", "partial"]
MATCHES: tuple[Match, ...] = get_args(Match)
"""The names of the ways to match."""


class Pair(NamedTuple):
    """A gold entity, the predicted one that stands for it, and what that is worth: more than 0, at most 1."""

    gold: Key
    predicted: Key
    credit: float


def pairs(gold: Collection[Key], predicted: Collection[Key], match: Match, text: str) -> list[Pair]:
    """The pairs of two sets of entities of a text. Where several pairings are best, it is always the same one.

    Of the most pairs, ``boundary`` takes those with the same label first, and ``overlap`` those that share most.
    """
    if match not in MATCHES:
        raise ValueError(f"match is {match!r}; known are {', '.join(map(repr, MATCHES))}.")
    wanted, found = sorted(set(gold)), sorted(set(predicted))
    if match == "exact":
        also = set(found)
        return [Pair(key, key, 1.0) for key in wanted if key in also]
    if match == "boundary":
        return [pair for some, others in _by_place(wanted, found) for pair in _same_place(some, others)]
    shares = _Shares(text)
    result: list[Pair] = []
    for label in sorted({label for _, label in wanted} & {label for _, label in found}):
        some, others = ([place for place, other in side if other == label] for side in (wanted, found))
        result += _overlapping(some, others, label, shares, match == "partial")
    return result


def _by_place(gold: Iterable[Key], predicted: Iterable[Key]) -> Iterator[tuple[list[Key], list[Key]]]:
    places: dict[Place, tuple[list[Key], list[Key]]] = {}
    for side, keys in enumerate((gold, predicted)):
        for key in keys:
            places.setdefault(key[0], ([], []))[side].append(key)
    yield from places.values()


def _same_place(gold: list[Key], predicted: list[Key]) -> Iterator[Pair]:
    """Pairs of entities that differ in label at most: first those that do not."""
    also = set(gold) & set(predicted)
    yield from (Pair(key, key, 1.0) for key in gold if key in also)
    some, others = ([key for key in side if key not in also] for side in (gold, predicted))
    yield from (Pair(one, other, 1.0) for one, other in zip(some, others, strict=False))


def _overlapping(gold: list[Place], predicted: list[Place], label: str, shares: _Shares, partial: bool) -> list[Pair]:
    """The best pairs of places that have one label."""
    same = set(gold) & set(predicted) if partial else set()
    if same:  # always part of a best pairing: 1 - share is a distance, for which the triangle inequality holds
        gold, predicted = ([place for place in side if place not in same] for side in (gold, predicted))
    share = {
        (row, column): value
        for row, column in _touching(gold, predicted)
        if (value := shares.of(gold[row], predicted[column])) > 0
    }
    # Whatever the shares add up to, it must not outweigh one pair more.
    least = 1 + min(len(gold), len(predicted))
    best = best_pairs(share if partial else {edge: 1 + value / least for edge, value in share.items()})
    return [
        *(Pair((place, label), (place, label), 1.0) for place in sorted(same)),
        *(
            Pair((gold[row], label), (predicted[column], label), share[row, column] if partial else 1.0)
            for row, column in best
        ),
    ]


def _touching(gold: list[Place], predicted: list[Place]) -> Iterator[tuple[int, int]]:
    """Pairs of numbers of places that have a position between start and end in common, or are the same."""
    starts = [start for start, _, _ in predicted]  # sorted, as the places are
    reach = list(accumulate((end for _, end, _ in predicted), max))
    for row, place in enumerate(gold):
        start, end, _ = place
        for column in range(bisect_right(reach, start), bisect_left(starts, end)):
            if predicted[column][1] > start:
                yield row, column


class _Shares:
    """How much two places of a text have in common."""

    def __init__(self, text: str) -> None:
        self._before = list(accumulate((not character.isspace() for character in text), initial=0))

    def of(self, one: Place, other: Place) -> float:
        """The characters that both have over those that one of them has; 1 if the places are the same."""
        if one == other:
            return 1.0
        some, others = _pieces(one), _pieces(other)
        both = sum(self._visible(max(a, c), min(b, d)) for a, b in some for c, d in others)
        if not both:
            return 0.0
        return both / (sum(self._visible(*piece) for piece in [*some, *others]) - both)

    def _visible(self, start: int, end: int) -> int:
        return self._before[end] - self._before[start] if start < end else 0


def _pieces(place: Place) -> list[Range]:
    """The pieces of a place, none of which overlaps another."""
    start, end, fragments = place
    if not fragments:
        return [(start, end)]
    pieces: list[Range] = []
    for start, end in sorted(fragments):
        if pieces and start <= pieces[-1][1]:
            pieces[-1] = (pieces[-1][0], max(end, pieces[-1][1]))
        else:
            pieces.append((start, end))
    return pieces


# --- Assignment ------------------------------------------------------------------------------------------------------


def best_pairs(weights: Mapping[tuple[int, int], float]) -> list[tuple[int, int]]:
    """Pairs of rows and columns, each of them in one pair at most, that have the largest sum of weights.

    Only pairs that are listed, with a weight of more than 0, are possible. The result is sorted, and the same in
    whatever order they are listed. Time: at most rows times pairs (times a logarithm); in practice that of the few
    pairs around each row.
    """
    assignment = _Assignment()
    for (row, column), weight in sorted(weights.items()):
        if weight > 0:
            assignment.weights.setdefault(row, {})[column] = weight
    for row in assignment.weights:
        assignment.add(row)
    return sorted(assignment.column_of.items())


class _Assignment:
    """The Hungarian method for few possible pairs: rows are added one by one along shortest alternating paths.

    Prices keep ``row_price + column_price >= weight`` for all pairs, with equality for those that are chosen, and are
    0 for what is left alone; that proves each assignment on the way to be a best one of the rows so far.
    """

    def __init__(self) -> None:
        self.weights: dict[int, dict[int, float]] = {}
        self.column_of: dict[int, int] = {}
        self._row_of: dict[int, int] = {}
        self._row_price: dict[int, float] = {}
        self._column_price: dict[int, float] = {}

    def add(self, new: int) -> None:
        """Adds a row: along the cheapest path to a free column, or to a row that is then left alone."""
        self._row_price[new] = max(self.weights[new].values())
        rows, columns, came = {new: 0.0}, dict[int, float](), dict[int, int]()  # how far those on the way are
        heap: list[tuple[float, int, int]] = []
        row, left, cost = new, new, self._row_price[new]  # so far it is cheapest to leave the new one alone
        free: int | None = None
        while free is None:
            price = rows[row] + self._row_price[row]
            for column, weight in self.weights[row].items():
                if column not in columns:
                    heappush(heap, (price + self._column_price.get(column, 0.0) - weight, column, row))
            while heap and heap[0][1] in columns:
                heappop(heap)
            if not heap or heap[0][0] >= cost:
                break
            distance, column, came[column] = heappop(heap)
            if column not in self._row_of:
                free, cost = column, distance
                break
            columns[column] = distance
            row = self._row_of[column]
            rows[row] = distance
            if distance + self._row_price[row] < cost:
                left, cost = row, distance + self._row_price[row]
        for row, distance in rows.items():
            self._row_price[row] -= max(0.0, cost - distance)
        for column, distance in columns.items():
            self._column_price[column] = self._column_price.get(column, 0.0) + max(0.0, cost - distance)
        self._shift(came, self.column_of.pop(left, None) if free is None else free)

    def _shift(self, came: dict[int, int], column: int | None) -> None:
        """Gives each column of a path, from its end, to the row it was reached from."""
        while column is not None:
            row = came[column]
            before = self.column_of.get(row)
            self.column_of[row], self._row_of[column] = column, row
            column = before
