"""The same numbers as seqeval and nervaluate where these are right, and where they are not."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nestree.data import Document
from nestree.evaluation import MATCHES, Evaluation, evaluate, pairs
from nestree.evaluation.metrics import Key

DOCS = Path(__file__).parents[2] / "docs" / "evaluation.md"
LABELS = ["PER", "ORG", "GPE"]
Span = tuple[int, int, str]
Row = tuple[float, float, float]


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Loads the tools before time is taken, if they are there; without them, the tests that need them are skipped."""
    for name in ("seqeval.metrics", "nervaluate"):
        with suppress(ImportError):
            import_module(name)


@st.composite
def flat(draw: st.DrawFn, words: int) -> list[Span]:
    """Entities that do not overlap."""
    spans, start = [], 0
    while start < words:
        end = draw(st.integers(start + 1, words))
        label = draw(st.sampled_from(["", "", *LABELS]))
        if label:
            spans.append((start, end, label))
        start = end
    return spans


@st.composite
def corpora(draw: st.DrawFn) -> list[tuple[int, list[Span], list[Span]]]:
    """Sentences: the number of words, gold, and predictions that have something in common with it."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        words = draw(st.integers(1, 8))
        gold, other = draw(flat(words)), draw(flat(words))
        cut = draw(st.integers(0, words))
        mixed = [one for one in gold if one[1] <= cut] + [one for one in other if one[0] >= cut]
        found.append((words, gold, mixed))
    return found


Corpus = list[tuple[int, list[Span], list[Span]]]


def nestree(corpus: Corpus, match: Any = "exact") -> Evaluation:
    gold, predicted = (
        [Document.from_words(["w"] * words, sides[side]) for words, *sides in corpus] for side in range(2)
    )
    return evaluate(gold, predicted, match=match)


def fractions(found: Any) -> Row:
    return found.precision, found.recall, found.f1


def tags(words: int, spans: list[Span]) -> list[str]:
    found = ["O"] * words
    for start, end, label in spans:
        found[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return found


def seqeval(corpus: Corpus, **options: Any) -> Row:
    metrics = pytest.importorskip("seqeval.metrics")
    sides = [[tags(words, spans[side]) for words, *spans in corpus] for side in range(2)]
    precision, recall, f1 = (
        float(measure(*sides, **options))
        for measure in (metrics.precision_score, metrics.recall_score, metrics.f1_score)
    )
    return precision, recall, f1


def nervaluate(corpus: Corpus, scenario: str) -> Row:
    module = pytest.importorskip("nervaluate")
    sides = [
        [
            [{"label": label, "start": start, "end": end - 1} for start, end, label in spans[side]]
            for _, *spans in corpus
        ]
        for side in range(2)
    ]
    return fractions(module.Evaluator(*sides, tags=LABELS, loader="dict").evaluate()["overall"][scenario])


# --- Where they are right --------------------------------------------------------------------------------------------


@given(corpora())
def test_seqeval_agrees_on_flat_entities(corpus: Corpus) -> None:
    ours = fractions(nestree(corpus).scores.micro)
    assert seqeval(corpus, zero_division=0) == pytest.approx(ours)
    scheme = pytest.importorskip("seqeval.scheme").IOB2
    if any(spans for _, *sides in corpus for spans in sides):  # it cannot read tags that are all O
        assert seqeval(corpus, mode="strict", scheme=scheme, zero_division=0) == pytest.approx(ours)


@given(corpora().filter(lambda corpus: any(spans for _, *sides in corpus for spans in sides)))
def test_seqeval_agrees_on_labels_and_their_mean(corpus: Corpus) -> None:
    metrics = pytest.importorskip("seqeval.metrics")
    sides = [[tags(words, spans[side]) for words, *spans in corpus] for side in range(2)]
    report = metrics.classification_report(*sides, output_dict=True, zero_division=0)
    scores = nestree(corpus).scores
    for label, counts in scores.labels.items():
        theirs = report[label]
        assert (theirs["precision"], theirs["recall"], theirs["f1-score"]) == pytest.approx(fractions(counts))
        assert theirs["support"] == counts.gold
    macro = report["macro avg"]
    ours = (scores.macro_precision, scores.macro_recall, scores.macro_f1)
    assert (macro["precision"], macro["recall"], macro["f1-score"]) == pytest.approx(ours)


@given(corpora())
def test_nervaluate_agrees_on_flat_entities(corpus: Corpus) -> None:
    assert nervaluate(corpus, "strict") == pytest.approx(fractions(nestree(corpus).micro))
    assert nervaluate(corpus, "exact") == pytest.approx(fractions(nestree(corpus, "boundary").micro))


def one_to_one(corpus: Corpus) -> bool:
    """Whether no entity overlaps two of the other side."""
    for _, gold, predicted in corpus:
        for some, others in ((gold, predicted), (predicted, gold)):
            if any(sum(a < d and c < b for c, d, _ in others) > 1 for a, b, _ in some):
                return False
    return True


@given(corpora().filter(one_to_one))
def test_nervaluate_agrees_on_types_with_overlap_if_nothing_overlaps_two_things(corpus: Corpus) -> None:
    assert nervaluate(corpus, "ent_type") == pytest.approx(fractions(nestree(corpus, "overlap").micro))


# --- Where they are not: the tables of docs/evaluation.md ------------------------------------------------------------

SENTENCE = ["The", "dean", "of", "the", "University", "of", "Zurich"]
PERSON, PLACE, HOUSE, WRONG = (0, 7, "PER"), (6, 7, "GPE"), (3, 7, "ORG"), (1, 2, "PER")
GOLD = [PERSON, HOUSE, PLACE]
CASES: dict[str, list[Span]] = {
    "all three": [PERSON, HOUSE, PLACE],
    "the person only": [PERSON],
    "the two others": [HOUSE, PLACE],
    "all three and *dean* PER": [PERSON, WRONG, HOUSE, PLACE],
    "the same, *dean* listed first": [WRONG, PERSON, HOUSE, PLACE],
}


def outermost(spans: list[Span]) -> list[Span]:
    return [one for one in spans if not any(o[0] <= one[0] and one[1] <= o[1] and o != one for o in spans)]


def innermost(spans: list[Span]) -> list[Span]:
    kept = [one for one in spans if not any(one[0] <= o[0] and o[1] <= one[1] and o != one for o in spans)]
    return sorted(kept)


def cell(row: Row) -> str:
    return " / ".join(f"{100 * one:.2f}" for one in row)


def exact_table() -> list[str]:
    lines = []
    for name, predicted in CASES.items():
        corpus = [(len(SENTENCE), GOLD, predicted)]
        layers = [[(len(SENTENCE), layer(GOLD), layer(predicted))] for layer in (outermost, innermost)]
        found = [fractions(nestree(corpus).micro), nervaluate(corpus, "strict")]
        found += [seqeval(layer, zero_division=0) for layer in layers]
        lines.append(f"| {name} | {' | '.join(map(cell, found))} |")
    return lines


def test_the_table_of_nested_entities_is_in_the_documentation() -> None:
    text = DOCS.read_text()
    for line in exact_table():
        assert f"{line}\n" in text


LONG, SHORT = (0, 4, "PER"), (0, 2, "PER")
FOUND: list[Span] = [(0, 3, "PER"), (2, 5, "PER")]


def test_the_order_of_gold_changes_what_nervaluate_finds_and_not_what_we_do() -> None:
    one, other = ([(5, gold, FOUND)] for gold in ([LONG, SHORT], [SHORT, LONG]))
    assert nestree(one, "overlap").micro == nestree(other, "overlap").micro
    rows = [
        f"| {name} | {cell(fractions(nestree(corpus, 'overlap').micro))} | {cell(nervaluate(corpus, 'ent_type'))} |"
        for name, corpus in (("*a b c d*, *a b*", one), ("*a b*, *a b c d*", other))
    ]
    text = DOCS.read_text()
    for row in rows:
        assert f"{row}\n" in text


# --- The worked example of ways to match -----------------------------------------------------------------------------

TEXT = "the IL-2 receptor alpha chain gene"
WANTED = {"IL-2": "protein", "IL-2 receptor alpha chain": "protein", "IL-2 receptor alpha chain gene": "DNA"}
GUESSED = {"IL-2": "protein", "IL-2 receptor": "protein", "IL-2 receptor alpha chain": "DNA", TEXT: "DNA"}


def keys(entities: dict[str, str]) -> list[Key]:
    return [((TEXT.index(one), TEXT.index(one) + len(one), ()), label) for one, label in entities.items()]


def match_table() -> list[str]:
    lines = []
    for match in MATCHES:
        found = pairs(keys(WANTED), keys(GUESSED), match, TEXT)
        total = sum(pair.credit for pair in found)
        listed = []
        for (gold, _), (predicted, _), credit in sorted(found):
            one, other = (TEXT[start:end] for start, end, _ in (gold, predicted))
            worth = f" ({credit:.3f})" if credit < 1 else ""
            listed.append(f"*{one}*" if one == other else f"*{one}* by *{other}*{worth}")
        row = (total / len(GUESSED), total / len(WANTED), 2 * total / (len(GUESSED) + len(WANTED)))
        lines.append(f"| `{match}` | {'; '.join(listed)} | {cell(row)} |")
    return lines


def test_the_worked_example_of_matches_is_in_the_documentation() -> None:
    text = DOCS.read_text()
    for line in match_table():
        assert f"{line}\n" in text
