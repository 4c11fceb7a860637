"""From text to entities: nestree beside the bare encoder and other tools, with the same encoder weights.

    python -m benchmarks.predict MODEL dev.data                    # MODEL: any model on the embedded MiniLM
    python -m benchmarks.predict MODEL dev.data --exported FOLDER --python "spaCy spancat=peers/spacy/bin/python" ...
    python -m benchmarks.predict MODEL books/ --long               # long documents

Every tool runs in a process of its own (`benchmarks/predictors.py`), loaded once; they read all documents in turns on
the same machine. Measured are documents and words per second, the time to the first result, the time to be ready, and
the peak of memory. `encoder` is the bare forward pass over batches of 32, sorted by length, with everything made ready
before; the others begin with words or text and end with entities. spaCy and GLiNER want other versions of packages:
`--python TOOL=EXECUTABLE` names the Python that has them; without it they are left out, and that is said::

    python -m venv peers/spacy && peers/spacy/bin/pip install torch==2.13.0 spacy-transformers==1.4.0
    python -m venv peers/gliner && peers/gliner/bin/pip install torch==2.13.0 gliner==0.2.29
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import predictors
from benchmarks.measure import environment, table, write_json
from nestree.data import Document, Splitter, read
from nestree.encoders import resolve

BARS = {
    False: {"encoder": 0.92, "transformers pipeline": 2.0, "spaCy spancat": 3.5, "GLiNER": 4.0},
    True: {"transformers pipeline": 1.5},
}
"""How much faster nestree is to be than others; the second of long documents."""
LONG_MEMORY_MIB = 1200
STRIDE = 64
COLUMNS = ["tool", "documents_per_second", "words_per_second", "nestree_is_faster", "first_s", "ready_s", "peak_mib"]


class Tool:
    """A process that reads documents when it is asked to."""

    def __init__(self, name: str, kind: str, python: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.runs: list[dict[str, Any]] = []
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  (as long as the process)
        command = [python, predictors.__file__, kind, "--settings", json.dumps(settings)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self.ready = self._answer()

    def run(self) -> dict[str, Any]:
        """Reads all documents once."""
        assert self._process.stdin is not None
        self._process.stdin.write("run\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise SystemExit(f"{self.name} ended early:\n{self._log.read()[-2000:]}")
        found: dict[str, Any] = json.loads(line)
        return found


def as_data(document: Document) -> dict[str, Any]:
    """What every tool can read."""
    sentences = [list(document.words[start:end]) for start, end in document.sentences or ()]
    return {"text": document.text, "sentences": sentences, "entities": len(document.entities)}


def tools(options: argparse.Namespace, settings: dict[str, Any]) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Name, kind, Python and settings of everyone who takes part."""
    here = sys.executable
    found = [("nestree from text", "nestree from text", here, settings)]
    if not options.long:
        found.insert(0, ("nestree", "nestree", here, settings))
        found.insert(0, ("encoder", "encoder", here, settings))
    for folder in options.exported:
        kind = "nestree from text" if options.long else "nestree"
        found.append((f"nestree, {folder.name}", kind, here, {**settings, "model": str(folder)}))
    others = dict(one.split("=", 1) for one in options.python)
    stride = {"stride": STRIDE} if options.long else {}
    found.append(("transformers pipeline", "transformers pipeline", here, {**settings, **stride}))
    for name in ("spaCy spancat", "GLiNER"):
        if name in others:
            found.append((name, name, others[name], settings))
        else:
            print(f'{name} is left out: name a Python that has it with --python "{name}=EXECUTABLE"')
    return found


def main() -> None:
    """Measures, prints and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--exported", type=Path, action="append", default=[], help="folders of `nestree export`")
    parser.add_argument("--python", action="append", default=[], help="TOOL=EXECUTABLE, for tools of other packages")
    parser.add_argument("--long", action="store_true", help="long documents, and the pipeline with stride")
    parser.add_argument("--documents", type=int, default=0, help="so many, spread over the data; 0: all")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32, help="of the other tools")
    options = parser.parse_args()
    documents = [one for one in map(Splitter().split, read(options.data)) if one.words]
    if not documents:
        parser.error(f"there is no text in {options.data}")
    if options.documents:
        documents = documents[:: max(1, len(documents) // options.documents)][: options.documents]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "documents.json")
        data.write_text(json.dumps([as_data(one) for one in documents]))
        settings = {
            "data": str(data),
            "encoder": str(resolve("minilm")),
            "model": str(options.model),
            "labels": sorted({entity.label for one in documents for entity in one.entities}),
            "batch": options.batch,
            "threads": options.threads,
        }
        everyone = []
        for name, kind, python, own in tools(options, settings):
            print(f"loading {name}", file=sys.stderr)
            everyone.append(Tool(name, kind, python, own))
        measure(everyone, options.turns)
    rows = [row(tool, everyone, documents, options.long) for tool in everyone]
    print(table(rows, COLUMNS))
    print("Bars: " + "; ".join(judge(rows, options.long)))
    content = {
        "environment": environment(),
        "documents": len(documents),
        "words": sum(len(one.words) for one in documents),
        "threads": options.threads,
        "turns": options.turns,
        "rows": rows,
    }
    print(f"written to {write_json('predict-long-cpu' if options.long else 'predict-cpu', content)}")


def measure(everyone: list[Tool], turns: int) -> None:
    """All in turns; the first turn is for getting warm, and not counted."""
    for turn in range(turns + 1):
        for tool in everyone:
            found = tool.run()
            print(f"turn {turn} of {turns}: {tool.name} {found['seconds']:.2f} s", file=sys.stderr)
            if turn:
                tool.runs.append(found)
    for tool in everyone:
        tool.end()


def row(tool: Tool, everyone: list[Tool], documents: list[Document], long: bool) -> dict[str, Any]:
    """One line of the table; how much faster nestree is, is the median over turns."""
    ours = next(one for one in everyone if one.name == ("nestree from text" if long else "nestree"))
    seconds = [one["seconds"] for one in tool.runs]
    ratios = [own / one["seconds"] for own, one in zip(seconds, ours.runs, strict=True)]
    words = sum(len(one.words) for one in documents)
    return {
        "tool": tool.name,
        "documents_per_second": round(len(documents) / statistics.median(seconds), 2),
        "words_per_second": round(words / statistics.median(seconds)),
        "nestree_is_faster": round(statistics.median(ratios), 3),
        "quartiles": [round(one, 3) for one in statistics.quantiles(ratios, n=4)] if len(ratios) > 1 else None,
        "first_s": round(statistics.median(one["first"] for one in tool.runs), 3),
        "ready_s": round(tool.ready["ready"], 1),
        "entities": tool.runs[-1]["entities"],
        "peak_mib": round(tool.runs[-1]["peak_mib"]),
    }


def judge(rows: list[dict[str, Any]], long: bool) -> list[str]:
    """Which bars hold."""
    by_name = {row["tool"]: row for row in rows}
    found = []
    for name, bar in BARS[long].items():
        if name in by_name:
            ratio = by_name[name]["nestree_is_faster"]
            found.append(f"{ratio:.2f} times {name} ({'held' if ratio >= bar else 'MISSED'}, {bar})")
    if long:
        peak = by_name["nestree from text"]["peak_mib"]
        found.append(f"{peak} MiB ({'held' if peak <= LONG_MEMORY_MIB else 'MISSED'}, {LONG_MEMORY_MIB})")
    return found


if __name__ == "__main__":
    main()
