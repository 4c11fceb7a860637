"""Annotation that is not complete, from documents to the loss."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from nestree.crf import Doubts, TreeCRF
from nestree.data import Admissible, Document, Report
from nestree.data.errors import DataError
from nestree.model.ner import _local_loss
from nestree.training import load_part, prepare, train
from nestree.training.data import label_shift
from nestree.training.incomplete import Ground, Openings, annotated_shares
from tests.crf.brute_force import EveryTree
from tests.training.cases import corpus, corpus_file, run, settings

WORDS = [f"w{number}" for number in range(10)]
LABELS = ("ORG", "PER")


def documents(number: int, per: int, org: int = 0, **rest: Any) -> list[Document]:
    """So many documents of ten words; of all of them together so many have a PER, and an ORG."""
    return [
        Document.from_words(WORDS, [(0, 1, "PER")] * (at < per) + [(4, 6, "ORG")] * (at < org), **rest)
        for at in range(number)
    ]


def shares(train: list[Document], dev: list[Document], given: float = 0.0) -> dict[Ground, dict[str, float]]:
    return annotated_shares(train, dev, LABELS, given, "train.jsonl")


# --- How much was annotated ---


def test_shares_compare_entities_per_word_with_what_is_complete() -> None:
    train = documents(100, per=20, org=30, complete_labels=())
    (ground, found), *others = shares(train, documents(50, per=20, org=30)).items()
    assert not others
    assert ground == Ground(())
    # 50 entities where 100 were to be expected; the labels differ by less than a factor of two.
    assert found == {"PER": pytest.approx(0.5), "ORG": pytest.approx(0.5)}


def test_labels_that_differ_widely_have_their_own_shares() -> None:
    train = documents(100, per=5, org=60, complete_labels=())
    (found,) = shares(train, documents(50, per=30, org=30)).values()
    assert found == {"PER": pytest.approx(5 / 60), "ORG": 1.0}


def test_a_share_is_not_more_than_all() -> None:
    (found,) = shares(documents(10, per=9, org=9, complete_labels=()), documents(50, per=10, org=10)).values()
    assert found == {"PER": 1.0, "ORG": 1.0}


def test_complete_labels_are_complete_and_missing_ones_unknown() -> None:
    train = [*documents(40, per=20, org=20), *documents(40, per=20, complete_labels=("PER",))]
    assert shares(train, documents(10, per=5, org=5)) == {Ground(("PER",)): {"PER": 1.0, "ORG": 0.0}}


def test_words_that_nobody_looked_at_are_counted_by_themselves() -> None:
    half = (0, len(" ".join(WORDS[:5])))
    train = documents(100, per=15, org=20, unknown=(half,))  # an ORG lies across the border
    found = shares(train, documents(50, per=50, org=50))
    # 500 words that nobody looked at. In the 1,000 others there are 50 entities of each kind.
    assert found == {Ground(None, unknown=True): {"PER": pytest.approx(0.7), "ORG": pytest.approx(0.7)}}


def test_a_share_can_be_given() -> None:
    train = documents(10, per=3, complete_labels=())
    assert shares(train, documents(10, per=3), 0.25) == {Ground(()): {"PER": 0.25, "ORG": 0.25}}
    # Where nothing at all was annotated, there is no share to be given.
    assert shares(documents(10, per=0, complete_labels=()), [], 0.25) == {Ground(()): {"PER": 0.0, "ORG": 0.0}}


def test_without_anything_complete_there_is_nothing_to_compare_with() -> None:
    train = documents(10, per=3, complete_labels=())
    with pytest.raises(DataError, match=r"no document.*complete.*\n?.*annotated_share"):
        shares(train, documents(10, per=3, complete_labels=()))


# --- What is open ---

HALF = {Ground(()): {"ORG": 0.5, "PER": 0.75}, Ground((), unknown=True): {"ORG": 0.0, "PER": 0.0}}
NEVER = {Ground(None, unknown=True): {"ORG": 0.0, "PER": 0.0}}


def opened(document: Document, shares: dict[Ground, dict[str, float]], start: int = 0, end: int = 10) -> Any:
    openings = Openings(LABELS, shares, report := Report())
    spans = [(one.token_start or 0, one.token_end or 0, one.label) for one in document.entities]
    observed, doubts = openings.of_sentence(document, start, end, spans)
    return observed, doubts, openings.sets, [note.message for note in report]


def test_a_complete_document_leaves_nothing_open() -> None:
    assert opened(documents(1, per=1)[0], {}) == ([], None, (), [])


def test_unannotated_spans_weigh_what_was_not_annotated() -> None:
    found = opened(documents(1, per=1, complete_labels=())[0], HALF)
    assert found == ([], Doubts(0), ((0.5, 0.25, 1.0),), [])


def test_what_was_annotated_completely_after_all_is_as_usual() -> None:
    everything = {Ground(()): {"ORG": 1.0, "PER": 1.0}}
    assert opened(documents(1, per=1, complete_labels=())[0], everything) == ([], None, (), [])


def test_regions_are_words_of_the_sentence() -> None:
    # Words 3 to 5, the fifth in part; and the last one.
    document = Document.from_words(WORDS, unknown=((9, 16), (27, 29)))
    _, doubts, sets, _ = opened(document, NEVER, 4, 10)
    assert doubts == Doubts(-1, ((0, 1, 0), (5, 5, 0)))
    assert sets == ((1.0, 1.0, 1.0),)
    assert opened(document, NEVER, 6, 9)[1] is None


def at(first: int, last: int, *labels: str | None, excluded: bool = False) -> Admissible:
    """Words first to last, inclusive."""
    return Admissible(3 * first, 3 * last + 2, labels, excluded)


def test_admissible_labels_become_sets() -> None:
    document = Document.from_words(
        WORDS,
        [(0, 2, "ORG")],
        admissible=(
            at(5, 6, "PER", "ORG"),  # an entity with either label
            at(3, 3, "PER", None),  # a PER, or nothing
            at(8, 8, "PER", excluded=True),
            at(0, 1, "PER"),  # it is annotated, as an ORG
            at(1, 2, "PER"),  # it crosses that one
            Admissible(1, 4, ("PER",)),  # no words
        ),
        complete_labels=(),
    )
    observed, doubts, sets, notes = opened(document, HALF)
    assert [(a, b, sets[number]) for a, b, number in observed] == [(5, 7, (1.0, 1.0, 0.0))]
    assert sets[doubts.otherwise] == (0.5, 0.25, 1.0)
    assert doubts.regions == ()
    assert [(a, b, sets[number]) for a, b, number in doubts.spans] == [
        (3, 3, (0.0, 1.0, 1.0)),
        (8, 8, (0.5, 0.0, 1.0)),
    ]
    assert notes == ["'w1 w2': it crosses an entity", "'0 w': it is not on token boundaries"]


def test_a_span_over_the_end_of_a_sentence_is_left_out() -> None:
    document = Document.from_words(WORDS, admissible=(at(3, 5, "PER"),))
    assert opened(document, {}, 0, 5) == ([], None, (), ["'w3 w4 w5': it reaches over the end of its sentence"])


# --- The loss ---


def test_the_loss_is_the_probability_of_the_annotation(tmp_path: Path) -> None:
    """All trees of a sentence, each times the chance that these and no other entities were annotated."""
    file = tmp_path / "open.jsonl"
    file.write_text(
        json.dumps(
            {"tokens": list("abcd"), "entities": [{"start": 1, "end": 3, "label": "PER"}], "complete_labels": []}
        )
        + "\n"
    )
    config = settings(tmp_path, annotated_share=0.3)
    dev = load_part(corpus_file(tmp_path / "dev.jsonl", 8, 1), config.splitter)
    found = prepare(load_part(file, config.splitter), dev, config.updated({"missing_labels": "ignore"}))
    (sentence,) = found.sentences
    assert found.labels == ("PER",)
    scores = torch.randn(1, 4, 4, 2, dtype=torch.float64)

    from nestree.model import NestedNER

    model = NestedNER.create(config.model(found.labels))
    observed = model.observed([sentence.spans], [4], sets=found.sets, doubts=[sentence.doubts])
    ours = TreeCRF(scores).log_prob(observed)

    every = EveryTree(scores[0])
    total = torch.zeros((), dtype=torch.float64)
    for chart, score in zip(every.charts, every.tree_scores, strict=True):
        entities = {(i, j) for i, j in torch.nonzero(chart == 0).tolist()}
        if (1, 2) in entities:
            total += score.exp() * 0.7 ** (len(entities) - 1)
    # That the one entity was annotated is the same factor in all trees, and left out.
    assert ours.item() == pytest.approx((total.log() - every.log_partition).item(), rel=1e-6)


def test_the_local_loss_adds_up_what_is_open(tmp_path: Path) -> None:
    from nestree.model import NestedNER

    model = NestedNER.create(settings(tmp_path).model(("ORG", "PER")))
    spans, lengths = [[(0, 2, "PER")], [(1, 3, "ORG")]], [3, 4]
    closed = ((0.0, 0.0, 1.0),)
    plain = model.observed(spans, lengths)
    scores = torch.randn(2, 4, 4, 3, dtype=torch.float64)
    same = model.observed(spans, lengths, sets=closed, doubts=[Doubts(0), Doubts(0)])
    assert _local_loss(scores, same, 2).item() == pytest.approx(_local_loss(scores, plain, 2).item())
    opened = model.observed(spans, lengths, sets=((0.5, 0.25, 1.0),), doubts=[None, Doubts(-1, (), ((3, 3, 0),))])
    chances = scores[1, 3, 3].softmax(0)
    gain = (0.5 * chances[0] + 0.25 * chances[1] + chances[2]).log() - chances[2].log()
    assert _local_loss(scores, opened, 2).item() == pytest.approx((_local_loss(scores, plain, 2) - gain / 2).item())


# --- Training ---


def thinned(path: Path, *, say: bool) -> Path:
    """Every second sentence of the small corpus without its entities; by halves, it says so."""
    lines = [json.loads(line) for line in corpus_file(path, 80).read_text().splitlines()]
    for number, line in enumerate(lines):
        line["entities"] = line["entities"] if number % 4 == 0 else []
        if say:
            line["complete_labels"] = []
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("loss", ["treecrf", "local"])
def test_saying_that_annotation_is_not_complete_brings_recall_back(tmp_path: Path, loss: str) -> None:
    config = settings(tmp_path, epochs=6, loss=loss, checkpoint_every=0, mask=0.0)
    dev = load_part(corpus_file(tmp_path / "dev.jsonl", 30, 1), config.splitter)
    recall = {}
    for say in (True, False):
        part = load_part(thinned(tmp_path / f"{say}.jsonl", say=say), config.splitter)
        result = train(prepare(part, dev, config), tmp_path / f"run-{say}", config)
        recall[say] = result.scores["micro"]["recall"]
    assert recall[True] > recall[False] + 0.2, recall


def test_people_are_told_what_is_taken_for_annotated(tmp_path: Path) -> None:
    config = settings(tmp_path)
    dev = load_part(corpus_file(tmp_path / "dev.jsonl", 30, 1), config.splitter)
    notes = prepare(load_part(thinned(tmp_path / "a.jsonl", say=True), config.splitter), dev, config).notes
    assert notes[0].startswith("80 training documents are not annotated completely")
    assert notes[1] == "  where no label is complete, of the entities are taken to be annotated: ORG 25%, PER 25%"


def test_other_doubts_are_another_corpus(tmp_path: Path) -> None:
    config = settings(tmp_path)
    found = [load_part(thinned(tmp_path / f"{say}.jsonl", say=say), config.splitter) for say in (True, False)]
    assert found[0].fingerprint != found[1].fingerprint


def test_a_run_with_doubts_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    config = settings(tmp_path, epochs=2)
    dev = load_part(corpus_file(tmp_path / "dev.jsonl", 8, 1), config.splitter)
    found = prepare(load_part(thinned(tmp_path / "a.jsonl", say=True), config.splitter), dev, config)
    whole = train(found, tmp_path / "whole", config)

    class StopError(Exception):
        pass

    from nestree.training.progress import Silent

    class Stopping(Silent):
        seen = 0

        def step(self, *arguments: Any) -> None:
            self.seen += 1
            if self.seen == 25:
                raise StopError

    with pytest.raises(StopError):
        train(found, tmp_path / "parts", config, progress=Stopping())
    train(found, tmp_path / "parts", config, resume=True)
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]
    assert whole.epochs == 2


# --- Rare labels ---


def test_rare_labels_are_shifted_by_how_rare_they_are(tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    entities = [{"start": at, "end": at + 1, "label": "PER"} for at in range(4)]
    entities += [{"start": 0, "end": 4, "label": "ORG"}, {"start": 4, "end": 5, "label": "ORG"}]
    entities += [{"start": 4, "end": 5, "label": "PER"}]
    file.write_text(json.dumps({"tokens": list("abcde"), "entities": entities}) + "\n")
    config = settings(tmp_path)
    part = load_part(file, config.splitter)
    found = prepare(part, part, config)
    assert found.labels == ("ORG", "ORG|PER", "PER")
    rare = 0.5 * math.log(2 / 5)
    assert label_shift(found, 0.5, 2) == pytest.approx([rare, rare, 0.0, 0.0, 0.0])


def test_the_shift_is_for_learning_only(tmp_path: Path) -> None:
    config = settings(tmp_path)
    found = corpus(tmp_path, config)

    from nestree.model import NestedNER

    model = NestedNER.create(config.model(found.labels)).eval()
    sentence = found.sentences[0]
    batch = model.pieces.together(model.pieces.cut([sentence.words]))
    observed = model.observed([sentence.spans], [len(sentence.words)])
    with torch.no_grad():
        decoded = model.decode(batch)
        shift = model.label_shift = torch.tensor([-3.0, 0.0, 0.0])
        crf = TreeCRF(model(batch) + shift, batch.lengths)
        wanted = -crf.log_prob(observed, smoothing=config.smoothing, scope="rejected").mean()
        torch.testing.assert_close(model.loss(batch, observed), wanted)
        assert model.decode(batch) == decoded


def test_a_run_can_favour_rare_labels(tmp_path: Path) -> None:
    assert run(tmp_path, balance=0.5).epochs == 3
