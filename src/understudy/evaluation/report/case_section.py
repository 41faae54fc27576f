"""One test animation in a report: pictures of the worst frame, then the curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

import numpy as np

from understudy.evaluation.metric_catalogue import digits3, unit_text
from understudy.evaluation.render import HeatMap, render
from understudy.evaluation.report import plots, views
from understudy.evaluation.report.html import columns, curves, heat_scale, picture, ring
from understudy.evaluation.result import CaseResult, PicturedFrame, ReportData

_CLOSE_UP = 0.11  # half the side of the close-up, relative to the height


def case_section(data: ReportData, case: str, styles: Mapping[str, plots.Style]) -> str:
    """Pictures and curves of a case; "" if its results have none."""
    results = data.of_case(case)
    frames = [(r.method, r.pictured) for r in results if r.pictured is not None]
    pictures = "".join(
        _worst_frame(data, [(name, frame) for name, frame in frames if frame.pose == pose])
        for pose in dict.fromkeys(frame.pose for _, frame in frames)
    )
    shown = _plots(data, case, results, frames[0][1].pose if frames else None, styles)
    if not pictures and not shown:
        return ""
    below = curves([r.method for r in results], styles, shown)
    return f"<section><h2>{escape(case)}</h2>\n{pictures}\n{below}</section>"


def _plots(
    data: ReportData,
    case: str,
    results: Sequence[CaseResult],
    pictured: int | None,
    styles: Mapping[str, plots.Style],
) -> list[tuple[str, str]]:
    """(svg, caption) of each plot of a case."""
    found = []
    unit = unit_text(data.unit)
    histograms = {r.method: r.histogram for r in results if r.histogram is not None}
    if histograms:
        caption = (
            "Number of vertices over their error, all frames together, on a logarithmic axis. "
            "The further left a curve ends, the better."
        )
        found.append((plots.histogram(histograms, styles, unit, key=case), caption))
    frames = {
        r.method: (r.per_frame_mean, r.per_frame_max)
        for r in results
        if r.per_frame_mean is not None and r.per_frame_max is not None
    }
    if frames:
        caption = "Mean and largest error of each frame."
        if pictured is not None:
            caption += f" The dotted line marks frame {pictured}, shown above."
        found.append((plots.per_frame(frames, styles, unit, pictured, key=case), caption))
    if case in data.lbs_over_k:
        k, mean = data.lbs_over_k[case]
        means = {r.method: r.figures["mean"] for r in results if "mean" in r.figures}
        caption = (
            "Mean error of linear blend skinning (points) over the number of influences per "
            "vertex. Horizontal lines are the mean errors of the methods above."
        )
        found.append((plots.over_k(k, mean, means, styles, unit, key=case), caption))
    return found


def _worst_frame(data: ReportData, frames: Sequence[tuple[str, PicturedFrame]]) -> str:
    """Original and methods as columns: the whole character, a close-up and a heat map of each.

    The close-up shows where the first method has its largest error.
    """
    lead, frame = frames[0]
    view, seen = views.telling_view(data.mesh, frame)
    errors = {name: each.error for name, each in frames}
    top = views.shared_scale(errors[lead], list(errors.values()))
    vertex = int(np.nanargmax(np.nan_to_num(errors[lead], nan=-1.0)))
    reach = _CLOSE_UP * data.height
    around = frame.true[vertex] + np.concatenate([np.eye(3), -np.eye(3)]) * reach
    whole = views.camera_of(data.mesh, view, frame.true)
    close = replace(whole, size=(views.WIDTH, views.WIDTH * 5 // 6), fit_to=around)
    place = whole.project(frame.true[vertex][None])[0, :2]
    mark = ring(place, reach * whole.size[0] / whole.world_width, whole.size)
    draw = lambda points, camera, heat=None: render(points, data.mesh.triangles, camera, heat=heat)
    hidden = "" if seen[vertex] else ", hidden in a fold or behind a limb"
    cells = [
        f"<div><h4>original<small>frame {frame.pose}</small></h4>"
        f"{picture(draw(frame.true, whole), 'original', mark)}"
        f"{picture(draw(frame.true, close), 'original, close-up')}{heat_scale(top, data.unit)}"
        f"<p class='soft'>All heat maps share this scale; larger errors have the colour of its "
        f"end. The ring marks the largest error of {escape(lead)} (vertex {vertex}{hidden}); the "
        f"close-up shows this place.</p></div>"
    ]
    for name, each in frames:
        small = (
            f"mean {digits3(np.mean(errors[name]))}, max {digits3(np.max(errors[name]))} "
            f"{escape(unit_text(data.unit))}"
        )
        heat = HeatMap(errors[name], 0.0, top)
        cells.append(
            f"<div><h4>{escape(name)}<small>{small}</small></h4>"
            f"{picture(draw(each.approx, whole), name, mark)}"
            f"{picture(draw(each.approx, close), f'{name}, close-up')}"
            f"{picture(draw(each.approx, whole, heat), f'{name}, error', mark)}</div>"
        )
    return f"<h3>Frame {frame.pose}: the largest error of {escape(lead)}</h3>\n{columns(cells)}\n"
