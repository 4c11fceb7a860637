"""Inferred latent trees (the paper's Figure 3), drawn, with the constituents that make sense and those that do not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.brackets import Span, nontrivial, random_tree, right_branching_around
from experiments.corpora import of_encoder
from experiments.groups import Results
from experiments.markdown import signed, table
from experiments.planning import TREES, Plan, Request, joined, planned, seeded
from experiments.runs import Run
from experiments.significance import LEVEL, RESAMPLES
from experiments.study import Section, Study
from nestree.drawing import tree_svg
from nestree.drawing.page import Figure, Part, Text, page
from nestree.drawing.page import Section as PageSection

CORPORA = ("genia", "litbank", "germeval")
SHOWN = 3
LISTED = 12
DRAWS = 1000
"""Random trees of each sentence."""

_DANGLING = (
    "a an the its their our my of in on at by for with from to into between during against via upon than as and or but "
    "nor no both either neither is are was were be been has have had which who whose whether if ( [ { - / : "
    "der die das den dem des ein eine einer eines einem einen in im am an auf aus bei mit nach von vom zu zum zur für "
    "über unter durch gegen ohne um und oder aber sowie dass"
)
DANGLING = frozenset(_DANGLING.split())
"""Words after which something must follow: a constituent does not end in them. English and German."""
LEADING = frozenset([*")]},.;:?!-/%"])
"""What no constituent begins with."""
TRAILING = frozenset([*")]}%'\"", "''", "”", "’", "»", "“"])
"""Signs that a constituent may end in; no others."""
CLOSING = frozenset([*".?!"])
"""What ends a sentence. It belongs to no phrase, and is left out, as is usual where trees are compared."""


Maker = Callable[[int, list[Span]], set[Span]]
"""Makes a tree of so many words around some entities."""
Counted = NDArray[np.int64]
"""Of each sentence, how many latent constituents are sound, and how many there are. Shape: ``[sentence, 2]``."""


class Latent(NamedTuple):
    """A latent constituent: its words, its probability, and whether it could be a phrase."""

    text: str
    score: float
    sound: bool


def sound(words: Sequence[str]) -> bool:
    """Whether words could be a phrase, by a rule that anyone can apply.

    They do not end in a word that needs another or in punctuation, or begin with what cannot begin; and brackets
    come in pairs.
    """
    if words[-1].lower() in DANGLING or words[0] in LEADING:
        return False
    if not any(map(str.isalnum, words[-1])) and words[-1] not in TRAILING:
        return False
    return all(words.count(one) == words.count(other) for one, other in ("()", "[]"))


def plan(request: Request) -> Plan:
    """The default recipe, its first seed, on the first encoder."""
    encoder = request.encoders[0].name
    return joined(planned(seeded(request, Run(corpus.name, encoder))[:1], TREES) for corpus in request.of(*CORPORA))


def latent_spans(sentence: dict[str, Any], spans: Iterable[Span]) -> set[Span]:
    """Of a tree's spans those that are latent constituents of more than one word, short of the whole sentence.

    They are taken without the stop at the sentence's end.
    """
    words = sentence["words"]
    length = next((at for at in range(len(words), 1, -1) if words[at - 1] not in CLOSING), 1)
    entities = {(start, end) for start, end, label, _ in sentence["nodes"] if label is not None}
    return nontrivial(((start, min(end, length)) for start, end in spans), length) - entities


def latent_of(sentence: dict[str, Any]) -> list[Latent]:
    """The model's own, with their words."""
    words = sentence["words"]
    scores = {(start, end): score for start, end, _, score in sentence["nodes"]}
    return [
        Latent(
            " ".join(words[start:end]),
            scores.get((start, end), scores.get((start, len(words)), 0.0)),
            sound(words[start:end]),
        )
        for start, end in sorted(_own(sentence))
    ]


def around(sentence: dict[str, Any], make: Maker) -> set[Span]:
    """The latent constituents of another tree around the same entities."""
    entities = sorted({(start, end) for start, end, label, _ in sentence["nodes"] if label is not None})
    return latent_spans(sentence, make(len(sentence["words"]), entities))


def section(results: Results, found: Section) -> None:
    """A page of drawings for each corpus, three of them in the report, and counts."""
    drawn = [
        next((run, result) for run, result in group.runs if TREES in result)
        for corpus in results.corpora(*CORPORA)
        for encoder in results.encoders()
        if (group := results.group(corpus, encoder, "default")) and any(TREES in one for one in group.results)
    ]
    if not drawn:
        return
    found.add(
        "Dev sentences, chosen before any model was seen: spread evenly over those of 8 to 26 words with at least two "
        "entities. Solid: predicted entities; dashed: latent nodes. Numbers are exact probabilities of nodes.",
        "**A simple criterion.** Dev sentences have no gold trees, so a latent node is called *sound* if it does not "
        "end in a word that needs another (article, preposition, conjunction, auxiliary, opening bracket, hyphen), "
        "does not begin or end with punctuation, and holds brackets in pairs; the stop at a sentence's end is left "
        "out. Most "
        "phrases pass, and much that is no phrase; `syntax` compares with gold trees. What the criterion is worth is "
        "seen by other trees around the same entities: random ones, and right-branching ones, which split every span "
        "as far to the left as they can. These are 20 sentences and the first seed of each model; intervals are over "
        "sentences.",
    )
    for run, result in drawn:
        _one_corpus(found, run, result[TREES])


def _counted(spans: Iterable[Span], words: Sequence[str]) -> tuple[int, int]:
    """How many spans are sound, and how many there are."""
    flags = [sound(words[start:end]) for start, end in spans]
    return sum(flags), len(flags)


def _of_others(sentences: list[dict[str, Any]], make: Maker, draws: int = 1) -> Counted:
    """The same of other trees around the same entities, of all draws together. Shape: ``[sentence, 2]``."""
    return np.array([np.sum([_counted(around(one, make), one["words"]) for _ in range(draws)], 0) for one in sentences])


def _percent(counted: Counted) -> float:
    """The share of sound constituents, in percent."""
    sound_ones, all_ones = counted.sum(0)
    return 100 * float(sound_ones) / max(1.0, float(all_ones))


def _above(own: Counted, other: Counted) -> tuple[float, float]:
    """How much larger the first share is, in points: the 95% interval over sentences."""
    chosen = np.random.default_rng(0).integers(0, len(own), (RESAMPLES, len(own)))
    shares = [one[chosen].sum(1) for one in (own, other)]
    drawn = [one[:, 0] / np.maximum(one[:, 1], 1) for one in shares]
    low, high = np.quantile(drawn[0] - drawn[1], [LEVEL / 2, 1 - LEVEL / 2])
    return 100 * float(low), 100 * float(high)


def _own(sentence: dict[str, Any]) -> set[Span]:
    """The latent constituents of the model."""
    return latent_spans(sentence, {(start, end) for start, end, _, _ in sentence["nodes"]})


def _one_corpus(found: Section, run: Run, sentences: list[dict[str, Any]]) -> None:
    where = of_encoder(run.corpus, run.encoder)
    latent = [one for sentence in sentences for one in latent_of(sentence)]
    name = f"trees-{run.corpus}-{run.encoder}"
    svgs = [_svg(sentence) for sentence in sentences]
    parts: list[Part] = [Text(f"Solid: entities; dashed: latent nodes. {where}, seed {run.seed}.")]
    for sentence, svg in zip(sentences, svgs, strict=True):
        gold = "; ".join(f"{' '.join(sentence['words'][s:e])} ({label})" for s, e, label in sentence["gold"])
        parts.append(Figure(svg, f"Annotated: {gold}"))
    found.folder.mkdir(parents=True, exist_ok=True)
    (found.folder / f"{name}.html").write_text(
        page(f"Latent trees: {where}", [PageSection("Dev sentences", parts)]), encoding="utf-8"
    )
    found.add(f"### {where}", f"[All {len(sentences)} trees]({name}.html); the {SHOWN} smallest drawings:")
    for at in sorted(range(len(svgs)), key=lambda one: len(svgs[one]))[:SHOWN]:
        (found.folder / f"{name}-{at + 1}.svg").write_text(svgs[at], encoding="utf-8")
        found.add(f"![Latent tree of “{' '.join(sentences[at]['words'])}”]({name}-{at + 1}.svg)")
    if not latent:
        found.add("There are no latent nodes of more than one word in them.")
        return
    chance = random.Random(0)
    own = np.array([_counted(_own(one), one["words"]) for one in sentences])
    at_random = _of_others(sentences, lambda words, within: random_tree(words, chance, within), DRAWS)
    right = _of_others(sentences, right_branching_around)
    beside_random, beside_right = _above(own, at_random), _above(own, right)
    shared = sum(span in around(one, right_branching_around) for one in sentences for span in _own(one))
    found.find(
        f"{where}: {_percent(own):.0f}% of the {len(latent)} latent constituents are sound, "
        f"{_beside(*beside_random)} in random trees around the same entities ({_percent(at_random):.0f}%; "
        f"{_interval(*beside_random)}), {_beside(*beside_right)} in right-branching ones ({_percent(right):.0f}%; "
        f"{_interval(*beside_right)}), and {100 * shared / len(latent):.0f}% of them are nodes of those."
    )
    found.judge(
        "latent trees hold meaningful constituents to a certain extent",
        "examples",
        f"{where}: {_percent(own):.0f}% are sound; of random trees around the same entities "
        f"{_percent(at_random):.0f}%, of right-branching ones {_percent(right):.0f}%",
        f"{'no: ' * (beside_random[1] < 0)}{_beside(*beside_random)} in random trees, {_beside(*beside_right)} in "
        "right-branching ones",
    )
    found.add("The most probable of each kind:", _examples(latent))


def _beside(low: float, high: float) -> str:
    """In words; as many are those of which neither is known."""
    return "more than" if low > 0 else "fewer than" if high < 0 else "not shown to be more or fewer than"


def _interval(low: float, high: float) -> str:
    return f"difference {signed(low, 1)} to {signed(high, 1)} points, 95%"


def _svg(sentence: dict[str, Any]) -> str:
    nodes = [(start, end, label, score) for start, end, label, score in sentence["nodes"]]
    return tree_svg(sentence["words"], nodes)


def _examples(latent: list[Latent]) -> str:
    columns = [
        [f"{one.text} ({one.score:.2f})" for one in sorted(latent, key=lambda one: -one.score) if one.sound is kind]
        for kind in (True, False)
    ]
    columns = [list(dict.fromkeys(column))[:LISTED] for column in columns]
    rows = [[column[at] if at < len(column) else "" for column in columns] for at in range(max(map(len, columns)))]
    return table(["sound", "not sound"], rows)


STUDY = Study("trees", "Figure 3", "What do latent trees look like?", section, plan)
