"""Where a run computes: device, precision and processes, by Hugging Face Accelerate."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from nestree import __version__
from nestree.training.errors import TrainingError

PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "safetensors", "numpy", "triton")

PATIENCE = timedelta(days=2)
"""How long processes wait for one of them that works for all, such as by asking a teacher about much text.

Whoever started them ends all if one dies, so that none waits in vain.
"""


class Place(Protocol):
    """Settings of where to compute."""

    @property
    def device(self) -> str:
        """A kind of device, or "auto"."""

    @property
    def precision(self) -> str:
        """Of the numbers."""

    @property
    def deterministic(self) -> bool:
        """The same result every time."""


def start(config: Place) -> Any:
    """An Accelerator for these settings; the processes that `accelerate launch` or `torchrun` started find each other.

    Raises:
        TrainingError: the device or the precision is not to be had here.
    """
    from accelerate import Accelerator, InitProcessGroupKwargs
    from accelerate.state import AcceleratorState

    there: dict[str, Callable[[], bool]] = {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}
    if config.device in there and not there[config.device]():
        raise TrainingError(f"torch finds no device {config.device!r} here. Use device = cpu, or leave it out.")
    AcceleratorState._reset_state()  # another run of this process may have had another precision
    group = InitProcessGroupKwargs(timeout=PATIENCE)
    accelerator = Accelerator(mixed_precision=_precision(config), cpu=config.device == "cpu", kwargs_handlers=[group])
    if config.device in there and accelerator.device.type != config.device:
        raise TrainingError(f"device is {config.device!r}, and Accelerate was set up for {accelerator.device.type!r}.")
    if config.deterministic and accelerator.device.type == "cuda":
        _vouch_for_cublas(accelerator.device)
    return accelerator


def _vouch_for_cublas(device: torch.device) -> None:
    """Lets torch see, once, that cuBLAS was told to be deterministic.

    torch looks for the variable before the first product and keeps the answer. It gives cuBLAS its own workspace in
    any case; but as long as the variable is there, it is parsed in every call, which takes longer than the call.
    """
    name = "CUBLAS_WORKSPACE_CONFIG"
    if name in os.environ:
        return
    os.environ[name] = ":4096:8"
    try:
        _ = torch.ones(8, 8, device=device) @ torch.ones(8, 8, device=device)
    finally:
        del os.environ[name]


def _precision(config: Place) -> str:
    on_gpu = torch.cuda.is_available() and config.device in ("auto", "cuda")
    if config.precision == "auto":
        return "bf16" if on_gpu and torch.cuda.is_bf16_supported() else "no"
    if config.precision == "fp16" and not on_gpu:
        raise TrainingError("precision fp16 needs an NVIDIA GPU. Use bf16 or fp32.")
    if config.precision == "bf16" and on_gpu and not torch.cuda.is_bf16_supported():
        raise TrainingError("this GPU has no bf16. Use precision = fp16 or fp32.")
    return {"fp32": "no"}.get(config.precision, config.precision)


@contextmanager
def same_every_time(wanted: bool) -> Iterator[None]:
    """Deterministic algorithms; operations that have none raise an error (see :func:`allow_what_has_none`)."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    settings: Any = torch.utils.deterministic
    filled = settings.fill_uninitialized_memory
    if wanted:
        torch.use_deterministic_algorithms(True)
        settings.fill_uninitialized_memory = False  # it is for finding faults, and slow
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        settings.fill_uninitialized_memory = filled


def lacks_determinism(error: BaseException) -> bool:
    """Whether an operation was refused because no deterministic algorithm for it is known."""
    return torch.are_deterministic_algorithms_enabled() and "deterministic" in str(error)


def allow_what_has_none() -> None:
    """From now on, operations without a deterministic algorithm take what there is."""
    torch.use_deterministic_algorithms(True, warn_only=True)


def seed_step(seed: int, step: int, process: int) -> None:
    """Makes what is random in a step depend on the step alone, and not on what was computed before."""
    torch.manual_seed((seed * 1_000_003 + step) * 1_009 + process)


def is_first_process() -> bool:
    """Whether this is the process that speaks and writes, if there are several; known before they find each other."""
    return os.environ.get("RANK", "0") == "0"


def sum_over_processes(accelerator: Any, parameters: Iterable[nn.Parameter]) -> None:
    """Adds up the gradients of all processes, in one message. A process without sentences counts as zero."""
    if accelerator.num_processes == 1:
        return
    found = [one for one in parameters if one.requires_grad]
    for one in found:
        if one.grad is None:
            one.grad = torch.zeros_like(one)
    gradients: list[Tensor] = [one.grad for one in found if one.grad is not None]
    total = accelerator.reduce(torch.cat([one.flatten() for one in gradients]), reduction="sum")
    parts = total.split([one.numel() for one in gradients])
    torch._foreach_copy_(gradients, [part.view_as(one) for part, one in zip(parts, gradients, strict=True)])


def described(accelerator: Any) -> dict[str, Any]:
    """Versions and hardware, to be kept with a run."""
    found: dict[str, Any] = {"nestree": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    device = accelerator.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    threads = torch.get_num_threads()
    return found | {
        "device": f"{device.type} ({name})",
        "processes": accelerator.num_processes,
        "threads": threads,
        "precision": {"no": "fp32"}.get(accelerator.mixed_precision, accelerator.mixed_precision),
    }
