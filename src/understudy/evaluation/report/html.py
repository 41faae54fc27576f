"""Small pieces of HTML that several sections of the report use."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from understudy.evaluation.metric_catalogue import digits3, unit_text
from understudy.evaluation.report.plots import Style
from understudy.evaluation.shading import need_drawing, turbo
from understudy.system import checks


def png_bytes(image: np.ndarray) -> bytes:
    """The bytes of a PNG file with `image`, (h,w,3) uint8."""
    need_drawing()
    from PIL import Image  # optional dependency

    file = io.BytesIO()
    pixels = checks.shape_of(np.ascontiguousarray(image, np.uint8), "image", (None, None, 3))
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def picture(image: np.ndarray, text: str, overlay: str = "") -> str:
    """An image (h,w,3) inside the page, with `text` as its description and SVG laid over it."""
    data = base64.b64encode(png_bytes(image)).decode()
    height, width = image.shape[:2]
    return (
        f'<figure class="picture"><img src="data:image/png;base64,{data}" width="{width}" '
        f'height="{height}" alt="{escape(text)}">{overlay}</figure>'
    )


def ring(centre: np.ndarray, radius: float, size: tuple[int, int]) -> str:
    """A ring over a picture of `size`, in two tones, so that it shows on clay and on colours."""
    x, y = (f"{c:.1f}" for c in centre)
    circle = lambda colour, width: (
        f'<circle cx="{x}" cy="{y}" r="{radius:.1f}" fill="none" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )
    return (
        f'<svg viewBox="0 0 {size[0]} {size[1]}" '
        f'aria-hidden="true">{circle("#ffffff", 3)}{circle("#20262e", 1.2)}</svg>'
    )


def heat_scale(top: float, unit: str) -> str:
    """The colour scale of a heat map from 0 to `top`."""
    stops = ",".join("#{:02x}{:02x}{:02x}".format(*colour) for colour in turbo()[:: 255 // 17])
    texts = ["0", *(f"{top * k / 4:.3g}" for k in (1, 2, 3)), f"≥ {top:.3g} {unit_text(unit)}"]
    ticks = "".join(f"<span>{escape(text)}</span>" for text in texts)
    return (
        f'<div class="bar"><i style="background:linear-gradient(90deg,{stops})"></i>'
        f"<div>{ticks}</div></div>"
    )


def columns(cells: Sequence[str]) -> str:
    """Cells side by side, at most five; more wrap into rows of about equal length."""
    rows = -(-len(cells) // 5)
    return f'<div class="columns" style="--n:{-(-len(cells) // rows)}">{"".join(cells)}</div>'


def swatch(style: Style) -> str:
    """A short line in the colour and dash of a method."""
    kind = "solid" if style[1] == "solid" else "dashed"
    return f'<span class="swatch" style="border-color:{style[0]};border-top-style:{kind}"></span>'


def header_cell(label: str, unit: str) -> str:
    """A header with its unit below."""
    return f'<th>{escape(label)}<span class="unit">{escape(unit)}</span></th>'


def curves(
    methods: Sequence[str], styles: Mapping[str, Style], plots: Sequence[tuple[str, str]]
) -> str:
    """Plots (svg, caption) two by two under one legend; "" if there are none."""
    if not plots:
        return ""
    legend = "".join(f"<li>{swatch(styles[m])}{escape(m)}</li>" for m in methods)
    cells = "".join(
        f'<figure class="plot">{svg}<figcaption>{text}</figcaption></figure>' for svg, text in plots
    )
    return (
        f'<div class="curves"><ul class="legend">{legend}</ul><div class="pair">{cells}</div></div>'
    )


def plain(value: object) -> str:
    """A value of any type as text: whole numbers with separators, others to three digits."""
    if value is None:
        return "-"
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return f"{value:,}" if abs(int(value)) < 1_000_000 else digits3(float(value))
    return digits3(float(value)) if isinstance(value, (float, np.floating)) else str(value)
