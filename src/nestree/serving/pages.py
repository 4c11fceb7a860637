"""Pages that are made here: what each kind of problem means."""

from __future__ import annotations

from html import escape

from nestree.serving.files import File, file
from nestree.serving.problems import KINDS


def errors_page() -> File:
    """Where the ``type`` of a problem leads to."""
    rows = "".join(
        f'<section id="{name}"><h2>{kind.status} {escape(kind.title)}</h2>'
        f"<p><code>{name}</code></p><p>{escape(kind.advice)}</p></section>"
        for name, kind in KINDS.items()
    )
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>nestree: errors</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/docs.css"></head><body><main>'
        "<h1>Errors</h1><p>Every error is problem JSON (RFC 9457): what went wrong, where, and what to do. "
        f'<a href="/docs">The API</a></p>{rows}</main></body></html>\n'
    )
    return file(text.encode(), "text/html; charset=utf-8")
