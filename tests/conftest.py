"""Before anything else is imported: how the Triton kernels run, and how many threads a test process takes."""

from __future__ import annotations

import os

import torch

if not torch.cuda.is_available():
    # Without a GPU the kernels are interpreted; Triton wants to know before they are defined.
    os.environ.setdefault("TRITON_INTERPRET", "1")
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # as many processes as cores: more threads would only wait for each other
