"""The head of a report: a turning picture, the answer in one sentence, then its numbers."""

from __future__ import annotations

import base64
import io
import math
from html import escape

import numpy as np

from understudy.evaluation.camera import Camera
from understudy.evaluation.metric_catalogue import digits3, size_text, unit_text
from understudy.evaluation.render import render
from understudy.evaluation.report.views import MOST_TRIANGLES
from understudy.evaluation.result import ReportData, overall
from understudy.evaluation.shading import need_drawing

# Of the turning picture.
_VIEWS = 20
_SIZE = (170, 220)  # pixels
_SECONDS = 6.0  # of a turn


def headline(data: ReportData) -> str:
    """Title, the errors of the subject in a sentence, notes, and a tile for each number."""
    figures, unit = overall(data.results, data.subject), unit_text(data.unit)
    percent = lambda x: f"{digits3(100 * x / data.height)} % of {data.mesh.size_label}"
    length = lambda x: f"{digits3(x)}&nbsp;{escape(unit)}"
    own = [r for r in data.results if r.method == data.subject]
    frames = sum(len(r.per_frame_mean) for r in own if r.per_frame_mean is not None)
    over = f"{len(data.cases)} test animation{'s' * (len(data.cases) > 1)}" + (
        f" ({frames:,} frames)" if frames else ""
    )
    sentence = (
        f"<b>{escape(data.subject)}</b> approximates <b>{escape(data.title)}</b> with a mean "
        f"error of <b>{length(figures['mean'])}</b> ({percent(figures['mean'])}) and a largest "
        f"error of <b>{length(figures['max'])}</b> ({percent(figures['max'])}) on {over}."
    )
    card = '<div class="tile"><span>{}</span><b>{} <small>{}</small></b><span>{}</span></div>'
    labels = {"mean": "mean error", "p99": "99 % of vertices within", "max": "largest error"}
    tiles = [
        card.format(labels[name], digits3(x), escape(unit), percent(x))
        for name, x in figures.items()
        if not math.isnan(x)
    ]
    size, fit = _known(data, "bytes"), _known(data, "fit_s")
    if size is not None:
        number, of = size_text(size).split(" ")
        tiles.append(card.format("size", number, of, "of the stand-in"))
    if fit is not None:
        tiles.append(card.format("time to fit", digits3(fit), "s", "on the machine below"))
    # What a reader must know before any figure comes first.
    warned = [note for note in data.notes if note.startswith("Warning")]
    warnings = "".join(f'<p class="lede">{escape(note)}</p>' for note in warned)
    notes = "".join(f"<p>{escape(note)}</p>" for note in data.notes if note not in warned)
    link = data.page and (
        f'<p><a href="{escape(data.page)}">Open the character</a>: play it, pose it, compare it '
        "with the original.</p>\n"
    )
    return (
        f'<header>{turntable(data)}<p class="over">Understudy report</p>\n'
        f"<h1>{escape(data.title)}</h1>\n"
        f'{warnings}<p class="lede">{sentence}</p>\n'
        f"<p>{_compared(data)}{_worst_frame(data)}</p>{notes}\n"
        f"{link}"
        f'<div class="tiles">{"".join(tiles)}</div></header>'
    )


def _compared(data: ReportData) -> str:
    """One sentence on the next best method with results for the same cases; "" if there is none."""
    own = overall(data.results, data.subject)["mean"]
    cases = {
        m: {r.case for r in data.results if r.method == m and "mean" in r.figures}
        for m in data.methods
    }
    others = {
        m: overall(data.results, m)["mean"]
        for m in data.methods[1:]
        if cases[m] >= cases[data.subject]
    }
    others = {m: x for m, x in others.items() if math.isfinite(x)}
    if not others or not own > 0:
        return ""
    nearest = min(others, key=lambda m: others[m])
    ratio = others[nearest] / own
    if ratio >= 1:
        return f"The mean error of {escape(nearest)} is {digits3(ratio)} times as large. "
    return f"The mean error of {escape(nearest)} is smaller: {digits3(100 * ratio)} % of that. "


def _worst_frame(data: ReportData) -> str:
    """One sentence that names the frame, vertex and part of the subject's largest error."""
    known = [
        (r, r.per_frame_max)
        for r in data.results
        if r.method == data.subject
        and r.per_frame_max is not None
        and np.isfinite(r.per_frame_max).any()
    ]
    if not known:
        return ""
    r, errors = max(known, key=lambda pair: np.nanmax(pair[1]))
    place, own = f"frame {np.nanargmax(errors)} of {escape(r.case)}", r.per_vertex_max
    if own is not None and np.isfinite(own).any():
        vertex = int(np.nanargmax(own))
        part = next((name for name, members in data.mesh.parts.items() if vertex in members), "")
        place += f", at vertex {vertex}" + (f" of {escape(part)}" if part else "")
    return f"The largest error is in {place}."


def _known(data: ReportData, name: str) -> float | None:
    """A figure of the subject, from its deformer if known, else the largest of its results."""
    for deformer in data.deformers:
        value = deformer.get(name)
        if deformer.get("method") == data.subject and isinstance(value, (int, float)):
            return float(value)
    own = (r.figures for r in data.results if r.method == data.subject)
    found = [figures[name] for figures in own if name in figures]
    return float(max(found)) if found else None


def turntable(data: ReportData) -> str:
    """The stand-in at its worst frame, turning; "" if no frame is known or the mesh is large."""
    frames = (r.pictured for r in data.results if r.method == data.subject)
    shapes = (frame.approx for frame in frames if frame is not None)
    shape = next((shape for shape in shapes if np.isfinite(shape).all()), None)
    if shape is None or len(data.mesh.triangles) > MOST_TRIANGLES:
        return ""
    text = base64.b64encode(turning_picture(data, shape)).decode()
    label = escape(f"{data.title}, {data.subject}, from all around")
    return f'<img class="turntable" alt="{label}" src="data:image/webp;base64,{text}">'


def turning_picture(data: ReportData, vertices: np.ndarray) -> bytes:
    """An animated WebP of one turn."""
    need_drawing()
    from PIL import Image

    middle = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
    # The same box for every view, wide enough for any of them.
    up = {"Y": 1, "Z": 2}[data.mesh.up]
    reach = np.linalg.norm(np.delete(vertices - middle, up, axis=1), axis=1).max()
    half = np.full(3, reach)
    half[up] = np.ptp(vertices[:, up]) / 2
    pictures = []
    for number in range(_VIEWS):
        camera = Camera(
            view=(35.0 + 360.0 * number / _VIEWS, 8.0),
            size=_SIZE,
            fit_to=np.stack([middle - half, middle + half]),
            up_axis=data.mesh.up,
            handedness=data.mesh.handedness,
        )
        pictures.append(Image.fromarray(render(vertices, data.mesh.triangles, camera)))
    out = io.BytesIO()
    first, *others = pictures
    pause = int(1000 * _SECONDS / _VIEWS)
    first.save(out, "WEBP", save_all=True, append_images=others, duration=pause, loop=0, quality=78)
    return out.getvalue()
