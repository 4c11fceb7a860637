"""How fast are corpora read, beside the least that reading them takes?

    python -m benchmarks.data --corpus ../shared/data/genia/train.data

Three questions, each measured side by side in turns: (1) nestree JSON Lines against ``json.loads`` alone over the same
lines; (2) the three-line file against the same ``json.loads``; (3) how much memory a large JSON Lines file takes to
stream. Without ``--corpus`` a synthetic corpus of the same size stands in.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import environment, interleaved_medians, table, write_json
from nestree.data import Document, read, write

JSONL_BAR = 3.0  # times json.loads alone
THREE_LINE_BAR = 3.0  # times json.loads, too
STREAM = """
import sys
from nestree.data import read
documents = sum(1 for _ in read(sys.argv[1], "jsonl"))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(documents, int(peak.split()[1]) / 1024)
"""


def main() -> None:
    """Parses, measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, help="a corpus in any format; GENIA train for the project's figures")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[64, 1024], help="sizes of the streamed files")
    parser.add_argument("--output", default="data", help="name of the file under benchmarks/results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines, blocks = Path(folder, "corpus.jsonl"), Path(folder, "corpus.data")
        name = options.corpus.name if options.corpus else "synthetic"
        documents = list(read(options.corpus) if options.corpus else synthetic(14_836))
        bare = [Document.from_words(d.words, [(*e.tokens, e.label) for e in d.entities if e.tokens]) for d in documents]
        write(bare, lines)
        write(documents, blocks)
        rows = speed(name, lines, blocks, options.seconds)
        print(table(rows, ["what", "corpus", "ms", "times json.loads", "bar"]))
        streams = [memory(Path(folder, "large.jsonl"), size) for size in options.megabytes]
        print("\nStreaming nestree JSON Lines, in a process of its own")
        print(table(streams, ["megabytes", "documents", "peak_mib", "seconds"]))
    path = write_json(options.output, {"environment": environment(), "rows": rows, "streams": streams})
    print(f"\nwritten to {path}")


def speed(name: str, lines: Path, blocks: Path, seconds: float) -> list[dict[str, object]]:
    """A row for each way of reading."""
    contenders = {
        "json.loads alone": lambda: loads(lines),
        "nestree JSON Lines": lambda: drain(read(lines)),
        "three-line file": lambda: drain(read(blocks)),
    }
    times = interleaved_medians(contenders, seconds=seconds)
    least = times["json.loads alone"]
    bars = {"nestree JSON Lines": JSONL_BAR, "three-line file": THREE_LINE_BAR}
    return [
        {
            "what": what,
            "corpus": name,
            "ms": round(ms, 1),
            "times json.loads": round(ms / least, 2),
            "bar": bars.get(what),
        }
        for what, ms in times.items()
    ]


def loads(path: Path) -> None:
    """What nobody can do without."""
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            json.loads(line)


def drain(documents: Iterator[Document]) -> int:
    """Reads everything, keeps nothing."""
    return sum(1 for _ in documents)


def synthetic(sentences: int) -> Iterator[Document]:
    """Sentences about as long as GENIA's, with as many entities."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghij", k=rng.randint(1, 9))) for _ in range(5000)]
    for _ in range(sentences):
        size = max(4, round(rng.gammavariate(4, 7.5)))
        starts = [rng.randrange(size - 3) for _ in range(3)]
        spans = [(start, start + rng.randint(1, 3), rng.choice(["protein", "DNA", "cell"])) for start in starts]
        yield Document.from_words(rng.choices(words, k=size), spans)


def memory(path: Path, megabytes: int) -> dict[str, object]:
    """How large a process grows that reads a file of that size."""
    if not path.exists() or path.stat().st_size > megabytes << 20:
        path.unlink(missing_ok=True)
        path.touch()
    piece = path.with_suffix(".piece")
    write(synthetic(20_000), piece, "jsonl")
    content = piece.read_bytes()
    with path.open("ab") as stream:
        while stream.tell() < megabytes << 20:
            stream.write(content)
    began = time.perf_counter()
    found = subprocess.run(
        [sys.executable, "-c", STREAM, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    documents, peak = found.stdout.split()
    elapsed = round(time.perf_counter() - began, 1)
    return {"megabytes": megabytes, "documents": int(documents), "peak_mib": round(float(peak), 1), "seconds": elapsed}


if __name__ == "__main__":
    main()
