"""Commands that begin life under other conditions: set by a process that then becomes the command.

A ``preexec_fn`` would run between fork and exec of a process with threads, where it may wait forever for a lock.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def with_small_files(command: Sequence[str], most: int) -> list[str]:
    """The command on a disk without room, as it were: writing fails in the middle of a file."""
    return _after(f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))", command)


def hearing_ctrl_c(command: Sequence[str]) -> list[str]:
    """The command hearing Ctrl-C, which shells forbid what they run in the background, these tests among it."""
    return _after("import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)", command)


def _after(code: str, command: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", f"import os, sys; {code}; os.execv(sys.argv[1], sys.argv[1:])", *command]
