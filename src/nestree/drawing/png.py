"""SVG drawings as PNG pictures; needs the extra ``png``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

LARGEST = 100_000_000
"""Pixels of a picture: more would take hundreds of megabytes of memory, and no viewer shows it."""

_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"')
_FONTS = {
    "arabic": "'Noto Sans Arabic','Noto Naskh Arabic','DejaVu Sans',Arial,'Segoe UI','Geeza Pro'",
    "hebrew": "'Noto Sans Hebrew','DejaVu Sans',Arial,'Segoe UI'",
    "wide": "'Noto Sans CJK SC','Noto Sans CJK JP','Noto Sans SC','PingFang SC','Hiragino Sans','Microsoft YaHei',"
    "'WenQuanYi Micro Hei','Droid Sans Fallback'",
}
"""Left to itself, the renderer takes the first typeface that has the letters, be it a bold one."""


def as_png(svg: str, *, scale: float = 2) -> bytes:
    """A drawing of this package as a PNG picture.

    Args:
        svg: what :func:`nestree.drawing.draw`, ``spans_svg``, ``tree_svg`` or ``sentence_svg`` returned. A picture
            cannot follow the reader's system: the theme "auto" is light.
        scale: pixels of the picture for each of the drawing's.

    Raises:
        ImportError: the extra is not installed.
        ValueError: this is no drawing, or the picture would be too large.
    """
    size = _SIZE.match(svg)
    if size is None:
        raise ValueError(f"this is no SVG drawing of nestree; it begins with {svg[:20]!r}.")
    width, height = (float(one) * scale for one in size.groups())
    if width * height > LARGEST:
        raise ValueError(
            f"the picture would have {width:.0f} × {height:.0f} pixels, which is too large; "
            "draw less at once, leave out the tree, or choose SVG or HTML."
        )
    render = renderer()
    fonts = "".join(f".{script}{{font-family:{names},sans-serif}}" for script, names in _FONTS.items())
    return bytes(render(svg_string=svg, zoom=scale, style_sheet=fonts))


def renderer() -> Callable[..., Any]:
    """What makes a picture of SVG.

    Raises:
        ImportError: the extra is not installed.
    """
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise ImportError('pictures in PNG need resvg_py: pip install "nestree[png]"') from None
    return svg_to_bytes
