"""Pictures of a corpus."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nestree.data.errors import DataError

if TYPE_CHECKING:
    from nestree.data.statistics import Statistics

_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]  # told apart by colour-blind eyes


def draw(found: dict[str, Statistics], path: Path) -> None:
    """Draws lengths of sentences and entities, depths and labels of each corpus into one picture."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError('drawing needs matplotlib: pip install "nestree[plots]"') from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    names = _names(found)
    for number, (name, one) in enumerate(zip(names, found.values(), strict=True)):
        colour = _COLOURS[number % len(_COLOURS)]
        _shares(axes[0][0], one.sentence_lengths, name, colour)
        _shares(axes[0][1], one.entity_lengths, name, colour)
    _bars(
        axes[1][0],
        {
            name: Counter({str(k): v for k, v in sorted(one.depths.items())})
            for name, one in zip(names, found.values(), strict=True)
        },
    )
    _bars(axes[1][1], {name: one.labels for name, one in zip(names, found.values(), strict=True)}, most=12)
    axes[0][0].set(xlabel="words in a sentence", ylabel="share of sentences")
    axes[0][1].set(xlabel="words in an entity", ylabel="share of entities")
    axes[1][0].set(xlabel="depth of nesting (1: in no other entity)", ylabel="entities", yscale="log")
    axes[1][1].set(ylabel="entities")
    axes[1][1].tick_params(axis="x", rotation=40)
    for label in axes[1][1].get_xticklabels():
        label.set_horizontalalignment("right")
    axes[0][0].legend(frameon=False)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise DataError(f"the picture cannot be written: {error}", path=path) from None
    finally:
        pyplot.close(figure)


def _names(found: dict[str, Statistics]) -> list[str]:
    short = [Path(path).name for path in found]
    return short if len(set(short)) == len(short) else list(found)


def _shares(axis: Any, counts: Counter[int], name: str, colour: str) -> None:
    """A line of shares, up to where the last hundredth begins."""
    total, seen, last = max(1, counts.total()), 0, 0
    for last in sorted(counts):
        seen += counts[last]
        if seen > 0.99 * total:
            break
    sizes = range(1, last + 1)
    axis.plot(sizes, [counts[size] / total for size in sizes], label=name, color=colour, marker=".", markersize=4)


def _bars(axis: Any, counts: dict[str, Counter[str]], most: int = 20) -> None:
    """Groups of bars, one bar for each corpus."""
    together: Counter[str] = sum(counts.values(), Counter())
    keys = list(together) if most == 20 else [key for key, _ in together.most_common(most)]
    width = 0.8 / max(1, len(counts))
    for number, (name, one) in enumerate(counts.items()):
        places = [at + (number - (len(counts) - 1) / 2) * width for at in range(len(keys))]
        colour = _COLOURS[number % len(_COLOURS)]
        axis.bar(places, [one[key] for key in keys], width, label=name, color=colour)
    axis.set_xticks(range(len(keys)), [_drawable(key) for key in keys])


def _drawable(label: str) -> str:
    """A label as text: $ would begin a formula, and lone surrogates have no shape."""
    return label.encode(errors="replace").decode().replace("$", r"\$")
