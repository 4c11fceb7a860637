"""The service under load: beside offline prediction, without micro-batching, overloaded, and with a worker killed.

    python -m benchmarks.serve MODEL dev.data                      # MODEL: any model on the embedded MiniLM
    python -m benchmarks.serve MODEL dev.data --seconds 5 --turns 2 --overload-minutes 0.5      # in short

Requests are single sentences of the corpus, in a random order, as `{"text": …}`; wrk sends them over as many
connections as there are clients, each of which waits for its answer before it asks again. Everyone takes turns on the
same machine: `NestedNER.predict_stream` over the same sentences in one process with all cores; and the service, with
one worker that has all cores and with a worker for each core, with micro-batching and without.

Overload: first the sustainable load is measured, then four times as many requests a second are offered for some
minutes, by clients that do not wait (the same wrk cannot do that: a small generator of our own does). Counted are
answers by status and what was not answered at all; the memory of all processes is sampled.

Kill: with two workers under load, one of them is killed (SIGKILL) every few seconds; counted are answers, broken
connections, and how long it took until there were two workers again.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.load import Service, kill_workers, overload
from benchmarks.measure import environment, table, write_json
from benchmarks.predict import Tool
from nestree.data import read

BARS = {"of_no_batching": 2.0, "of_offline": 0.9}
"""How many times their throughput the service is to have."""
ALONE = "without micro-batching"
COLUMNS = ["contender", "per_second", "words_per_second", "of_offline", "of_no_batching", "p50_ms", "p99_ms", "errors"]
SCRIPT = """
local requests = {}
for line in io.lines("BODIES") do
  requests[#requests + 1] = wrk.format("POST", "/v1/predict", {["Content-Type"] = "application/json"}, line)
end
local at = 0
function request()
  at = at % #requests + 1
  return requests[at]
end
function done(summary, latency, _)
  local e = summary.errors
  io.write(string.format('RESULT {"requests": %d, "seconds": %f, "p50_ms": %f, "p99_ms": %f, "errors": %d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def wrk(script: Path, url: str, clients: int, seconds: float) -> dict[str, Any]:
    """What wrk measures."""
    command = ["wrk", "--threads", "1", "--connections", str(clients), "--duration", f"{seconds:g}s"]
    command += ["--timeout", "60s", "--script", str(script), url]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    line = next(line for line in run.stdout.splitlines() if line.startswith("RESULT "))
    found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return {**found, "per_second": found["requests"] / found["seconds"]}


def throughput(options: argparse.Namespace, texts: list[str], folder: Path) -> list[dict[str, Any]]:
    """Everyone in turns; the first turn is for getting warm, and not counted."""
    script = folder / "requests.lua"
    script.write_text(SCRIPT.replace("BODIES", str(folder / "bodies.jsonl")))
    data = folder / "documents.json"
    data.write_text(json.dumps([{"text": text, "sentences": [], "entities": 0} for text in texts]))
    settings = {"data": str(data), "model": str(options.model), "threads": options.cores, "labels": [], "batch": 0}
    offline = Tool("offline", "nestree from text", sys.executable, settings)
    services: dict[str, Service] = {}
    for workers in sorted({1, options.cores}):
        for batching, more in (("service", ()), (ALONE, ("--no-batching",))):
            name = named(batching, workers)
            how = ("--workers", str(workers), "--threads", str(options.cores // workers), *more)
            services[name] = Service(options.model, folder / f"{len(services)}.log", *how)
    runs: dict[str, list[dict[str, Any]]] = {"offline": [], **{name: [] for name in services}}
    try:
        for turn in range(options.turns + 1):
            found = {"offline": {"per_second": len(texts) / offline.run()["seconds"]}}
            for name, service in services.items():
                found[name] = wrk(script, service.url, options.clients, options.seconds if turn else 3)
            for name, one in found.items():
                print(f"turn {turn} of {options.turns}: {name} {one['per_second']:.1f} a second", file=sys.stderr)
                if turn:
                    runs[name].append(one)
    finally:
        offline.end()
        for service in services.values():
            service.end()
    words = sum(len(text.split()) for text in texts) / len(texts)
    return [row(name, runs, words) for name in runs]


def named(what: str, workers: int) -> str:
    """A contender."""
    return f"{what}, {workers} worker{'s' if workers > 1 else ''}"


def row(name: str, runs: dict[str, list[dict[str, Any]]], words: float) -> dict[str, Any]:
    """One line of the table; how its throughput compares with others' is the median over turns."""
    own = [one["per_second"] for one in runs[name]]

    def ratio(other: str) -> float | None:
        if other not in runs or other == name:
            return None
        ratios = [ours / one["per_second"] for ours, one in zip(own, runs[other], strict=True)]
        return round(statistics.median(ratios), 3)

    def median(key: str) -> float | None:
        values = [one[key] for one in runs[name] if key in one]
        return round(statistics.median(values), 1) if values else None

    return {
        "contender": name,
        "per_second": round(statistics.median(own), 1),
        "words_per_second": round(statistics.median(own) * words),
        "of_offline": ratio("offline"),
        "of_no_batching": ratio(name.replace("service", ALONE)) if name.startswith("service") else None,
        "p50_ms": median("p50_ms"),
        "p99_ms": median("p99_ms"),
        "errors": sum(one.get("errors", 0) for one in runs[name]),
    }


def judge(rows: list[dict[str, Any]]) -> list[str]:
    """Which bars hold, for each number of workers."""
    found = []
    for row in rows:
        if row["contender"].startswith("service"):
            for key, bar in BARS.items():
                held = "held" if row[key] >= bar else "MISSED"
                found.append(f"{row['contender']}: {key} {row[key]:.2f} ({held}, {bar})")
    return found


def main() -> None:
    """Measures, prints and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20, help="of one turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--overload-minutes", type=float, default=10, help="0: leave it out")
    parser.add_argument("--kill-seconds", type=float, default=60, help="0: leave it out")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        parser.error("wrk is needed: apt install wrk")
    texts = [" ".join(one.words[start:end]) for one in read(options.data) for start, end in one.sentences or ()]
    random.Random(0).shuffle(texts)
    began = time.strftime("%Y-%m-%d")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bodies.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        rows = throughput(options, texts, folder)
        print(table(rows, COLUMNS))
        print("Bars: " + "; ".join(judge(rows)))
        content: dict[str, Any] = {
            "environment": environment(),
            "date": began,
            "sentences": len(texts),
            "words": sum(len(text.split()) for text in texts),
            "clients": options.clients,
            "turns": options.turns,
            "rows": rows,
        }
        if options.overload_minutes:
            sustainable = next(row["per_second"] for row in rows if row["contender"] == named("service", 1))
            with Service(options.model, folder / "overload.log", "--threads", str(options.cores)) as service:
                content["overload"] = overload(service, texts, 4 * sustainable, 60 * options.overload_minutes)
            print(json.dumps(content["overload"]))
        if options.kill_seconds:
            with Service(options.model, folder / "kill.log", "--workers", "2") as service:
                content["kill"] = kill_workers(service, texts, options.clients, options.kill_seconds)
            print(json.dumps(content["kill"]))
    print(f"written to {write_json('serve', content)}")


if __name__ == "__main__":
    main()
