"""Pictures of comparisons as arrays (h,w,3) uint8: contact sheets, colour bars and PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from understudy.evaluation.report.html import png_bytes
from understudy.evaluation.shading import BACKGROUND, Colour, need_drawing
from understudy.io.atomic_write import atomic_write
from understudy.system import checks
from understudy.system.errors import InputError, MissingDependencyError

_INK: Colour = (38, 42, 50)


def can_draw() -> bool:
    """Whether matplotlib and Pillow are installed."""
    try:
        need_drawing()
    except MissingDependencyError:
        return False
    return True


def colour_bar(
    ramp: np.ndarray,
    ends: tuple[float, float],
    label: str,
    *,
    size: tuple[int, int] = (600, 64),
    text: int | None = None,
    background: Colour = BACKGROUND,
) -> np.ndarray:
    """A colour scale with five ticks and a label below: (h,w,3) uint8.

    ramp   (n,3) uint8, the colours from the low to the high end
    ends   the values at both ends
    label  what the scale shows, with its unit: "error, cm"
    size   (width, height) in pixels
    text   height of the letters in pixels; None: a fifth of the height
    """
    need_drawing()
    from PIL import Image, ImageDraw  # optional dependency

    width, height = size
    low, high = ends
    picture = Image.new("RGB", (width, height), background)
    draw = ImageDraw.Draw(picture)
    pad, bar = max(28, width // 16), max(6, height // 4)
    colours = ramp[np.linspace(0, len(ramp) - 1, width - 2 * pad).round().astype(int)]
    strip = np.ascontiguousarray(np.broadcast_to(colours, (bar, *colours.shape)))
    picture.paste(Image.fromarray(strip), (pad, 4))
    font = _font(text or max(9, round(height * 0.21)))
    for place in np.linspace(0.0, 1.0, 5):
        x = pad + place * (width - 2 * pad - 1)
        draw.line([(x, 4 + bar), (x, 8 + bar)], fill=_INK)
        tick = f"{low + place * (high - low):.3g}"
        draw.text((x, 10 + bar), tick, fill=_INK, font=font, anchor="ma")
    draw.text((width / 2, height - 3), label, fill=_INK, font=font, anchor="md")
    return np.asarray(picture)


def sheet(
    images: Sequence[np.ndarray],
    labels: Sequence[str],
    columns: int,
    *,
    title: str = "",
    gap: int = 10,
    text: int | None = None,
    background: Colour = (255, 255, 255),
) -> np.ndarray:
    """A contact sheet, `columns` pictures a row in reading order: (h,w,3) uint8.

    labels  one below each picture; long ones are cut with an ellipsis
    gap     pixels between pictures
    text    height of the labels in pixels; None: 4 % of the width of a picture
    """
    need_drawing()
    from PIL import Image, ImageDraw  # optional dependency

    if not len(images) or len(images) != len(labels):
        raise InputError(
            "sheet: expected one label for each picture and at least one picture, got "
            f"{len(images)} pictures and {len(labels)} labels"
        )
    columns = min(int(checks.between(columns, "columns", 1)), len(images))
    cell_w = max(i.shape[1] for i in images)
    text = text or max(11, round(cell_w * 0.042))
    font, strip = _font(text), round(text * 1.9)
    head = round(text * 2.6) if title else 0
    heights = [
        max(i.shape[0] for i in images[k : k + columns]) for k in range(0, len(images), columns)
    ]
    tops = np.cumsum([gap + head, *(h + strip + gap for h in heights)]).tolist()
    page = Image.new("RGB", (columns * (cell_w + gap) + gap, tops[-1]), background)
    draw = ImageDraw.Draw(page)
    if title:
        draw.text(
            (gap, gap + head / 2), title, fill=_INK, font=_font(round(text * 1.4)), anchor="lm"
        )
    for k, (image, label) in enumerate(zip(images, labels)):
        x, y, cell_h = gap + k % columns * (cell_w + gap), tops[k // columns], heights[k // columns]
        page.paste(
            Image.fromarray(image),
            (x + (cell_w - image.shape[1]) // 2, y + (cell_h - image.shape[0]) // 2),
        )
        draw.text(
            (x + cell_w / 2, y + cell_h + strip / 2),
            _fitting(str(label), font, cell_w),
            fill=_INK,
            font=font,
            anchor="mm",
        )
    return np.asarray(page)


def save_png(path: str | Path, image: np.ndarray) -> Path:
    """Write `image`, (h,w,3) uint8, to `path`; the file appears only when it is complete."""
    data = png_bytes(image)
    with atomic_write(path) as part:
        part.write_bytes(data)
    return Path(path)


@cache
def _font(pixels: int) -> Any:
    """DejaVu Sans as shipped with matplotlib: the same text on every machine."""
    import matplotlib  # optional dependency
    from PIL import ImageFont

    return ImageFont.truetype(
        str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), pixels
    )


def _fitting(text: str, font: Any, width: float) -> str:
    """The text, cut with an ellipsis if it is wider than `width` pixels."""
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "\u2026") > width:
        text = text[:-1]
    return text + "\u2026"
