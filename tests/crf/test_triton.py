"""What is particular to the Triton backend: the compiler, the GPU, sizes that only a GPU manages."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nestree.crf import NoTreeError, PartialTrees, TreeCRF, backend, normalize_potentials
from nestree.crf.kernels import later
from tests.crf.cases import NEVER, random_nesting, random_scores, using, why_not

ROOT = Path(__file__).parents[2]
needs_triton = pytest.mark.skipif(why_not("triton") is not None, reason="Triton is not installed")
cuda = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")]


@needs_triton
def test_the_kernels_compile_for_a_gpu(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.crf.compile_kernels"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.split()) == 23


@needs_triton
@pytest.mark.parametrize("score", [1e5, -1e9])
def test_scores_beyond_the_range_are_refused_or_as_good_as_minus_inf(score: float) -> None:
    with using("triton"):
        scores = random_scores(2, 4, 2, dtype=torch.float32)
        scores[1, 1, 2] = score
        if score > 0:
            with pytest.raises(ValueError, match=r"goes to 1e\+05 at sentence 1, span \(1, 2\).*normalize_potentials"):
                _ = TreeCRF(scores).log_partition
            return
        forbidden = scores.masked_fill(scores == score, NEVER)
        torch.testing.assert_close(TreeCRF(scores).log_partition, TreeCRF(forbidden).log_partition)
        scores[1, 0, 1:3] = scores[1, 1, 3] = score  # every tree of the second sentence has one of these
        with pytest.raises(ValueError, match=r"goes to -1e\+09 at sentence 1, span .*, and every tree needs"):
            _ = TreeCRF(scores).log_partition


@needs_triton
def test_two_faint_spans_in_every_tree_are_noticed() -> None:
    scores = torch.full((1, 8, 8, 1), NEVER)
    scores[0].diagonal().fill_(0.0)
    for start, end in ((0, 7), (0, 2), (0, 1), (3, 7), (3, 4), (5, 7), (6, 7)):
        scores[0, start, end] = 0.0
    scores[0, 0, 2] = scores[0, 3, 7] = -1e9
    scores[0, 6, 7] = 200.0
    with using("triton"), pytest.raises(ValueError, match=r"-1e\+09 at sentence 0, span .*, and every tree needs"):
        _ = TreeCRF(scores.to(torch.get_default_device())).log_partition


@needs_triton
def test_charts_that_are_too_large_are_refused() -> None:
    with using("triton"), pytest.raises(ValueError, match=r"up to 1025 words, the GPU kernels for up to 1024"):
        _ = TreeCRF(torch.zeros(1, 1, 1, 1).expand(1, 1025, 1025, 1)).argmax


def test_checks_that_can_wait_do_so_where_someone_collects_them() -> None:
    done = []

    def operation(can_wait: bool) -> str:
        later.check(lambda: done.append(can_wait), can_wait=can_wait)
        return "result"

    result, checks = later.collecting(operation, True)
    assert result == "result"
    assert done == []
    assert len(checks) == 1
    checks[0]()
    assert done == [True]
    later.collecting(operation, False)
    operation(True)
    assert done == [True, False, True]
    with pytest.raises(ZeroDivisionError):
        later.collecting(lambda: 1 / 0)
    operation(True)  # nobody collects any more
    assert len(done) == 4


@needs_triton
def test_lengths_on_the_device_are_checked_by_the_kernels() -> None:
    with using("triton"):
        scores = random_scores(2, 4, 2)
        if scores.is_cuda:
            with pytest.raises(ValueError, match=r"lengths\[1\] is 5"):
                _ = TreeCRF(scores, torch.tensor([4, 5])).log_partition
            with pytest.raises(ValueError, match=r"lengths\[0\] is 0"):
                _ = TreeCRF(scores, torch.tensor([0, 4])).argmax
        for lengths in ([4, 2], [4, 4]):
            partial = PartialTrees.from_spans([[], []], [4, 3], entity_labels=1).to(scores.device)
            with pytest.raises(
                ValueError, match=rf"sentence 1 has {lengths[1]} words in lengths .* but 3 in the partial"
            ):
                TreeCRF(scores, lengths).log_prob(partial)


class TestOnAGPU:
    """Full sizes, compilers, graphs, streams."""

    pytestmark = cuda

    def test_the_backend_is_chosen_by_itself(self) -> None:
        assert TreeCRF(torch.zeros(1, 2, 2, 1, device="cuda")).backend == "triton"

    @pytest.mark.parametrize("scale", [1, 3, 10, 30])
    @pytest.mark.parametrize("n", [100, 512])
    def test_long_sentences_agree_with_the_cpu_kernels(self, n: int, scale: float) -> None:
        lengths = [n, n - 7, n // 3]
        rng = random.Random(n)
        spans = [random_nesting(rng, m, 3, 0.1) for m in lengths]
        partial = PartialTrees.from_spans(spans, lengths, entity_labels=3)
        scores = random_scores(3, n, 4, scale=scale, dtype=torch.float32)
        found = []
        for device in ("cpu", "cuda"):
            leaf = scores.to(device).requires_grad_()
            crf = TreeCRF(leaf, lengths)
            value = crf.log_prob(partial.to(device), smoothing=0.02)
            (gradient,) = torch.autograd.grad((value + crf.entropy).sum(), leaf)
            results = [crf.log_partition, value, crf.entropy, crf.max, crf.marginals, gradient]
            found.append([result.detach().cpu().double() for result in results])
        for ours, exact, tolerance in zip(found[1], found[0], [0, 0, 0, 0, 1e-4, 2e-3], strict=True):
            torch.testing.assert_close(ours, exact, rtol=1e-5, atol=tolerance or 1e-3)

    def test_a_training_step_learns_of_bad_sentences_before_the_optimizer_does(self) -> None:
        partial = PartialTrees.from_spans([[], [(0, 1, 0)]], [3, 3], entity_labels=1).to("cuda")
        scores = torch.zeros(2, 3, 3, 2, device="cuda")
        scores[1, 0, 1, 0] = NEVER
        with pytest.raises(NoTreeError, match=r"sentence 1"):
            TreeCRF(scores).log_prob(partial)
        scores.requires_grad_()
        value = TreeCRF(scores).log_prob(partial)  # does not wait
        with pytest.raises(NoTreeError, match=r"sentence 1"):
            value.sum().backward()
        assert scores.grad is None
        bad = torch.full((1, 2, 2, 1), float("nan"), device="cuda", requires_grad=True)
        for name in ("log_partition", "entropy"):
            value = getattr(TreeCRF(bad), name)
            with pytest.raises(ValueError, match="NaN"):
                value.sum().backward()

    def test_more_than_2_to_the_31_elements(self) -> None:
        scores = torch.randn(4096, 260, 260, 8, device="cuda")
        assert scores.numel() > 2**31
        lengths = torch.randint(1, 261, (4096,), device="cuda")
        lengths[-1] = 260
        crf = TreeCRF(scores, lengths)
        last = TreeCRF(scores[-1:].clone())
        torch.testing.assert_close(crf.log_partition[-1:], last.log_partition, rtol=0, atol=0)
        assert torch.equal(crf.argmax[-1:], last.argmax)
        assert torch.equal(crf.marginals[-1:], last.marginals)

    def test_the_same_bits_every_time_and_in_any_batch(self) -> None:
        scores = torch.randn(64, 50, 50, 5, device="cuda")
        lengths = torch.randint(1, 51, (64,), device="cuda")

        def gradient(s: Tensor, lengths: Tensor) -> Tensor:
            leaf = s.clone().requires_grad_()
            crf = TreeCRF(leaf, lengths)
            return torch.autograd.grad((crf.log_partition + crf.entropy).sum(), leaf)[0]

        first = gradient(scores, lengths)
        assert torch.equal(first, gradient(scores, lengths))
        for sentence, words in enumerate(lengths.tolist()[:8]):
            alone = gradient(scores[sentence : sentence + 1, :words, :words], lengths[sentence : sentence + 1])
            assert torch.equal(first[sentence, :words, :words], alone[0])

    def loss(self, features: Tensor, weight: Tensor, lengths: Tensor, partial: PartialTrees) -> Tensor:
        crf = TreeCRF(normalize_potentials(features @ weight, lengths), lengths)
        return -crf.log_prob(partial, smoothing=0.02).mean() - 0.01 * crf.entropy.mean()

    def arguments(self, n: int) -> tuple[Tensor, Tensor, Tensor, PartialTrees]:
        lengths = torch.tensor([n, n - 2, 2])
        partial = PartialTrees.from_spans([[(0, 2, 1)], [(1, 1, 0)], []], lengths, entity_labels=3).to("cuda")
        weight = torch.randn(5, 4, device="cuda", requires_grad=True)
        return torch.randn(3, n, n, 5, device="cuda"), weight, lengths.cuda(), partial

    @pytest.mark.filterwarnings("default")
    @pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
    def test_compiled_without_a_graph_break(self, mode: str) -> None:
        compiled: Callable[..., Tensor] = torch.compile(self.loss, fullgraph=True, mode=mode)
        for n in (6, 9, 9, 9, 13):
            arguments = self.arguments(n)
            (wanted,) = torch.autograd.grad(self.loss(*arguments), arguments[1])
            (got,) = torch.autograd.grad(compiled(*arguments), arguments[1])
            torch.testing.assert_close(got, wanted)

    def test_captured_in_a_cuda_graph(self) -> None:
        arguments = self.arguments(9)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.autograd.grad(self.loss(*arguments), arguments[1])
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            (gradient,) = torch.autograd.grad(self.loss(*arguments), arguments[1])
            best = TreeCRF(arguments[0] @ arguments[1], arguments[2]).argmax
        with torch.no_grad():
            arguments[0].normal_()
        graph.replay()
        (wanted,) = torch.autograd.grad(self.loss(*arguments), arguments[1])
        torch.testing.assert_close(gradient, wanted)
        assert torch.equal(best, TreeCRF(arguments[0] @ arguments[1], arguments[2]).argmax)
        # Nothing can be raised from inside a graph: a NaN in shows as a NaN out.
        arguments[0][1, 0, 0, 0] = float("nan")
        graph.replay()
        assert gradient.isnan().any()

    def test_autocast_leaves_it_in_float32(self) -> None:
        arguments = self.arguments(9)
        with torch.autocast("cuda", torch.bfloat16):
            half = arguments[0] @ arguments[1]
            assert half.dtype == torch.bfloat16
            normal = normalize_potentials(half, arguments[2])
            assert normal.dtype == TreeCRF(normal, arguments[2]).log_partition.dtype == torch.float32
        torch.testing.assert_close(normal, normalize_potentials(half.float(), arguments[2]))

    def test_plain_torch_agrees_on_the_gpu(self) -> None:
        scores = torch.randn(4, 30, 30, 6, device="cuda")
        with backend("torch"):
            plain = TreeCRF(scores)
        fused = TreeCRF(scores)
        for name in ("log_partition", "entropy", "max", "marginals"):
            torch.testing.assert_close(getattr(fused, name), getattr(plain, name), rtol=1e-5, atol=1e-5)
