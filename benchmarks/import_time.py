"""What does ``import nestree.crf`` cost beyond ``import torch``?

python -m benchmarks.import_time
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks.measure import environment, write_json

ROUNDS = 9
CODE = "import time; import torch; start = time.perf_counter(); import nestree.crf; print(time.perf_counter() - start)"


def main() -> None:
    """Fresh interpreters; torch is imported first, then the clock starts."""
    found = [float(subprocess.check_output([sys.executable, "-c", CODE])) for _ in range(ROUNDS)]
    median = statistics.median(found)
    print(f"import nestree.crf after import torch: {median:.3f} s (median of {ROUNDS} fresh interpreters; bar 0.3 s)")
    rows = [{"seconds": round(seconds, 4)} for seconds in found]
    write_json("import-time", {"environment": environment(), "median_seconds": round(median, 4), "rows": rows})


if __name__ == "__main__":
    main()
