"""Before anything else is imported: how Triton kernels run, threads of a process, which examples are drawn."""

from __future__ import annotations

import os

import torch
from hypothesis import settings

if not torch.cuda.is_available():
    # Without a GPU the kernels are interpreted; Triton wants to know before they are defined.
    os.environ.setdefault("TRITON_INTERPRET", "1")
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # as many processes as cores: more threads would only wait for each other

# The same examples every time, so that a test fails for what was changed; HYPOTHESIS_PROFILE=new looks for others.
settings.register_profile("same", derandomize=True, deadline=None)  # machines are shared: no test is timed
settings.register_profile("new", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
