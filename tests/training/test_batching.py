"""Batches: every sentence once an epoch, within the budget, the same for any number of processes."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nestree.crf.kernels.codes import REJECTED
from nestree.model.batching import by_work, work
from nestree.model.pieces import Cut
from nestree.training.batching import Loader, shares
from nestree.training.data import Sentence
from nestree.training.shelf import Shelf
from tests.model import tiny
from tests.training.cases import settings

with TemporaryDirectory() as _folder:
    SMALL = tiny.model(Path(_folder), positions=12)


def cut(words: int, windows: int = 1, pieces: int | None = None) -> Cut:
    rows = tuple(np.ones((pieces or words) + 2, dtype=np.int64) for _ in range(windows))
    place = np.arange(words)
    return Cut(rows, np.zeros_like(place), place, place)


@given(st.lists(st.tuples(st.integers(1, 80), st.integers(1, 3)), max_size=40), st.integers(1, 3000))
def test_batches_hold_every_sentence_once_within_the_budget(sizes: list[tuple[int, int]], budget: int) -> None:
    cuts = [cut(words, windows) for words, windows in sizes]
    batches = by_work(cuts, budget)
    assert sorted(at for batch in batches for at in batch) == list(range(len(cuts)))
    for batch in batches:
        assert len(batch) == 1 or work([cuts[at] for at in batch]) <= budget


def test_lengths_in_a_batch_are_alike() -> None:
    cuts = [cut(words) for words in [5, 50, 6, 51, 4, 52]]
    assert [sorted(len(cuts[at].first) for at in batch) for batch in by_work(cuts, 3 * 54 + 3 * 52 * 52 // 32)] == [
        [50, 51, 52],
        [4, 5, 6],
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Sentence]]:
    random = np.random.default_rng(0)
    found = [Sentence(tuple("ab" for _ in range(random.integers(2, 20))), ((0, 1, "PER"),)) for _ in range(53)]
    return tmp_path_factory.mktemp("loader"), found


def loader(made: tuple[Path, list[Sentence]], process: tuple[int, int] = (0, 1), **others: object) -> Loader:
    config = settings(made[0], **{"batch_size": 8, **others})
    return Loader(tiny.model(made[0]), made[1], config, process=process)


def test_an_epoch_has_every_sentence_once_and_epochs_differ(made: tuple[Path, list[Sentence]]) -> None:
    found = loader(made)
    steps = list(found.epoch(1))
    assert len(steps) == found.steps == 7
    assert sorted(number for step in steps for number in step.numbers) == list(range(53))
    assert [step.numbers for step in found.epoch(2)] != [step.numbers for step in steps]
    assert [step.numbers for step in loader(made).epoch(1)] == [step.numbers for step in steps]
    assert [step.numbers for step in loader(made, seed=1).epoch(1)] != [step.numbers for step in steps]


def test_going_on_within_an_epoch_gives_the_rest_of_it(made: tuple[Path, list[Sentence]]) -> None:
    whole, rest = list(loader(made).epoch(3)), list(loader(made).epoch(3, skip=4))
    assert [step.numbers for step in rest] == [step.numbers for step in whole[4:]]
    for one, other in zip(rest, whole[4:], strict=True):
        for part, same in zip(one.parts, other.parts, strict=True):
            assert torch.equal(part.batch.pieces, same.batch.pieces)


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_the_batches_of_one(made: tuple[Path, list[Sentence]], processes: int) -> None:
    one = list(loader(made).epoch(1))
    several = [list(loader(made, (rank, processes)).epoch(1)) for rank in range(processes)]
    for at, step in enumerate(one):
        shares = [steps[at] for steps in several]
        assert sorted(number for share in shares for number in share.numbers) == sorted(step.numbers)
        assert {share.sentences for share in shares} == {len(step.numbers)}


def test_a_small_budget_cuts_a_step_into_parts(made: tuple[Path, list[Sentence]]) -> None:
    (step, *_), (small, *_) = loader(made).epoch(1), loader(made, budget=60).epoch(1)
    assert len(step.parts) == 1
    assert len(small.parts) > 1
    assert sum(map(len, small.parts)) == len(step.parts[0]) == small.sentences


def test_masking_hides_words_and_never_special_pieces(made: tuple[Path, list[Sentence]]) -> None:
    tokenizer = tiny.model(made[0]).tokenizer
    hidden = kept = 0
    for plain, masked in zip(loader(made, mask=0.0).epoch(1), loader(made, mask=0.3).epoch(1), strict=True):
        for part, other in zip(plain.parts, masked.parts, strict=True):
            changed = part.batch.pieces != other.batch.pieces
            special = torch.isin(part.batch.pieces, torch.tensor(tokenizer.all_special_ids))
            assert not bool((changed & special).any())
            assert bool((other.batch.pieces[changed] == tokenizer.mask_token_id).all())
            hidden += int(changed.sum())
            kept += int((~changed & ~special).sum())
    assert 0.25 < hidden / (hidden + kept) < 0.35


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.data())
def test_batches_from_the_shelf_are_those_put_together_one_by_one(sizes: list[int], data: st.DataObject) -> None:
    found = SMALL  # reads 12 pieces at a time: longer sentences have several windows
    letters = st.sampled_from(["a", "bc", "def", "\x00"])
    words = [[data.draw(letters) for _ in range(size)] for size in sizes]
    spans = [[(0, size, "PER"), (size - 1, size, "ORG")] if size > 1 else [] for size in sizes]
    cuts = found.pieces.cut(words)
    shelf = Shelf(
        found.pieces, cuts, [found.observed([one], [len(some)]) for one, some in zip(spans, words, strict=True)]
    )
    chosen = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=6, unique=True))
    n = shelf.longest(np.array(chosen))
    batch, wanted = shelf.batch(np.array(chosen), n), found.pieces.together([cuts[at] for at in chosen])
    for name, value in vars(wanted).items():
        same = getattr(batch, name)
        assert torch.equal(same, value) if isinstance(value, torch.Tensor) else same == value
    observed = shelf.observed(np.array(chosen), n)
    plain = found.observed([spans[at] for at in chosen], [sizes[at] for at in chosen])
    assert torch.equal(observed.codes, plain.codes)
    assert observed.codes.dtype == plain.codes.dtype
    assert torch.equal(observed.lengths, plain.lengths)
    wider = shelf.batch(np.array(chosen), n + 3).first, shelf.observed(np.array(chosen), n + 3)
    assert torch.equal(wider[0][:, :n], batch.first)
    assert torch.equal(wider[1].codes[:, :n, :n], observed.codes)
    assert bool((wider[1].codes[:, n:] == REJECTED).all() and (wider[1].codes[:, :, n:] == REJECTED).all())
    owners = [at for at in chosen for _ in cuts[at].windows]
    assert shelf.windows(np.array(chosen)).tolist() == owners


def test_shares_are_even_and_depend_on_all_they_should() -> None:
    found = shares(1, 2, np.arange(300), 200)
    assert abs(found.mean() - 0.5) < 0.01
    assert abs((found < 0.15).mean() - 0.15) < 0.01
    assert len(np.unique(found)) == found.size
    assert not np.array_equal(found, shares(1, 3, np.arange(300), 200))
    assert not np.array_equal(found, shares(2, 2, np.arange(300), 200))
    some = shares(1, 2, np.array([7, 7, 250]), 50)  # two windows of sentence 7
    assert np.array_equal(some[0], found[7, :50])
    assert np.array_equal(some[2], found[250, :50])
    assert not np.array_equal(some[0], some[1])


def test_what_goes_wrong_in_the_thread_is_raised_where_steps_are_used(
    made: tuple[Path, list[Sentence]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = loader(made)

    def broken(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(found, "parts", broken)
    with pytest.raises(MemoryError, match="no room"):
        next(iter(found.epoch(1)))
