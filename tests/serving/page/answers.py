"""Answers as the service would give them, of texts that a small model knows nothing about."""

from __future__ import annotations

import re
from typing import Any


def answer(text: str, spans: list[tuple[str, str, float]]) -> dict[str, Any]:
    """Of a text, and of what is found in it: words, label and score; the tree is flat but for them."""
    words = [list(one.span()) for one in re.finditer(r"\w+|[^\w\s]", text)]
    places = sorted(
        ((text.index(part), text.index(part) + len(part), label, score) for part, label, score in spans),
        key=lambda one: (one[0], -one[1]),
    )
    entities: list[dict[str, Any]] = []
    for start, end, label, score in places:
        around = [at for at, one in enumerate(entities) if one["start"] <= start and end <= one["end"]]
        entities.append(
            {
                "text": text[start:end],
                "label": label,
                "start": start,
                "end": end,
                "score": score,
                "depth": len(around) + 1,
                "parent": around[-1] if around else None,
                "token_start": next(at for at, word in enumerate(words) if word[0] >= start),
                "token_end": next(at for at, word in enumerate(words) if word[1] >= end) + 1,
            }
        )
    nodes = [{"start": words[0][0], "end": words[-1][1], "label": None, "score": 0.9}]
    nodes += [{name: one[name] for name in ("start", "end", "label", "score")} for one in entities]
    document = {"text": text, "words": words, "sentences": [[0, len(words)]], "entities": entities, "windowed": []}
    document |= {"trees": [{"nodes": nodes}], "alternatives": [[]]}
    return {"model": {"name": "small", "version": "0"}, "documents": [document]}


DEEP = (
    "At dawn the lawyer of the widow of the director of the opera house of the city of Lyon asked for a long delay .",
    [
        ("the lawyer of the widow of the director of the opera house of the city of Lyon", "PER", 0.71),
        ("the widow of the director of the opera house of the city of Lyon", "PER", 0.82),
        ("the director of the opera house of the city of Lyon", "PER", 0.9),
        ("the opera house of the city of Lyon", "ORG", 0.88),
        ("the city of Lyon", "ORG", 0.97),
    ],
)
RIGHT_TO_LEFT = (
    "رئيس بلدية مدينة الإسكندرية زار متحف اللوفر في باريس يوم الاثنين مع مدير شركة Acme Holdings Ltd في القاهرة .",
    [
        ("رئيس بلدية مدينة الإسكندرية", "PER", 0.9),
        ("مدينة الإسكندرية", "ORG", 0.93),
        ("متحف اللوفر", "ORG", 0.88),
        ("مدير شركة Acme Holdings Ltd في القاهرة", "PER", 0.7),
        ("شركة Acme Holdings Ltd", "ORG", 0.8),
    ],
)
EMOJI = ("😀😀 the 🧬 gene of Anna is new", [("gene of Anna", "ORG", 0.9), ("Anna", "PER", 0.95)])
LONG_LABELS = ("IL 2 and p 53 bind", [("IL 2", "protein_family_or_group", 0.9), ("p 53", "protein_molecule", 0.8)])
