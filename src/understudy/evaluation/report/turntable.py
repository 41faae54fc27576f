"""The character from all around, as a small looping picture."""

from __future__ import annotations

import base64
import io
from html import escape

import numpy as np

from understudy.evaluation.camera import Camera
from understudy.evaluation.pictures import need_drawing
from understudy.evaluation.render import render
from understudy.evaluation.result import CaseResult, ReportData

_VIEWS = 20
_SIZE = (170, 220)  # pixels
_SECONDS = 6.0  # of a turn
_MOST_TRIANGLES = 60_000  # more take too long to draw for a small picture


def turntable(data: ReportData) -> str:
    """The stand-in at its worst frame, turning; "" if no frame is known or the mesh is large."""
    shape = next(
        (r.worst_approx for r in data.results if r.method == data.subject and _drawn(r)), None
    )
    if shape is None or len(data.mesh.triangles) > _MOST_TRIANGLES:
        return ""
    text = base64.b64encode(turning_picture(data, np.asarray(shape))).decode()
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
    pictures[0].save(
        out,
        format="WEBP",
        save_all=True,
        append_images=pictures[1:],
        duration=int(1000 * _SECONDS / _VIEWS),
        loop=0,
        quality=78,
    )
    return out.getvalue()


def _drawn(result: CaseResult) -> bool:
    """Whether a result has a frame that can be drawn."""
    return result.worst_approx is not None and bool(np.isfinite(result.worst_approx).all())
