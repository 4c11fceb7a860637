"""Symbol trees, trees and marginals as plain text, one sentence at a time."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from wcwidth import wcswidth

from nestree.crf import Symbol

BAR = 24


def draw_symbols(symbols: Tensor, words: Sequence[str]) -> str:
    """A symbol tree: row = first word, column = last word; ● observed, □ latent, ○ rejected. Shape: ``[n, n]``."""
    _check(symbols, words)
    margin = max(map(_width, words))
    columns = [max(_width(word), 1) for word in words]
    lines = [" " * margin + "  " + "  ".join(words)]
    for i, word in enumerate(words):
        cells = [Symbol(int(symbols[i, j])).glyph.center(columns[j]) for j in range(len(words))]
        lines.append(_pad(word, margin) + "  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def draw_tree(
    nodes: Tensor, words: Sequence[str], labels: Sequence[str], *, entity_labels: int, marginals: Tensor | None = None
) -> str:
    """A tree with one node a line, its probability behind it; latent nodes are drawn with dashed branches.

    Args:
        nodes: ``[n, n]``: the label at each node, -1 elsewhere, as ``TreeCRF.argmax`` gives for a sentence.
        words: the sentence's n words.
        labels: the names of all labels, entity labels first.
        entity_labels: how many of them are entity labels.
        marginals: ``[n, n, label]``, to show how probable each labelled node is.
    """
    _check(nodes, words)
    if int(nodes[0, len(words) - 1]) < 0:
        return "(no tree)"
    lines: list[tuple[str, float | None]] = []

    def visit(i: int, j: int, stem: str, branch: str) -> None:
        label = int(nodes[i, j])
        name = labels[label] if label < entity_labels else "·"
        probability = None if marginals is None else float(marginals[i, j, label])
        lines.append((f"{stem}{branch}{name} {' '.join(words[i : j + 1])}", probability))
        if i == j:
            return
        split = next(m for m in range(i, j) if int(nodes[i, m]) >= 0 and int(nodes[m + 1, j]) >= 0)
        below = stem + {"": "", "├─ ": "│  ", "├╌ ": "│  "}.get(branch, "   ")
        for k, (a, b) in enumerate(((i, split), (split + 1, j))):
            latent = int(nodes[a, b]) >= entity_labels
            visit(a, b, below, ("├" if k == 0 else "└") + ("╌ " if latent else "─ "))

    visit(0, len(words) - 1, "", "")
    width = max(_width(text) for text, _ in lines)
    return "\n".join(text if p is None else f"{_pad(text, width)}  {p:5.3f}" for text, p in lines)


def draw_marginals(marginals: Tensor, words: Sequence[str], labels: Sequence[str], *, at_least: float = 0.05) -> str:
    """The most probable labelled spans, with bars. Shape: ``[n, n, label]``."""
    _check(marginals, words)
    n = len(words)
    found = [
        (float(marginals[i, j, k]), " ".join(words[i : j + 1]), name)
        for i in range(n)
        for j in range(i, n)
        for k, name in enumerate(labels)
        if float(marginals[i, j, k]) >= at_least
    ]
    if not found:
        return f"(no labelled span has a probability of {at_least} or more)"
    found.sort(key=lambda row: -row[0])
    width, of_label = max(_width(text) for _, text, _ in found), max(map(_width, labels))
    return "\n".join(
        f"{_pad(label, of_label)}  {_pad(text, width)}  {p:5.3f}  {'█' * round(p * BAR)}".rstrip()
        for p, text, label in found
    )


def _check(chart: Tensor, words: Sequence[str]) -> None:
    n = len(words)
    if n == 0 or chart.dim() not in (2, 3) or chart.shape[0] < n or chart.shape[1] < n:
        raise ValueError(f"{n} words do not fit a chart of shape {list(chart.shape)}; give one sentence's [n, n, ...].")


def _width(text: str) -> int:
    """Columns on screen; wide and combining characters count as a terminal shows them."""
    return max(wcswidth(text), 0)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
