from __future__ import annotations

import struct
import sys

import pytest

from nestree.drawing import as_png, spans_svg
from tests.drawing.test_spans import SPANS, WORDS


def test_a_picture_is_twice_as_large_as_the_drawing() -> None:
    pytest.importorskip("resvg_py")
    svg = spans_svg(["مصر", "東京", *WORDS], SPANS)
    png = as_png(svg)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    assert f'width="{width // 2}" height="{height // 2}"' in svg


def test_the_theme_is_seen() -> None:
    pytest.importorskip("resvg_py")
    assert len({as_png(spans_svg(WORDS, SPANS, theme=theme)) for theme in ("auto", "light", "dark")}) == 2  # type: ignore[arg-type]


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(ImportError, match=r'pip install "nestree\[png\]"'):
        as_png(spans_svg(WORDS, SPANS))


def test_what_is_too_large_or_no_drawing_is_refused() -> None:
    with pytest.raises(ValueError, match="too large; draw less"):
        as_png(spans_svg(["word"] * 10, SPANS), scale=1000)
    with pytest.raises(ValueError, match="no SVG drawing"):
        as_png("<html>")
