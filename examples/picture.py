"""Draws the README's picture: the symbol tree of the paper's example, with one latent tree that completes it.

Needs the extra ``plots``: ``pip install nestree[plots]``.
"""

from __future__ import annotations

import argparse

import matplotlib
import torch
from paper_example import ENTITIES, LABELS, WORDS

from nestree.crf import PartialTrees, Symbol, TreeCRF

matplotlib.use("Agg")
from matplotlib import pyplot as plt

OBSERVED, LATENT, REJECTED, EDGE = "#0b5394", "#5f6b7a", "#c9ced6", "#5f6b7a"


def main() -> None:
    """Every span (i, j) stands above the middle of its words, wider spans higher."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", nargs="?", default="docs/images/partial-tree.svg")
    options = parser.parse_args()
    n = len(WORDS)
    names = {(start, end): label for start, end, label in ENTITIES}
    spans = [(start, end, LABELS.index(label)) for (start, end), label in names.items()]
    partial = PartialTrees.from_spans([spans], [n], entity_labels=3)
    nodes = completed(partial)

    plt.rcParams["svg.fonttype"] = "path"
    plt.rcParams["svg.hashsalt"] = "nestree"
    figure, axes = plt.subplots(figsize=(9, 4.6))
    for i, j in nodes:
        for m in range(i, j):
            if (i, m) in nodes and (m + 1, j) in nodes:
                for child in ((i, m), (m + 1, j)):
                    style = "-" if child in names else (0, (4, 3))
                    (x, y), (u, v) = place(i, j), place(*child)
                    axes.plot([x, u], [y, v], color=EDGE, linewidth=1.4, linestyle=style, zorder=1)
    for i in range(n):
        for j in range(i, n):
            x, y = place(i, j)
            symbol = Symbol(int(partial.symbols[0, i, j]))
            if symbol is Symbol.OBSERVED:
                axes.scatter(x, y, s=230, color=OBSERVED, zorder=3)
                axes.text(x + 0.13, y + 0.17, names[i, j], color=OBSERVED, fontsize=11, fontweight="bold")
            elif symbol is Symbol.LATENT:
                face = LATENT if (i, j) in nodes else "white"
                axes.scatter(x, y, s=150, marker="s", facecolor=face, edgecolor=LATENT, linewidth=1.6, zorder=3)
            else:
                axes.scatter(x, y, s=130, facecolor="white", edgecolor=REJECTED, linewidth=1.6, zorder=2)
    for i, word in enumerate(WORDS):
        axes.text(i, -0.62, word, ha="center", va="top", fontsize=12)
    legend = [
        axes.scatter([], [], s=110, color=OBSERVED, label="observed: an annotated entity"),
        axes.scatter([], [], s=80, marker="s", facecolor="white", edgecolor=LATENT, label="latent: may be a node"),
        axes.scatter([], [], s=80, marker="s", color=LATENT, label="latent, realised in one tree"),
        axes.scatter([], [], s=70, facecolor="white", edgecolor=REJECTED, label="rejected: crosses an entity"),
    ]
    axes.legend(handles=legend, loc="upper left", frameon=False, fontsize=10)
    axes.set_xlim(-0.7, n - 0.3)
    axes.set_ylim(-1.1, n - 0.3)
    axes.axis("off")
    figure.tight_layout()
    figure.savefig(options.output, metadata={"Date": None} if options.output.endswith("svg") else None)


def place(i: int, j: int) -> tuple[float, float]:
    """Where span (i, j) is drawn."""
    return (i + j) / 2, float(j - i)


def completed(partial: PartialTrees) -> set[tuple[int, int]]:
    """The spans of one tree that agrees with the partial tree; narrow constituents are preferred, for the looks."""
    n = len(WORDS)
    scores = partial.mask().log()
    width = torch.arange(n)[None, :] - torch.arange(n)[:, None]
    scores = scores - 0.1 * (width[None, :, :, None].clamp_min(0).float() ** 1.5)
    return {(i, j) for i, j in torch.nonzero(TreeCRF(scores).argmax[0] >= 0).tolist()}


if __name__ == "__main__":
    main()
