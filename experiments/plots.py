"""Plots of the report: plain, readable in black and white, the paper's numbers dashed."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from experiments.groups import Group
from experiments.paper import PRF
from experiments.significance import Difference

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#24292f", "#e69f00", "#56b4e9", "#7f3c8d")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "h")
"""As many series can be told apart."""
GREY = "#57606a"
HOLLOW = {"marker": "D", "markersize": 7, "fillstyle": "none"}
"""The paper's values among ours."""


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


def latent_labels(path: Path, groups: Mapping[int, Group], theirs: Mapping[int, PRF], name_of_theirs: str) -> str:
    """Precision, recall and F1 against the number of latent labels; the paper's in a panel of their own."""
    drawn, axes = figure(8.4, 3.6, panels=2)
    axes[1].sharey(axes[0])
    numbers = [float(one) for one in groups]
    for at, (measure, name) in enumerate((("precision", "P"), ("recall", "R"), ("f1", "F1"))):
        line(axes[0], numbers, [group.values(measure) for group in groups.values()], name, at)
        if theirs:
            line(axes[1], sorted(theirs), [[getattr(theirs[one], measure)] for one in sorted(theirs)], name, at)
    panels: tuple[tuple[str, list[float]], ...] = (
        ("here, dev", numbers),
        (f"the paper, {name_of_theirs}, test", [float(one) for one in sorted(theirs)]),
    )
    for axis, (title, ticks) in zip(axes, panels, strict=True):
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [f"{one:g}" for one in ticks])
        axis.minorticks_off()
        axis.set(xlabel="latent labels", ylabel="percent", title=title)
        axis.set_visible(bool(ticks))
    axes[0].legend(frameon=False, fontsize=8, ncols=3)
    return save(drawn, path)


def lines(
    path: Path,
    series: Mapping[str, Mapping[float, list[float]]],
    x: str,
    y: str,
    *,
    logarithmic: bool = False,
    closer: tuple[str, ...] = (),
) -> str:
    """Means with bars of one standard deviation, a line for each series; those ``closer`` in a second panel too."""
    drawn, axes = figure(8.4, 3.8, panels=2) if closer else figure()
    for axis, shown in ((axes[0], series), (axes[1], closer)) if closer else ((axes, series),):
        for at, (name, points) in enumerate(series.items()):
            if name in shown:
                xs = sorted(points)
                line(axis, xs, [points[one] for one in xs], name, at)
        everywhere = sorted({one for name in shown for one in series[name]})
        if logarithmic:
            axis.set_xscale("log")
            axis.minorticks_off()
        axis.set_xticks(everywhere, [f"{one:g}" for one in everywhere])
        axis.set(xlabel=x, ylabel=y)
        axis.legend(frameon=False)
    return save(drawn, path)


def bars(path: Path, names: list[str], values: list[float], theirs: Mapping[str, float], x: str) -> str:
    """A bar for each name, and the paper's value as a line across it."""
    drawn, axis = figure(6.4, 5.2)
    places = range(len(names))[::-1]
    axis.barh(places, values, color=COLOURS[0], height=0.6)
    for at, name, value in zip(places, names, values, strict=True):
        text = f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"
        place = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
        axis.annotate(text, (max(value, theirs.get(name, 0.0)), at), **place)
        if name in theirs:
            axis.plot([theirs[name]] * 2, [at - 0.38, at + 0.38], color=COLOURS[1], linewidth=2)
    axis.plot([], [], color=COLOURS[1], linewidth=2, label="the paper")
    axis.set_yticks(places, [textwrap.fill(name, 30) for name in names], fontsize=8)
    axis.grid(visible=False, axis="y")
    axis.grid(axis="x", color="#d1d9e0", linewidth=0.6)
    axis.set(xlabel=x)
    axis.legend(frameon=False, loc="center right")
    return save(drawn, path)


class Mark(NamedTuple):
    """A value with what it may as well be; ``pale``: that is known to be too narrow."""

    value: float
    low: float
    high: float
    pale: bool = False

    @classmethod
    def of(cls, difference: Difference) -> Mark:
        """A difference with its interval."""
        return cls(difference.value, difference.low, difference.high, difference.single)


BESIDE = "the paper (beside LitBank: on ACE)"
INTERVAL = "95% interval (pale: one seed, too narrow)"
Marks = Mapping[str, Mapping[str, Mark]]
"""By the name of a row, then by series."""


def forest(
    path: Path,
    rows: Marks,
    theirs: Mapping[str, Mapping[str, Sequence[float]]],
    x: str,
    *,
    ratios: bool = False,
    named: str = "the paper",
) -> str:
    """A row for each name, in it a mark for each series; the paper's values as hollow diamonds.

    Args:
        path: where to.
        rows: what is drawn.
        theirs: the same of the paper, perhaps several values.
        x: what the values are: differences, or ``ratios``.
        ratios: 1 is no difference, and the axis is logarithmic.
        named: what the paper's values are called.
    """
    series = list(dict.fromkeys(name for own in rows.values() for name in own))
    if len(series) > len(MARKS):
        raise ValueError(f"{path.name}: {len(series)} series, and {len(MARKS)} can be told apart; leave some out.")
    drawn, axis = figure(8.4, 1.2 + 0.14 * len(rows) * (len(series) + 1))
    axis.axvline(1 if ratios else 0, color=GREY, linewidth=0.8)
    for at, name in enumerate(series):
        style = {"color": COLOURS[at], "marker": MARKS[at], "linestyle": "none"}
        heights = {row: 0.4 - number - 0.8 * (at + 0.5) / len(series) for number, row in enumerate(rows)}
        axis.plot([], [], label=name, markersize=4.5, **style)
        for row, own in rows.items():
            if name in own:
                value, low, high, pale = own[name]
                size = {"markersize": 4.5, "capsize": 2, "linewidth": 1, "alpha": 0.45 if pale else 1}
                axis.errorbar(value, heights[row], xerr=[[value - low], [high - value]], **style, **size)
            for value in theirs.get(row, {}).get(name, ()):
                axis.plot(value, heights[row], **style | HOLLOW)
    if any(theirs.get(row, {}).get(name) for row in rows for name in series):
        axis.plot([], [], label=named, color=GREY, linestyle="none", **HOLLOW)
    axis.set_yticks([-number for number in range(len(rows))], [textwrap.fill(row, 34) for row in rows], fontsize=8)
    axis.set_ylim(0.5 - len(rows), 0.5)
    axis.grid(visible=False, axis="y")
    axis.grid(axis="x", color="#d1d9e0", linewidth=0.6)
    if ratios:
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_xlabel(x)
    drawn.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    return save(drawn, path)
