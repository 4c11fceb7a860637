"""What a training leaves for people to look at: learning curves, and a page with its epochs and labels.

Everything is drawn from the ``metrics.jsonl`` of a run, so it can be drawn at any time, also while the run goes on.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from nestree.drawing.page import Image, Part, Section, Table, Text, page
from nestree.drawing.spans import ON_DARK, PALETTE

LONGEST_NAME = 32
"""Longer names of runs are cut in the legends (…)."""
SMOOTHED = 60
"""With more steps than this, the curve of the loss is a running mean; the steps themselves stay visible behind it."""


class Scores(NamedTuple):
    """Of one label: precision, recall and F1 (shares of 1), and the numbers they come from."""

    precision: float
    recall: float
    f1: float
    gold: int
    predicted: int
    correct: int


class Step(NamedTuple):
    """The loss at a step of the optimizer."""

    step: int
    loss: float


class Epoch(NamedTuple):
    """An epoch and how the model did on the development data after it; None: not measured."""

    epoch: int
    step: int | None
    loss: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    best: bool
    sentences_per_second: float | None
    seconds: float | None
    labels: dict[str, Scores]


@dataclass(frozen=True)
class Metrics:
    """A run so far.

    Args:
        steps: in order.
        epochs: in order, counted from 1.
        broken: how many lines were not complete; a run that is killed leaves one.
    """

    steps: list[Step] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    broken: int = 0

    @property
    def best(self) -> Epoch | None:
        """The epoch that the run called its best last; if it called none so, that with the highest F1."""
        called = [epoch for epoch in self.epochs if epoch.best]
        measured = [epoch for epoch in self.epochs if epoch.f1 is not None]
        return called[-1] if called else max(measured, key=lambda one: one.f1 or 0.0, default=None)


class Written(NamedTuple):
    """The files that were written, and what people should know about those that were not."""

    paths: list[Path]
    notes: list[str]


def read_metrics(path: str | PathLike[str]) -> Metrics:
    """Reads a run's ``metrics.jsonl``.

    Where a resumed run repeats steps or epochs, the last line of each wins. Lines that break off are skipped and
    counted; events other than ``step`` and ``epoch`` are left alone.

    Raises:
        ValueError: a complete line lacks what its event must have, or has it wrong.
    """
    path = Path(path)
    steps: dict[int, Step] = {}
    epochs: dict[int, Epoch] = {}
    broken = 0
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError:
            broken += 1
            continue
        try:
            if event["event"] == "step":
                step = Step(int(event["step"]), float(event["loss"]))
                steps[step.step] = step
            elif event["event"] == "epoch":
                epoch = _epoch(event)
                epochs[epoch.epoch] = epoch
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            lacks = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise ValueError(
                f"{path}:{number}: this is not a line of metrics: {lacks}. Was it written by another version?"
            ) from None
    return Metrics([steps[one] for one in sorted(steps)], [epochs[one] for one in sorted(epochs)], broken)


def curves_png(
    metrics: Metrics,
    path: str | PathLike[str],
    others: Mapping[str, Metrics] | None = None,
    *,
    name: str = "this run",
) -> Path:
    """Draws the loss by step, and precision, recall and F1 on the development data by epoch; the best one marked.

    Args:
        metrics: the run.
        path: where the PNG goes.
        others: runs to compare with, by name: their loss and F1 are drawn along.
        name: the run's own name beside those.

    Raises:
        ImportError: matplotlib is not installed.
    """
    return _write(Path(path), _curves(metrics, others, name))


def write_report(
    folder: str | PathLike[str],
    *,
    title: str | None = None,
    settings: Mapping[str, object] | None = None,
    data: Table | None = None,
    others: Mapping[str, Metrics] | None = None,
    name: str = "this run",
) -> Written:
    """Writes ``curves.png`` and ``report.html`` into a run's folder, from its ``metrics.jsonl``.

    Without matplotlib there is no ``curves.png``, and a note says so.

    Args:
        folder: the run.
        title: of the page; if not given, it names the folder.
        settings: what the run was told, nested as it likes.
        data: what it was trained and measured on.
        others: runs to compare with, by name.
        name: the run's own name beside those.
    """
    folder = Path(folder)
    metrics = read_metrics(folder / "metrics.jsonl")
    written: list[Path] = []
    notes: list[str] = []
    curves: list[Part] = []
    try:
        picture, on_dark = _curves(metrics, others, name), _curves(metrics, others, name, dark=True)
        written.append(_write(folder / "curves.png", picture))
        alt = "Left: training loss by step. Right: precision, recall and F1 on the development data by epoch."
        curves.append(Image(picture, alt, dark=on_dark))
    except ImportError as error:
        notes.append(f"There is no picture of the curves: {error}")
    if metrics.broken:
        lines = "1 line" if metrics.broken == 1 else f"{metrics.broken} lines"
        notes.append(f"Left out, because incomplete: {lines} of metrics.jsonl.")
    sections = [
        *([Section("Settings", [_settings(settings)])] if settings else []),
        *([Section("Data", [data])] if data else []),
        Section("Learning curves", [*curves, *map(Text, notes)]),
        Section("Epochs", [_epochs(metrics)]),
        *([Section(f"Labels after epoch {best.epoch}", [_labels(best)])] if (best := metrics.best) else []),
    ]
    text = page(title or f"Training of {folder.resolve().name}", sections)
    written.append(_write(folder / "report.html", text.encode()))
    return Written(written, notes)


def _epoch(event: dict[str, Any]) -> Epoch:
    def number(key: str) -> float | None:
        return None if event.get(key) is None else float(event[key])

    labels = {
        str(label): Scores(
            precision=float(one["precision"]),
            recall=float(one["recall"]),
            f1=float(one["f1"]),
            gold=int(one["gold"]),
            predicted=int(one["predicted"]),
            correct=int(one["correct"]),
        )
        for label, one in (event.get("labels") or {}).items()
    }
    step = event.get("step")
    return Epoch(
        epoch=int(event["epoch"]),
        step=None if step is None else int(step),
        loss=number("loss"),
        precision=number("precision"),
        recall=number("recall"),
        f1=number("f1"),
        best=bool(event.get("best")),
        sentences_per_second=number("sentences_per_second"),
        seconds=number("seconds"),
        labels=labels,
    )


def _settings(settings: Mapping[str, object]) -> Table:
    rows: list[tuple[str, str]] = []

    def visit(values: Mapping[str, object], before: str) -> None:
        for key, value in values.items():
            if isinstance(value, Mapping) and value:
                visit(value, f"{before}{key}.")
            else:
                rows.append((f"{before}{key}", str(value)))

    visit(settings, "")
    return Table(["setting", "value"], rows)


def _epochs(metrics: Metrics) -> Table | Text:
    if not metrics.epochs:
        return Text("No epoch has ended yet.")
    best = metrics.best
    rows = [
        [
            str(one.epoch),
            _number(one.step, ",.0f"),
            _number(one.loss, ",.3f"),
            *(_number(share, ".2%") for share in (one.precision, one.recall, one.f1)),
            _number(one.sentences_per_second, ",.0f"),
            _number(one.seconds, ",.1f"),
            "best" if one is best else "",
        ]
        for one in metrics.epochs
    ]
    head = ["epoch", "step", "loss", "precision", "recall", "F1", "sentences/s", "seconds", ""]
    return Table(head, rows, marked=[at for at, one in enumerate(metrics.epochs) if one is best])


def _labels(best: Epoch) -> Table | Text:
    if not best.labels:
        return Text("Labels were not measured.")

    def row(name: str, shares: Sequence[float | None], counts: Sequence[int]) -> list[str]:
        return [name, *(_number(share, ".2%") for share in shares), *(f"{count:,}" for count in counts)]

    frequent = sorted(best.labels.items(), key=lambda one: (-one[1].gold, one[0]))
    rows = [row(label, one[:3], one[3:]) for label, one in frequent]
    counts = map(sum, zip(*(one[3:] for one in best.labels.values()), strict=True))
    rows.append(row("all labels", (best.precision, best.recall, best.f1), list(counts)))
    head = ["label", "precision", "recall", "F1", "gold", "predicted", "correct"]
    return Table(head, rows, marked=[len(rows) - 1])


def _number(value: float | None, how: str) -> str:
    return "–" if value is None or not math.isfinite(value) else format(value, how)


def _curves(metrics: Metrics, others: Mapping[str, Metrics] | None, name: str, *, dark: bool = False) -> bytes:
    """The picture, drawn without touching what else the process draws with matplotlib."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError('drawing needs matplotlib: pip install "nestree[plots]"') from None
    runs = [(_drawable(name), metrics), *((_drawable(other), one) for other, one in (others or {}).items())]
    ink, paper = ("#e6e9ed", "#14181d") if dark else ("#1f2328", "#ffffff")
    parts = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    look: Any = {**dict.fromkeys(parts, ink), "axes.facecolor": paper, "figure.facecolor": paper, "font.size": 10.5}
    colours = [ON_DARK.get(at, colour) if dark else colour for at, colour in enumerate(PALETTE)]
    picture = BytesIO()
    with matplotlib.rc_context(look), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a run's name in letters that the typeface lacks
        figure = Figure(figsize=(11, 4.6 + 0.2 * len(runs)), layout="constrained")
        left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.08})
        _loss(left, runs, colours)
        _development(right, runs, colours)
        for axis in (left, right):
            axis.spines[["top", "right"]].set_visible(False)
            axis.grid(axis="y", color=ink, alpha=0.15, linewidth=0.8)
        figure.savefig(picture, dpi=130, format="png")
    return picture.getvalue()


def _loss(axis: Any, runs: Sequence[tuple[str, Metrics]], colours: Sequence[str]) -> None:
    axis.set(xlabel="step", ylabel="training loss")
    losses: list[float] = []
    for number, (name, one) in enumerate(runs):
        colour = colours[number % len(colours)]
        points = [(step.step, step.loss) for step in one.steps if math.isfinite(step.loss)]
        losses += [loss for _, loss in points]
        if len(points) > SMOOTHED:
            axis.plot(*zip(*points, strict=True), color=colour, alpha=0.3, linewidth=0.8)
            points = _running_mean(points, len(points) // 40)
        if points:
            marker = "." if len(points) == 1 else ""
            axis.plot(*zip(*points, strict=True), color=colour, label=name, linewidth=1.8, marker=marker)
    if not losses:
        _empty(axis, "no steps yet")
    elif min(losses) > 0 and max(losses) > 30 * min(losses):
        axis.set_yscale("log")
    if losses and len(runs) > 1:
        _legend(axis)


def _development(axis: Any, runs: Sequence[tuple[str, Metrics]], colours: Sequence[str]) -> None:
    """Of the run itself all three numbers, of the others F1; the best epochs stand in the legend."""
    from matplotlib.ticker import MaxNLocator

    axis.set(xlabel="epoch", ylabel="development data, percent")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    last = 0
    for number, (name, one) in enumerate(runs):
        epochs = [epoch for epoch in one.epochs if epoch.f1 is not None]
        best = one.best
        if not epochs or best is None or best.f1 is None:
            continue
        last = max(last, epochs[-1].epoch)
        colour, at = colours[number % len(colours)], [epoch.epoch for epoch in epochs]
        before = f"{name}: " if len(runs) > 1 else ""
        curves = {"F1": "-o", "precision": "--^", "recall": ":v"} if number == 0 else {"F1": "-o"}
        for kind, style in curves.items():
            values = [getattr(epoch, kind.lower()) for epoch in epochs]
            axis.plot(
                at,
                [math.nan if value is None else 100 * value for value in values],
                style,
                color=colour,
                linewidth=1.8 if kind == "F1" else 1.3,
                markersize=4,
                label=f"{before}{kind}" + (f", best {best.f1:.2%} (epoch {best.epoch})" if kind == "F1" else ""),
            )
        axis.plot([best.epoch], [100 * best.f1], "*", color=colour, markersize=14, zorder=5)
    if last:
        axis.set_xlim(0.5, last + 0.5)
        _legend(axis)
    else:
        _empty(axis, "not measured yet")


def _legend(axis: Any) -> None:
    """Above the curves, where it hides none of them."""
    axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), fontsize=9.5, labelspacing=0.3)


def _empty(axis: Any, why: str) -> None:
    axis.set(xticks=[], yticks=[])
    axis.text(0.5, 0.5, why, ha="center", va="center", transform=axis.transAxes)


def _running_mean(points: Sequence[tuple[int, float]], window: int) -> list[tuple[int, float]]:
    """The mean of each point and those just before it."""
    sums = [0.0, *accumulate(value for _, value in points)]
    ends = range(1, len(points) + 1)
    return [(points[end - 1][0], (sums[end] - sums[max(0, end - window)]) / min(end, window)) for end in ends]


def _drawable(name: str) -> str:
    """A name as text: $ would begin a formula, _ would hide it, and lone surrogates have no shape."""
    name = name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
    name = name.encode(errors="replace").decode().replace("$", r"\$")
    return f" {name}" if name.startswith("_") else name


def _write(path: Path, content: bytes) -> Path:
    """Writes a file so that nobody ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path
