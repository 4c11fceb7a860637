"""Encoders recorded for a GPU: the same entities as without, whatever becomes of the weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nestree.model import NestedNER, replays
from nestree.model.replays import rounded
from tests.prediction.test_trees import sure

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
WORDS = [
    ["IL-2", "gene", "expression", "requires", "NF-kappa", "B", "."][:n] * times
    for n in (3, 5, 7)
    for times in range(1, 9)
]


@pytest.mark.parametrize("rows", [*range(1, 70), 127, 128, 129, 1000, 4096])
def test_rounded_rows_suffice_and_are_few_more(rows: int) -> None:
    assert rows <= rounded(rows) <= max(rows, 1.125 * rows)
    assert rounded(rounded(rows)) == rounded(rows)


def test_there_are_few_numbers_of_rows() -> None:
    assert len({rounded(rows) for rows in range(1, 1025)}) <= 8 * 8


def test_a_cpu_needs_no_recordings(tmp_path: Path) -> None:
    with torch.inference_mode():
        assert replays.replays_of(sure(tmp_path).encoder.model, torch.zeros(1, 8, dtype=torch.int64)) is None


def places(model: NestedNER) -> list[list[tuple[int, int, str]]]:
    return [[(one.start, one.end, one.label) for one in found.entities] for found in model.predict_tokens(WORDS)]


@needs_gpu
def test_the_same_entities_as_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = sure(tmp_path, decoding="mbr").cuda().eval()
    often = [places(model) for _ in range(4)]
    assert replays._replays[model.encoder.model]._recordings._kept
    monkeypatch.setattr(replays, "_weights", lambda model: None)
    assert often == [places(model)] * 4


@needs_gpu
def test_other_weights_are_used_at_once(tmp_path: Path) -> None:
    model = sure(tmp_path, decoding="mbr").cuda().eval()
    batch = model.pieces(WORDS).to("cuda")
    for _ in range(3):
        before = model.decode_steps().ask(batch).scores.clone()
    with torch.no_grad():
        for weight in model.encoder.model.parameters():  # where they are, and elsewhere
            weight.add_(0.1)
    changed = model.decode_steps().ask(batch).scores.clone()
    assert not torch.allclose(before, changed)
    for weight in model.encoder.model.parameters():
        weight.data = weight.data - 0.1
    for _ in range(3):
        again = model.decode_steps().ask(batch).scores.clone()
        assert torch.allclose(before, again, atol=1e-3)


@needs_gpu
def test_hooks_are_called(tmp_path: Path) -> None:
    model = sure(tmp_path, decoding="mbr").cuda().eval()
    places(model)
    places(model)
    called: list[int] = []
    hook = model.encoder.model.register_forward_hook(lambda *_: called.append(1))
    places(model)
    hook.remove()
    assert called


@needs_gpu
def test_a_recording_that_computes_something_else_is_not_used() -> None:
    from nestree.recordings import Recordings

    told: list[str] = []
    recordings = Recordings(torch.device("cuda"), told.append)
    there = torch.ones(1, device="cuda")

    def work(one: torch.Tensor) -> torch.Tensor:
        return one * (2 if torch.cuda.is_current_stream_capturing() else there)

    with torch.inference_mode():
        for _ in range(4):
            assert torch.equal(recordings.run("key", work, torch.ones(3), checked=0.01).cpu(), torch.ones(3))
    assert told == ["a recording computes something else"]


@needs_gpu
def test_memory_is_given_back(tmp_path: Path) -> None:
    model = sure(tmp_path, decoding="mbr").cuda().eval()
    places(model)
    places(model)
    assert model.encoder.model in replays._replays
    replays.forget(model)
    assert model.encoder.model not in replays._replays
    places(model)
