"""Runs that differ in their seed alone, and what is said of them together."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from experiments.counts import Counts, unpack
from experiments.runs import Run
from experiments.significance import Difference, compared
from experiments.store import Store


@dataclass(frozen=True)
class Group:
    """The runs of one kind, by seed.

    Attributes:
        runs: with their results.
        decoding: whose scores are taken; None: each run's own.
    """

    runs: tuple[tuple[Run, dict[str, Any]], ...]
    decoding: str | None = None

    def decoded(self, decoding: str) -> Group:
        """The same models with another decoding."""
        return Group(self.runs, decoding)

    @property
    def by_best_tree(self) -> Group | None:
        """The same models as the paper decodes, if all of them were scored so."""
        return self.decoded("map") if self.has("map") else None

    def measured(self, decoding: str) -> Group | None:
        """Those of the models that were scored with a decoding, with that decoding; None if there are none."""
        runs = tuple(one for one in self.runs if decoding in one[1]["scores"])
        return Group(self.runs if len(runs) == len(self.runs) else runs, decoding) if runs else None

    @property
    def run(self) -> Run:
        """One of them."""
        return self.runs[0][0]

    @property
    def results(self) -> list[dict[str, Any]]:
        """The results."""
        return [result for _, result in self.runs]

    @property
    def epochs(self) -> int:
        """How many passes over the data they made."""
        return int(self.runs[0][1]["config"]["epochs"])

    def scores(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """The scores of a result with the decoding that is taken."""
        found: dict[str, Any] = result["scores"][self.decoding or result["scores"]["decoding"]]
        return found

    def values(self, measure: str, of: str = "micro") -> list[float]:
        """A measure of each seed, in percent."""
        return [100 * float(self.scores(result)[of][measure]) for result in self.results]

    def has(self, decoding: str) -> bool:
        """Whether all of them were scored with a decoding."""
        return all(decoding in result["scores"] for result in self.results)

    def part_text(self, kind: str, part: str) -> str:
        """Mean ± standard deviation of F1 of a part of a breakdown, or nothing."""
        values = self.part_values(kind, part)
        return spread(values) if values else ""

    def part_values(self, kind: str, part: str) -> list[float]:
        """F1 of a part of a breakdown of each seed, in percent; nothing if one was not measured so."""
        parts = [self.scores(result).get("breakdowns", {}).get(kind, {}).get(part) for result in self.results]
        return [100 * float(one["f1"]) for one in parts] if all(parts) else []

    def label_values(self, label: str, measure: str = "f1") -> list[float]:
        """A measure of a label, of each seed, in percent."""
        found = [self.scores(result)["labels"].get(label, {}) for result in self.results]
        return [100 * float(one.get(measure, 0.0)) for one in found]

    def mean(self, measure: str = "f1", of: str = "micro") -> float:
        """The mean over seeds, in percent."""
        return statistics.mean(self.values(measure, of))

    def text(self, measure: str = "f1", of: str = "micro") -> str:
        """Mean ± standard deviation."""
        return spread(self.values(measure, of))

    @cached_property
    def counts(self) -> list[Counts]:
        """Counts per sentence of each seed."""
        return [unpack(self.scores(result)["per_sentence"]) for result in self.results]

    def better_than(self, other: Group, measure: str = "f1") -> Difference:
        """How much higher this kind is than another."""
        return compared(other.counts, self.counts, measure, same_models=other.runs is self.runs)


def spread(values: list[float]) -> str:
    """Mean ± standard deviation of a sample; of one value, that value."""
    mean = statistics.mean(values)
    return f"{mean:.2f} ± {statistics.stdev(values):.2f}" if len(values) > 1 else f"{mean:.2f}"


class Results:
    """All that was measured.

    Args:
        store: where it is.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._runs = list(store.runs())

    def __iter__(self) -> Iterator[tuple[Run, dict[str, Any]]]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def corpora(self, *usual: str) -> list[str]:
        """The corpora with results, the usual ones first."""
        names = dict.fromkeys(run.corpus for run, _ in self._runs)
        return [*(one for one in usual if one in names), *(one for one in names if one not in usual)]

    def encoders(self) -> list[str]:
        """The encoders with results, MiniLM first."""
        names = dict.fromkeys(run.encoder for run, _ in self._runs)
        return sorted(names, key=lambda one: (one != "minilm", one))

    def group(
        self,
        corpus: str,
        encoder: str,
        recipe: str,
        changes: Mapping[str, Any] | None = None,
        *,
        sentences: float = 1.0,
        annotated: float = 1.0,
        missing: str = "open",
    ) -> Group | None:
        """The runs of a kind, or None. If there are some with another number of epochs only, those with the most."""
        wanted = dict(changes or {})
        wanted_epochs = wanted.pop("epochs", None)
        by_epochs: dict[int, list[tuple[Run, dict[str, Any]]]] = {}
        for run, result in self._runs:
            own = dict(run.changes)
            own.pop("epochs", None)
            same = (run.corpus, run.encoder, run.recipe) == (corpus, encoder, recipe) and own == wanted
            same &= (run.sentences, run.annotated) == (sentences, annotated)
            if same and (annotated == 1 or run.missing == missing):
                by_epochs.setdefault(int(result["config"]["epochs"]), []).append((run, result))
        if not by_epochs:
            return None
        usual = wanted_epochs or Run(corpus, encoder, recipe).config().epochs
        chosen = by_epochs[usual if usual in by_epochs else max(by_epochs)]
        return Group(tuple(sorted(chosen, key=lambda one: one[0].seed)))
