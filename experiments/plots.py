"""Plots of the report: plain, readable in black and white, the paper's numbers dashed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.groups import Group
from experiments.paper import PRF

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#24292f")
MARKS = ("o", "s", "^", "D", "v")


def figure(width: float = 6.4, height: float = 3.8, panels: int = 1) -> tuple[Any, Any]:
    """A figure with axes, without a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError('drawing needs matplotlib: pip install "nestree[plots]"') from None
    drawn = Figure(figsize=(width, height), facecolor="white", layout="constrained")
    axes = drawn.subplots(1, panels, squeeze=False)[0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#d1d9e0", linewidth=0.6)
        axis.set_axisbelow(True)
    return drawn, axes if panels > 1 else axes[0]


def save(drawn: Any, path: Path) -> str:
    """Writes a figure, the same bytes for the same numbers; gives its name within the results."""
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "nestree", "svg.fonttype": "none"}):
        drawn.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path.name


def line(axis: Any, xs: list[float], values: list[list[float]], name: str, at: int, **style: Any) -> None:
    """Means with bars of one standard deviation."""
    means = [statistics.mean(one) for one in values]
    spreads = [statistics.stdev(one) if len(one) > 1 else 0.0 for one in values]
    settings: dict[str, Any] = {
        "color": COLOURS[at],
        "marker": MARKS[at],
        "markersize": 5,
        "capsize": 3,
        "linewidth": 1.6,
    }
    axis.errorbar(xs, means, yerr=spreads, label=name, **{**settings, **style})


def latent_labels(path: Path, groups: Mapping[int, Group], theirs: Mapping[str, PRF], labels: int) -> str:
    """Precision, recall and F1 against the number of latent labels."""
    drawn, axis = figure()
    numbers = [float(one) for one in groups]
    for at, (measure, name) in enumerate((("precision", "P"), ("recall", "R"), ("f1", "F1"))):
        line(axis, numbers, [group.values(measure) for group in groups.values()], name, at)
        known = sorted((_number(key, labels), getattr(value, measure)) for key, value in theirs.items())
        if known:
            style = {"color": COLOURS[at], "linestyle": "--", "linewidth": 1, "marker": MARKS[at], "markersize": 3}
            axis.plot(*zip(*known, strict=True), label=f"{name}, paper", alpha=0.6, **style)
    axis.set_xscale("log", base=2)
    axis.set_xticks(numbers, [f"{one:g}" for one in numbers])
    axis.minorticks_off()
    axis.set(xlabel="latent labels", ylabel="percent, dev (paper: test)")
    axis.legend(frameon=False, fontsize=8, ncols=2)
    return save(drawn, path)


def _number(name: str, labels: int) -> int:
    if name.isdigit():
        return int(name)
    return labels * (int(name.split()[0]) if name[0].isdigit() else 1)


def lines(
    path: Path, series: Mapping[str, Mapping[float, list[float]]], x: str, y: str, *, logarithmic: bool = False
) -> str:
    """Means with bars of one standard deviation, a line for each series."""
    drawn, axis = figure()
    for at, (name, points) in enumerate(series.items()):
        xs = sorted(points)
        line(axis, xs, [points[one] for one in xs], name, at)
    everywhere = sorted({one for points in series.values() for one in points})
    if logarithmic:
        axis.set_xscale("log")
        axis.minorticks_off()
    axis.set_xticks(everywhere, [f"{one:g}" for one in everywhere])
    axis.set(xlabel=x, ylabel=y)
    axis.legend(frameon=False)
    return save(drawn, path)


def bars(path: Path, names: list[str], values: list[float], theirs: Mapping[str, float], y: str) -> str:
    """A bar for each name, and the paper's value as a line across it."""
    drawn, axis = figure()
    axis.bar(range(len(names)), values, color=COLOURS[0], width=0.6)
    for at, (name, value) in enumerate(zip(names, values, strict=True)):
        axis.text(at, value, f"{value:.1f}", ha="center", va="bottom", fontsize=8)
        if name in theirs:
            axis.plot([at - 0.38, at + 0.38], [theirs[name]] * 2, color=COLOURS[1], linewidth=2)
    axis.plot([], [], color=COLOURS[1], linewidth=2, label="the paper")
    axis.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axis.set(ylabel=y)
    axis.legend(frameon=False)
    return save(drawn, path)
