"""Compiled C++ or numba? The same inside pass in numba, beside the package's kernel.

    pip install numba && python -m benchmarks.kernel_choice

The numba version is what one would write: labels summed first, charts in float64 with scaled rows, the innermost loop
along contiguous memory, fastmath. It gives log Z only, without the fallback to log space.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
import torch

from benchmarks.measure import environment, interleaved_medians, table, write_json
from benchmarks.peers import Nestree, Problem

Array = np.ndarray[Any, Any]


@numba.njit(fastmath=True, nogil=True)
def numba_inside(scores: Array, lengths: Array, out: Array) -> None:
    """Log Z of every sentence. Shape: ``[batch, n, n, label]``, ``[batch]`` and ``[batch]``."""
    batch, n, _, labels = scores.shape
    beta = np.zeros((n, n))
    for b in range(batch):
        m = lengths[b]
        log_scale = 0.0
        for i in range(m - 1, -1, -1):
            row = beta[i]
            row[i:m] = 0.0
            for split in range(i, m):
                weight = 0.0
                for k in range(labels):
                    weight += math.exp(scores[b, i, split, k])
                row[split] = weight if split == i else row[split] * weight
                left = row[split]
                if split + 1 < m:
                    right = beta[split + 1]
                    for j in range(split + 1, m):
                        row[j] += left * right[j]
            largest = row[i:m].max()
            row[i:m] /= largest
            log_scale += math.log(largest)
        out[b] = math.log(beta[0, m - 1]) + log_scale


def main() -> None:
    """Checks that both agree, then times both in turns."""
    torch.set_num_threads(1)
    ours, rows = Nestree(), []
    start = time.perf_counter()
    _numba(Problem(1, 4, 2))
    compiled = time.perf_counter() - start
    for n in (20, 30, 60, 100):
        problem = Problem(32, n, 8)
        wanted = ours.run("log_partition forward", problem)
        assert wanted is not None
        torch.testing.assert_close(_numba(problem).float(), wanted[0], rtol=1e-5, atol=1e-3)
        contenders: dict[str, Callable[[], Any]] = {
            "ours": partial(ours.run, "log_partition forward", problem),
            "numba": partial(_numba, problem),
        }
        times = interleaved_medians(contenders)
        rows.append(
            {
                "op": "log_partition forward",
                "n": n,
                "ours_ms": round(times["ours"], 4),
                "peer": "numba",
                "peer_ms": round(times["numba"], 4),
                "ratio": round(times["numba"] / times["ours"], 2),
            }
        )
    code = "import time, torch; t = time.perf_counter(); import numba; print(time.perf_counter() - t)"
    imported = float(subprocess.check_output([sys.executable, "-c", code]))
    print(table(rows, ["op", "n", "ours_ms", "peer", "peer_ms", "ratio"]))
    print(f"\nnumba: import {imported:.2f} s, first compilation of this one function {compiled:.2f} s")
    extra = {"numba_import_seconds": round(imported, 2), "numba_first_call_seconds": round(compiled, 2)}
    write_json("kernel-choice", {"environment": environment(), **extra, "rows": rows})


def _numba(problem: Problem) -> torch.Tensor:
    out = torch.empty(problem.scores.shape[0], dtype=torch.float64)
    numba_inside(problem.scores.numpy(), problem.lengths.numpy(), out.numpy())
    return out


if __name__ == "__main__":
    main()
