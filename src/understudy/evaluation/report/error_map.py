"""Where the errors are: the largest error of each vertex, on the mesh at rest from four sides."""

from __future__ import annotations

from html import escape

import numpy as np

from understudy.evaluation.render import HeatMap, render
from understudy.evaluation.report import views
from understudy.evaluation.report.html import columns, heat_scale, picture
from understudy.evaluation.result import ReportData

_SIDES = {"front": (0.0, 0.0), "left": (90.0, 0.0), "back": (180.0, 0.0), "right": (-90.0, 0.0)}


def error_map(data: ReportData) -> str:
    """Heat maps of the subject, one row for each case; "" if there is nothing to show."""
    shown = [
        (r.case, r.per_vertex_max)
        for case in data.cases
        for r in data.of_case(case)
        if r.method == data.subject and r.per_vertex_max is not None
    ]
    if not shown:
        return ""
    top = views.round_up(
        max(
            float(np.nanpercentile(errors, 99.5)) if np.isfinite(errors).any() else 1.0
            for _, errors in shown
        )
    )
    rows = ""
    for case, errors in shown:
        cells = []
        for side, view in _SIDES.items():
            camera = views.camera_of(data.mesh, view, data.mesh.vertices)
            heat = HeatMap(errors, 0.0, top)
            image = render(data.mesh.vertices, data.mesh.triangles, camera, heat=heat)
            cells.append(
                f"<div>{picture(image, f'{case}, {side}')}<figcaption>{side}</figcaption></div>"
            )
        rows += f"<h3>{escape(case)}</h3>{columns(cells)}"
    return (
        f"<section><h2>Where the errors of {escape(data.subject)} are</h2>\n<p class='soft'>The "
        f"largest error of each vertex over the animation, shown on the rest pose.</p>\n"
        f"{rows}{heat_scale(top, data.unit)}</section>"
    )
