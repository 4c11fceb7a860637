"""Annotation that is not complete, from documents to the loss."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from nestree.crf import Doubts, TreeCRF
from nestree.data import Admissible, Document, Entity, Report, returned, write
from nestree.data.errors import DataError
from nestree.model.local import local_loss
from nestree.training import load_part, prepare, train
from nestree.training.data import label_shift
from nestree.training.incomplete import Ground, judged, parts_of
from nestree.training.openings import Openings
from nestree.training.shares import Counts, annotated_shares
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
    own, everything = (Counts(parts_of(joined=True)).add(one) for one in (train, [*train, *dev]))
    return annotated_shares(own, everything, LABELS, given, "train.jsonl")


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


def test_a_rare_label_that_was_never_annotated_is_no_measure_for_others() -> None:
    (found,) = shares(documents(40, per=30, complete_labels=()), documents(80, per=60, org=16)).values()
    assert found == {"PER": 1.0, "ORG": 0.0}  # eight ORG were to be expected
    (found,) = shares(documents(5, per=4, complete_labels=()), documents(80, per=60, org=16)).values()
    assert found == {"PER": 1.0, "ORG": 1.0}  # one: that there is none may be chance


def test_a_share_is_not_more_than_all() -> None:
    (found,) = shares(documents(10, per=9, org=9, complete_labels=()), documents(50, per=10, org=10)).values()
    assert found == {"PER": 1.0, "ORG": 1.0}


def test_complete_labels_are_complete_and_missing_ones_unknown() -> None:
    train = [*documents(40, per=20, org=20), *documents(40, per=20, complete_labels=("PER",))]
    assert shares(train, documents(10, per=5, org=5)) == {Ground(("PER",)): {"ORG": 0.0}}


def test_words_that_nobody_looked_at_are_counted_by_themselves() -> None:
    half = (0, len(" ".join(WORDS[:5])))
    train = documents(100, per=20, org=20, unknown=(half,))  # the ORG lie across the border
    # Of PER there are 20 on 20 x 5 words that nobody looked at; in the 1,000 others there are 50.
    found = shares(train, documents(50, per=50, org=50))
    assert found == {
        Ground(None, unknown=True, touched=True): {"PER": 1.0, "ORG": 0.0},
        Ground(None, unknown=True): {"PER": 0.0, "ORG": 0.0},
    }


def test_labels_on_one_span_count_one_by_one_and_duplicates_once() -> None:
    pair = [(0, 1, "PER"), (0, 1, "ORG"), (0, 1, "ORG")]
    dev = [Document.from_words(WORDS, pair) for _ in range(20)]
    train = [Document.from_words(WORDS, [(0, 1, "ORG|PER")], complete_labels=()) for _ in range(20)]
    own = Counts(parts_of(joined=True)).add(train)
    reference = Counts(parts_of(joined=True)).add(train).add(dev, parts=parts_of(joined=False))
    (found,) = annotated_shares(own, reference, LABELS, 0.0, "train.jsonl").values()
    assert found == {"PER": 1.0, "ORG": 1.0}


def test_entities_with_one_of_several_labels_count() -> None:
    unsure = [Document.from_words(WORDS, admissible=(at(0, 0, "PER", "ORG"),)) for _ in range(40)]
    (found,) = shares([*unsure, *documents(40, per=5, org=5, complete_labels=())], []).values()
    assert found == {"PER": pytest.approx(0.25), "ORG": pytest.approx(0.25)}


def test_a_share_can_be_given() -> None:
    train = documents(10, per=3, complete_labels=())
    assert shares(train, documents(10, per=3), 0.25) == {Ground(()): {"PER": 0.25, "ORG": 0.25}}
    # Where nothing at all was annotated, there is no share to be given.
    assert shares(documents(10, per=0, complete_labels=()), [], 0.25) == {Ground(()): {"PER": 0.0, "ORG": 0.0}}
    # Nor where nobody looked: there it is estimated.
    looked = documents(20, per=10, unknown=((0, 26),))
    found = shares(looked, documents(10, per=10), 0.25)
    assert found[Ground(None, unknown=True, touched=True)]["PER"] == 1.0
    assert found[Ground(None, unknown=True)]["PER"] == 0.0


def test_single_answers_are_no_share_of_what_is_there() -> None:
    """However many there are: people were asked about what looked like entities."""
    train = documents(20, per=20, org=20, unknown=((0, 29),))
    assert shares(train, documents(50, per=5, org=5)) == {
        Ground(None, unknown=True, touched=True, whole=True): {"PER": 0.0, "ORG": 0.0}
    }
    # In a part that nobody looked at, a label that complete documents do not have is no measure of others.
    train = documents(20, per=0, org=20, unknown=((0, 26),))
    (found,) = shares(train, documents(50, per=5)).values()
    assert found == {"PER": 0.0, "ORG": 0.0}


@pytest.mark.parametrize("added", ["PER", "NEW"])
def test_a_guess_that_nobody_touched_is_no_negative_in_a_partial_return(tmp_path: Path, added: str) -> None:
    words = ["Anna", "met", "Bo", "."]
    sent = Document.from_words(words, [(0, 1, "PER")])
    back = dataclasses.replace(sent, entities=(*sent.entities, Entity(9, 11, added)))
    file = tmp_path / "more.jsonl"
    write(returned([sent], [back], partial=True), file)
    config = settings(tmp_path).updated({"missing_labels": "ignore"})
    dev = load_part(corpus_file(tmp_path / "dev.jsonl", 30, 1), config.splitter)
    complete = load_part(corpus_file(tmp_path / "train.jsonl", 30), config.splitter)
    part = dataclasses.replace(complete, documents=(*complete.documents, *load_part(file, config.splitter).documents))
    found = prepare(part, dev, config)
    sentence = found.sentences[-1]
    assert sentence.spans == ((2, 3, added),)
    assert sentence.doubts is not None
    ((first, last, number),) = sentence.doubts.regions
    assert (first, last) == (0, 3)
    assert found.sets[number][found.labels.index("PER")] == 1.0


def test_without_anything_complete_there_is_nothing_to_compare_with() -> None:
    train = documents(10, per=3, complete_labels=())
    with pytest.raises(DataError, match=r"no document.*complete.*\n?.*annotated_share"):
        shares(train, documents(10, per=3, complete_labels=()))


# --- What is open ---

HALF = {Ground(()): {"ORG": 0.5, "PER": 0.75}, Ground((), unknown=True): {"ORG": 0.0, "PER": 0.0}}
NEVER = {Ground(None, unknown=True): {"ORG": 0.0, "PER": 0.0}}


def opened(
    document: Document,
    shares: dict[Ground, dict[str, float]],
    start: int = 0,
    end: int = 10,
    labels: tuple[str, ...] = LABELS,
) -> Any:
    openings = Openings(labels, parts_of(joined=True), shares, report := Report())
    spans = [(one.token_start or 0, one.token_end or 0, one.label) for one in document.entities]
    document = dataclasses.replace(
        document, sentences=tuple(range_ for range_ in ((0, start), (start, end)) if range_[1])
    )
    (found,) = openings.of_document(document, [((start, end), spans)])
    return list(found.spans), found.doubts, openings.sets, [note.message for note in report]


PER = [(0, 1, "PER")]


def test_a_complete_document_leaves_nothing_open() -> None:
    assert opened(documents(1, per=1)[0], {}) == (PER, None, (), [])


def test_unannotated_spans_weigh_what_was_not_annotated() -> None:
    found = opened(documents(1, per=1, complete_labels=())[0], HALF)
    assert found == (PER, Doubts(0), ((0.5, 0.25, 1.0),), [])


def test_what_was_annotated_completely_after_all_is_as_usual() -> None:
    everything = {Ground(()): {"ORG": 1.0, "PER": 1.0}}
    assert opened(documents(1, per=1, complete_labels=())[0], everything) == (PER, None, (), [])


def test_regions_are_words_of_the_sentence() -> None:
    # Words 3 to 5, the fifth in part; and the last one.
    document = Document.from_words(WORDS, unknown=((27, 29), (9, 12), (11, 16)))
    _, doubts, sets, _ = opened(document, NEVER, 4, 10)
    assert doubts == Doubts(-1, ((0, 1, 0), (5, 5, 0)))
    assert sets == ((1.0, 1.0, 1.0),)
    assert opened(document, NEVER, 6, 9)[1] is None


JOINED = ("ORG", "ORG|PER", "PER")


def test_of_joined_labels_what_was_not_annotated_is_open() -> None:
    """PER is complete, ORG was not annotated."""
    document = documents(1, per=1, complete_labels=("PER",))[0]
    spans, doubts, sets, _ = opened(document, {Ground(("PER",)): {"ORG": 0.25}}, labels=JOINED)
    ((start, end, number),) = spans
    assert (start, end, sets[number]) == (0, 1, (0.0, 0.75, 1.0, 0.0))  # the PER may be an ORG as well
    assert sets[doubts.otherwise] == (0.75, 0.0, 0.0, 1.0)  # elsewhere there is no PER, alone or joined


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
            at(9, 9, "PER"),
        ),
        complete_labels=(),
    )
    observed, doubts, sets, notes = opened(document, HALF)
    assert observed[0] == (0, 2, "ORG")
    assert [(a, b, sets[number]) for a, b, number in observed[1:2]] == [(5, 7, (1.0, 1.0, 0.0))]
    assert observed[2:] == [(9, 10, "PER")]
    assert sets[doubts.otherwise] == (0.5, 0.25, 1.0)
    assert doubts.regions == ()
    assert [(a, b, sets[number]) for a, b, number in doubts.spans] == [
        (3, 3, (0.0, 1.0, 1.0)),
        (8, 8, (0.5, 0.0, 1.0)),
    ]
    assert notes == [
        "'w0 w1': it says something else than the entity that is annotated there",
        "'w1 w2': it crosses an entity",
    ]


def test_what_is_said_of_one_span_holds_together() -> None:
    said = [
        (at(1, 1, "PER", "ORG"), at(1, 1, "PER", excluded=True)),
        (at(2, 2, "PER", excluded=True), at(2, 2, "ORG", excluded=True)),
        (at(3, 3, "PER"), at(3, 3, "ORG")),
    ]
    document = Document.from_words(WORDS, admissible=tuple(one for some in said for one in some), complete_labels=())
    observed, doubts, sets, notes = opened(document, HALF)
    assert observed == [(1, 2, "ORG")]
    assert [(a, b, sets[number]) for a, b, number in doubts.spans] == [(2, 2, (0.0, 0.0, 1.0))]
    assert notes == ["'w3': what is said of it contradicts itself"]


def test_spans_that_are_no_words_of_a_sentence_open_theirs() -> None:
    document = Document.from_words(WORDS, admissible=(at(3, 5, "PER"), Admissible(1, 4, ("PER",))))
    observed, doubts, sets, notes = opened(document, {}, 0, 5)
    assert observed == []
    assert doubts == Doubts(-1, ((0, 1, 0), (3, 4, 0)))
    assert sets == ((1.0, 1.0, 1.0),)
    assert sorted(notes) == [
        "'0 w': it is not on token boundaries; its words are taken as not looked at",
        "'w3 w4 w5': it reaches over the end of its sentence; its words are taken as not looked at",
    ]


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
    assert local_loss(scores, same, 2).item() == pytest.approx(local_loss(scores, plain, 2).item())
    opened = model.observed(spans, lengths, sets=((0.5, 0.25, 1.0),), doubts=[None, Doubts(-1, (), ((3, 3, 0),))])
    chances = scores[1, 3, 3].softmax(0)
    gain = (0.5 * chances[0] + 0.25 * chances[1] + chances[2]).log() - chances[2].log()
    assert local_loss(scores, opened, 2).item() == pytest.approx((local_loss(scores, plain, 2) - gain / 2).item())


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


def test_dev_judges_what_it_was_annotated_for() -> None:
    words = WORDS[:6]
    gold = Document.from_words(
        words, [(0, 1, "ORG")], complete_labels=("ORG",), unknown=((12, 14),), admissible=(at(5, 5, "ORG", None),)
    )
    predicted = Document.from_words(words, [(0, 1, "ORG"), (1, 2, "PER"), (2, 3, "ORG"), (3, 5, "ORG"), (5, 6, "ORG")])
    assert [(one.token_start, one.label) for one in judged(gold, predicted).entities] == [(0, "ORG"), (2, "ORG")]
    assert judged(dataclasses.replace(gold, complete_labels=None, unknown=(), admissible=()), predicted) is predicted


def test_people_are_told_that_dev_is_not_complete(tmp_path: Path) -> None:
    config = settings(tmp_path)
    part = load_part(thinned(tmp_path / "a.jsonl", say=True), config.splitter)
    complete = load_part(corpus_file(tmp_path / "b.jsonl"), config.splitter)
    assert any("dev is not annotated completely" in note for note in prepare(complete, part, config).notes)


def test_entities_that_are_all_in_doubt_can_be_learned(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    said = [{"start": 0, "end": 1, "labels": ["ORG", "PER"]}]
    file.write_text(json.dumps({"tokens": ["a", "b"], "admissible": said}) + "\n")
    config = settings(tmp_path, balance=0.5)
    dev = load_part(corpus_file(tmp_path / "dev.jsonl", 8, 1), config.splitter)
    found = prepare(load_part(file, config.splitter), dev, config)
    assert found.labels == ("ORG", "PER")
    assert label_shift(found, 0.5, 1) == [0.0, 0.0, 0.0]


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
    rare = 0.5 * math.log(2 / 5)  # ORG on two spans, PER on five
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
