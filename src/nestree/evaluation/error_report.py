"""Collects the errors of a corpus, one document after the other, for the table and the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from heapq import heappush, heappushpop
from itertools import zip_longest
from os import PathLike
from pathlib import Path

from nestree.data.model import Document, Entity, Range
from nestree.data.splitting import Splitter
from nestree.evaluation.error_page import Drawn, Sentences, draw_page, number_of
from nestree.evaluation.error_table import LATENT, NONE, ErrorTable, heat_map_png, write_bytes
from nestree.evaluation.errors import Error, entities_of, find_errors, order_of, place_of
from nestree.evaluation.metrics import Key, Place, one_side_ends, other_text


class Errors:
    """Collects the errors of documents as they come; for those who have them one by one. See :func:`write_errors`.

    Args:
        most: how many sentences are kept for the page; those with the most confident errors are.
    """

    def __init__(self, *, most: int = 500) -> None:
        self.documents = 0
        self._most = most
        self._trees = False
        self._table: Counter[tuple[str | None, bool, str]] = Counter()  # predicted label, or latent or not; gold label
        self._kinds: Counter[tuple[str, str]] = Counter()  # label and kind
        self._sentences = 0  # all, and those with errors
        self._wrong = 0
        self._kept: list[tuple[float, int, Drawn]] = []  # a heap: the least confident is the first to go

    def add(self, gold: Document, predicted: Document, latent: Collection[Range] | None = None) -> None:
        """Takes a document, its prediction, and if they are known the latent nodes of its trees."""
        if gold.text != predicted.text:
            raise other_text(gold, predicted, self.documents + 1)
        self.documents += 1
        self._trees |= latent is not None
        self._count(entities_of(gold), entities_of(predicted), latent or ())
        self._keep(gold, predicted)

    def _count(self, wanted: dict[Key, Entity], found: dict[Key, Entity], latent: Collection[Range]) -> None:
        labels: dict[Place, list[Entity]] = defaultdict(list)
        for (place, _), entity in found.items():
            labels[place].append(entity)
        for place, label in wanted:
            if (place, label) in found:
                self._table[label, False, label] += 1
            elif there := labels.get(place):
                best = min(there, key=lambda one: ((place_of(one), one.label) in wanted, order_of(one)))
                self._table[best.label, False, label] += 1
            else:
                self._table[None, not place[2] and place[:2] in latent, label] += 1

    def _keep(self, gold: Document, predicted: Document) -> None:
        """Puts sentences with errors among those that are kept, if they belong there."""
        sides = (gold, predicted)
        split = next((one for one in sides if one.tokens is not None and one.sentences is not None), None)
        sentences = Sentences(split or Splitter().split(gold))
        self._sentences += len(sentences.ranges)
        by_sentence: dict[Range, list[Error]] = defaultdict(list)
        for error in find_errors(gold, predicted):
            self._kinds[error.label, error.kind] += 1
            by_sentence[sentences.of(*error.characters)].append(error)
        if not by_sentence:
            return
        right = entities_of(gold).keys() & entities_of(predicted).keys()
        brackets = [sentences.brackets(one, right) for one in sides]
        for where, errors in by_sentence.items():
            self._wrong += 1
            full, rank = len(self._kept) >= self._most, errors[0].rank
            if not full or (self._kept and rank > self._kept[0][0]):
                drawn = sentences.drawn(where, gold.place or f"document {self.documents}", errors, brackets)
                (heappushpop if full else heappush)(self._kept, (rank, -self._wrong, drawn))

    def table(self) -> ErrorTable:
        """The table of what came so far."""
        labels = sorted({label for _, _, label in self._table})
        others = {one for one, _, _ in self._table if one is not None} - set(labels)
        rows: list[tuple[str | None, bool]] = [(label, False) for label in (*labels, *sorted(others))]
        rows += [(None, True), (None, False)] if self._trees else [(None, False)]
        names = [(LATENT if latent else NONE) if label is None else label for label, latent in rows]
        counts = tuple(tuple(self._table[*row, label] for label in labels) for row in rows)
        return ErrorTable(tuple(labels), tuple(names), counts)

    def page(self, title: str = "Errors") -> str:
        """The page of what came so far; see :func:`errors_page`."""
        kept = [sentence for *_, sentence in sorted(self._kept, key=lambda one: (-one[0], -one[1]))]
        return draw_page(
            title, self.table(), self._kinds, kept, f"{self._wrong:,} of {number_of(self._sentences, 'sentence')}"
        )

    def write(self, folder: str | PathLike[str]) -> list[Path]:
        """Writes table, picture and page; see :func:`write_errors`."""
        folder, table = Path(folder), self.table()
        paths = [
            write_bytes(folder / "errors.txt", f"{table.as_text()}\n".encode(errors="replace")),
            write_bytes(folder / "errors.csv", table.as_csv().encode(errors="replace")),
        ]
        try:
            paths.append(heat_map_png(table, folder / "errors.png"))
        except ImportError:
            (folder / "errors.png").unlink(missing_ok=True)  # it would show others
        return [*paths, write_bytes(folder / "errors.html", self.page().encode())]


def error_table(
    gold: Iterable[Document], predicted: Iterable[Document], latent: Iterable[Collection[Range]] | None = None
) -> ErrorTable:
    """Counts what the prediction has on exactly the span of each entity of gold.

    That is the same label if it is there. Otherwise it is another label of that span; if there are several, one that
    is wrong rather than one that is right for another entity of gold, and of these the one with the highest score. If
    there is no label, it is Latent or None.

    Args:
        gold: the documents as they are annotated.
        predicted: the same documents with predicted entities, labels split (:func:`with_split_labels`).
        latent: for each document the latent nodes of the predicted trees, as ranges of characters;
            :func:`nestree.prediction.annotate_with_trees` gives them. Without them there is no row Latent: these
            entities count as None.

    Raises:
        DataError: two documents differ in text, or one side has more documents than the other; says which.
    """
    return _collected(gold, predicted, latent, most=0).table()


def errors_page(
    gold: Iterable[Document],
    predicted: Iterable[Document],
    *,
    latent: Iterable[Collection[Range]] | None = None,
    most: int = 500,
) -> str:
    """A page of HTML with the sentences that have errors, that with the most confident error first.

    Arguments are those of :func:`error_table`; of more sentences than ``most`` the others are counted only.
    """
    return _collected(gold, predicted, latent, most).page()


def write_errors(
    folder: str | PathLike[str],
    gold: Iterable[Document],
    predicted: Iterable[Document],
    latent: Iterable[Collection[Range]] | None = None,
    *,
    most: int = 500,
) -> list[Path]:
    """Writes ``errors.txt``, ``errors.csv``, ``errors.png`` (with matplotlib) and ``errors.html``; says which.

    Arguments are those of :func:`error_table` and :func:`errors_page`.
    """
    return _collected(gold, predicted, latent, most).write(folder)


def _collected(
    gold: Iterable[Document], predicted: Iterable[Document], latent: Iterable[Collection[Range]] | None, most: int
) -> Errors:
    errors = Errors(most=most)
    nodes = iter(latent or ())
    for one, other in zip_longest(gold, predicted):
        if one is None or other is None:
            raise one_side_ends(one, other, errors.documents)
        here = next(nodes, None)
        if latent is not None and here is None:
            raise ValueError(f"latent nodes end after {errors.documents} documents; give a set for each of them.")
        errors.add(one, other, here)
    return errors
