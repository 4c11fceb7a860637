from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
import torch

import nestree.crf.kernels as kernels
from nestree.crf import TreeCRF, backend
from nestree.crf.kernels import cpu


def test_where_there_is_a_compiler_the_kernels_are_there() -> None:
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++", "cl")):
        pytest.skip("no C++ compiler on this machine")
    assert cpu.library is not None, (
        "a compiler is here, but the kernels were not built: run `make setup` and read its output"
    )
    assert cpu.instructions() in {"avx512", "avx2", "any_cpu"}


def test_the_backend_is_chosen_when_the_distribution_is_made() -> None:
    scores = torch.zeros(1, 2, 2, 1)
    usual = TreeCRF(scores).backend
    with backend("torch"):
        crf = TreeCRF(scores)
        assert crf.backend == "torch"
    assert TreeCRF(scores).backend == usual
    assert crf.log_partition.item() == 0


def test_an_override_holds_in_its_own_thread_alone() -> None:
    scores, seen = torch.zeros(1, 2, 2, 1), []
    usual = TreeCRF(scores).backend
    with backend("torch"):
        thread = threading.Thread(target=lambda: seen.append(TreeCRF(scores).backend))
        thread.start()
        thread.join()
    assert seen == [usual]


def test_an_unknown_backend_is_an_error_that_lists_the_known_ones() -> None:
    with (
        pytest.raises(ValueError, match=r"unknown backend 'cuda'; known are 'torch', 'cpu', 'triton'"),
        backend("cuda"),
    ):
        pass


def test_without_compiled_kernels_it_warns_once_and_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "library", None)
    kernels._warn_once.cache_clear()
    with pytest.warns(UserWarning, match="no compiled kernels.*reinstall"):
        crf = TreeCRF(torch.zeros(1, 3, 3, 1))
    assert crf.backend == "torch"
    assert crf.log_partition.exp().item() == pytest.approx(2)
    TreeCRF(torch.zeros(1, 3, 3, 1))  # warnings are errors in these tests: a second one would fail here
    with pytest.raises(RuntimeError, match="the 'cpu' backend is not there"), backend("cpu"):
        pass


def test_a_library_that_cannot_be_loaded_is_named_and_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "_native.abi3.so").write_bytes(b"not a library")
    monkeypatch.setattr(cpu, "__file__", str(tmp_path / "cpu.py"))
    with pytest.warns(UserWarning, match=r"compiled kernels cannot be loaded \(.*_native.abi3.so"):
        assert cpu._load() is None


def test_the_cpu_backend_refuses_tensors_from_elsewhere() -> None:
    if cpu.library is None:
        pytest.skip("the CPU kernels are not compiled here")
    with backend("cpu"), pytest.raises(ValueError, match="log_potentials is on meta"):
        TreeCRF(torch.zeros(1, 2, 2, 1, device="meta"))
