"""TreeCRF where people use it: dtypes, strides, modes, compilers, threads."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nestree.crf import PartialTrees, TreeCRF, normalize_potentials
from nestree.crf.kernels import cpu
from nestree.crf.kernels.ops import operations
from tests.crf.cases import interpreted, random_scores, using, why_not

LENGTHS = [6, 2, 5]
PARTIAL = PartialTrees.from_spans([[(0, 2, 1), (1, 2, 0)], [(1, 1, 0)], []], LENGTHS, entity_labels=3)


def loss(scores: Tensor) -> Tensor:
    crf = TreeCRF(scores, LENGTHS)
    return (0.01 * crf.entropy - crf.log_prob(PARTIAL.to(scores.device), smoothing=0.02, scope="all")).sum()


def gradient(scores: Tensor, of: Callable[[Tensor], Tensor] = loss) -> Tensor:
    scores = scores.detach().requires_grad_()
    return torch.autograd.grad(of(scores), scores)[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_float_type_comes_in_and_its_gradients_go_out(dtype: torch.dtype, each_backend: str) -> None:
    scores = random_scores(3, 6, 4, dtype=dtype)
    exact = gradient(scores.double())
    got = gradient(scores)
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-6)
    crf = TreeCRF(scores, LENGTHS)
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    assert crf.log_partition.dtype == crf.marginals.dtype == crf.entropy.dtype == computed
    assert crf.argmax.dtype == torch.int64


def views() -> dict[str, Callable[[Tensor], Tensor]]:
    """Ways to lay out the same ``[batch, n, n, label]`` numbers in memory."""
    return {
        "label first": lambda s: s.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1),
        "batch last": lambda s: s.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2),
        "inside a larger tensor": lambda s: torch.nn.functional.pad(s, (1, 2, 1, 1, 1, 1))[:, 1:-1, 1:-1, 1:-2],
        "transposed": lambda s: s.transpose(1, 2).contiguous().transpose(1, 2),
        "reversed by flip": lambda s: s.flip(1).flip(1),
    }


@pytest.mark.parametrize("layout", views())
def test_any_layout_gives_the_same(layout: str, each_backend: str) -> None:
    scores = random_scores(3, 6, 4, dtype=torch.float32)
    view = views()[layout](scores)
    assert torch.equal(view, scores)
    torch.testing.assert_close(gradient(view), gradient(scores), rtol=0, atol=0)
    ours, theirs = TreeCRF(view, LENGTHS), TreeCRF(scores, LENGTHS)
    for name in ("log_partition", "marginals", "argmax", "entropy", "max"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=0, atol=0)
    assert torch.equal(ours.topk(3)[1], theirs.topk(3)[1])


def test_an_expanded_view_gets_its_gradients(each_backend: str) -> None:
    scores = random_scores(1, 6, 4).requires_grad_()
    (shared,) = torch.autograd.grad(loss(scores.expand(3, -1, -1, -1)), scores)
    torch.testing.assert_close(shared, gradient(scores.detach().repeat(3, 1, 1, 1)).sum(0, keepdim=True))


@pytest.mark.skipif(cpu.library is None, reason="the CPU kernels are not compiled here")
def test_the_gradient_of_a_label_first_view_is_label_first_too() -> None:
    scores = views()["label first"](random_scores(3, 6, 4))
    assert gradient(scores).stride() == scores.stride()


def test_lengths_may_be_strided(each_backend: str) -> None:
    scores = random_scores(3, 6, 4)
    view = torch.tensor([[6, 0], [2, 0], [5, 0]])[:, 0]
    for strided, plain in ((view, LENGTHS), (torch.tensor([4]).expand(3), [4, 4, 4])):
        assert torch.equal(TreeCRF(scores, strided).log_partition, TreeCRF(scores, plain).log_partition)
        assert torch.equal(TreeCRF(scores, strided).argmax, TreeCRF(scores, plain).argmax)
        assert torch.equal(normalize_potentials(scores, strided), normalize_potentials(scores, plain))


def test_several_gradients_at_a_time(each_backend: str) -> None:
    scores = random_scores(3, 4, 2).requires_grad_()
    value = TreeCRF(scores).log_partition
    batched = torch.autograd.grad(value, scores, torch.eye(3).double(), is_grads_batched=True, retain_graph=True)[0]
    for sentence in range(3):
        (alone,) = torch.autograd.grad(value[sentence], scores, retain_graph=True)
        torch.testing.assert_close(batched[sentence], alone)


def test_one_word(each_backend: str) -> None:
    scores = random_scores(2, 1, 3)
    crf = TreeCRF(scores)
    torch.testing.assert_close(crf.log_partition, scores[:, 0, 0].logsumexp(-1))
    torch.testing.assert_close(crf.marginals[:, 0, 0], scores[:, 0, 0].softmax(-1))
    assert torch.equal(crf.argmax[:, 0, 0], scores[:, 0, 0].argmax(-1))


def test_an_empty_batch(each_backend: str) -> None:
    crf = TreeCRF(torch.zeros(0, 4, 4, 2))
    assert crf.log_partition.shape == crf.entropy.shape == (0,)
    assert crf.argmax.shape == (0, 4, 4)
    assert crf.marginals.shape == (0, 4, 4, 2)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode: Callable[[], object], each_backend: str) -> None:
    scores = random_scores(3, 6, 4).requires_grad_()
    usual, partial = TreeCRF(scores, LENGTHS), PARTIAL.to(scores.device)
    with mode():  # type: ignore[attr-defined]
        crf = TreeCRF(scores.clone(), LENGTHS)
        for name in ("log_partition", "marginals", "argmax", "entropy", "max"):
            assert not getattr(crf, name).requires_grad
            assert torch.equal(getattr(crf, name), getattr(usual, name))
        assert torch.equal(crf.topk(2)[1], usual.topk(2)[1])
        assert torch.equal(crf.mbr(), usual.mbr())
        assert crf.sample(2).shape == (2, *crf.argmax.shape)
        assert torch.equal(crf.log_prob(partial), usual.log_prob(partial))
        assert torch.equal(crf.kl(usual), usual.kl(usual))


def test_what_was_computed_without_gradients_has_them_when_asked_again(each_backend: str) -> None:
    scores = random_scores(3, 6, 4).requires_grad_()
    crf = TreeCRF(scores, LENGTHS)
    with torch.no_grad():
        assert not crf.log_partition.requires_grad
    assert crf.log_partition.requires_grad
    assert crf.log_partition is crf.log_partition, "computed once"


def test_autocast_leaves_it_in_float32(each_backend: str) -> None:
    scores = random_scores(3, 6, 4, dtype=torch.float32)
    with torch.autocast(scores.device.type, dtype=torch.bfloat16):
        inside_autocast = gradient(scores)
        assert TreeCRF(scores).log_partition.dtype == torch.float32
    torch.testing.assert_close(inside_autocast, gradient(scores), rtol=0, atol=0)


def test_deterministic_mode_and_thread_counts_change_no_bit(each_backend: str) -> None:
    batch, n = (4, 8) if interpreted(each_backend) else (40, 24)
    scores = random_scores(batch, n, 4, dtype=torch.float32)
    before = torch.get_num_threads()

    def total(s: Tensor) -> Tensor:
        return (TreeCRF(s).log_partition + TreeCRF(s).entropy).sum()

    try:
        torch.set_num_threads(1)
        one = gradient(scores, total)
        torch.set_num_threads(4)
        torch.use_deterministic_algorithms(True)
        four = gradient(scores, total)
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(before)
    assert torch.equal(one, four)


def test_threads_do_not_disturb_each_other(each_backend: str) -> None:
    if interpreted(each_backend):
        pytest.skip("Triton's interpreter runs in one thread only")
    everything = [random_scores(3, 6, 4) for _ in range(8)]
    wanted = [gradient(scores) for scores in everything]
    got: list[Tensor | None] = [None] * 8

    def work(index: int) -> None:
        for _ in range(5):
            with using(each_backend):
                got[index] = gradient(everything[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.skipif(cpu.library is None, reason="the CPU kernels are not compiled here")
@pytest.mark.filterwarnings("default")
def test_compiled_models_keep_it_as_one_operation_and_do_not_recompile_for_each_length() -> None:
    def step(features: Tensor, weight: Tensor, lengths: Tensor, partial: PartialTrees) -> Tensor:
        crf = TreeCRF(features @ weight, lengths)
        return -crf.log_prob(partial, smoothing=0.02).mean() - 0.01 * crf.entropy.mean()

    graphs = []

    def count_graphs(module: torch.fx.GraphModule, _inputs: list[Tensor]) -> Callable[..., object]:
        graphs.append(module)
        return module.forward

    compiled = torch.compile(step, fullgraph=True, backend=count_graphs)
    weight = torch.randn(5, 4, requires_grad=True)
    for n in (6, 9, 13, 7, 20, 11):
        lengths = torch.tensor([n, n - 2, 2])
        partial = PartialTrees.from_spans([[(0, 2, 1)], [(1, 1, 0)], []], lengths, entity_labels=3)
        features = torch.randn(3, n, n, 5)
        (wanted,) = torch.autograd.grad(step(features, weight, lengths, partial), weight)
        (got,) = torch.autograd.grad(compiled(features, weight, lengths, partial), weight)
        torch.testing.assert_close(got, wanted)
    assert len(graphs) <= 2, "one graph for the first length, one for all others"
    inner = [module for module in graphs[-1].modules() if isinstance(module, torch.fx.GraphModule)]
    operations = {str(node.target) for module in inner for node in module.graph.nodes}
    names = ("log_prob", "log_prob_backward", "entropy", "entropy_backward")
    assert {f"nestree_cpu.{name}" for name in names} <= operations


CALLS: list[tuple[str, Callable[..., tuple[object, ...]]]] = [
    ("inside", lambda s, n, c: (s, n, c, 3, 0.1, 0.0, True, True, False)),
    ("inside", lambda s, n, c: (s, n, None, 0, 0.0, 0.0, True, False, False)),
    ("marginals", lambda s, n, c: (torch.rand(2, 3).double(), s, n, c, 3, 0.1, 0.1, True, None)),
    ("log_prob", lambda s, n, c: (s, n, c, 3, 0.1, 0.0, True, False)),
    ("log_prob", lambda s, n, c: (s, n, c, 3, 0.1, 0.0, False, False)),
    ("entropy", lambda s, n, c: (s, n, True)),
    ("entropy", lambda s, n, c: (s, n, False)),
    ("normalize", lambda s, n, c: (s.half(), n, 1e-5)),
    ("slopes", lambda s, n, c: (torch.rand(1, 3).double(), s, torch.rand_like(s), n, c, 3, 0.1, 0.1, False)),
    ("expectation", lambda s, n, c: (s, torch.rand_like(s), n)),
    ("best_tree", lambda s, n, c: (s, n)),
    ("topk", lambda s, n, c: (s, n, 3)),
    ("sample", lambda s, n, c: (s, n, torch.rand(2, 3, 22).double())),
]


@pytest.mark.parametrize(
    ("name", "operation", "arguments"),
    # topk runs on plain torch on a GPU.
    [(name, *call) for name in ("cpu", "triton") for call in CALLS if (name, call[0]) != ("triton", "topk")],
)
def test_operations_keep_torchs_rules(name: str, operation: str, arguments: Callable[..., tuple[object, ...]]) -> None:
    if reason := why_not(name):
        pytest.skip(reason)
    with using(name):
        scores = views()["label first"](random_scores(3, 6, 4))
        TreeCRF(scores)  # so that the backend is loaded
        inputs = arguments(scores, torch.tensor(LENGTHS), PARTIAL.codes.to(scores.device))
        checks = ("test_schema", "test_faketensor")
        ops = operations(name)
        torch.library.opcheck(getattr(ops, operation).default, inputs, test_utils=checks)
        # What goes with it in the backward pass.
        grad = torch.rand(3).double()
        if operation == "log_prob" and inputs[-2]:
            _, state = ops.log_prob(*inputs)
            torch.library.opcheck(ops.log_prob_backward.default, (grad, *inputs[:-2], state), test_utils=checks)
        if operation == "entropy" and inputs[-1]:
            _, state = ops.entropy(*inputs)
            torch.library.opcheck(ops.entropy_backward.default, (grad, *inputs[:2], state), test_utils=checks)
        if operation == "normalize":
            normal, scales = ops.normalize(*inputs)
            arguments_back = (torch.rand_like(normal), inputs[0], normal, scales, inputs[1])
            torch.library.opcheck(ops.normalize_backward.default, arguments_back, test_utils=checks)


def test_crf_imports_nothing_else_of_the_package() -> None:
    code = "import sys, nestree.crf; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "nestree.crf.distribution" in found
    others = {"transformers", "triton", "scipy", "matplotlib", "nestree.data", "nestree.model", "nestree.drawing"}
    assert others.isdisjoint(found)
