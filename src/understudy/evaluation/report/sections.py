"""Sections of a report: error against cost, test animations, where the errors are, the bones."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin, skin_weights
from understudy.evaluation.camera import Camera
from understudy.evaluation.metric_catalogue import digits3, unit_text
from understudy.evaluation.render import HeatMap, render
from understudy.evaluation.report import plots, views
from understudy.evaluation.report.html import columns, curves, heat_scale, picture, ring
from understudy.evaluation.result import CaseResult, PicturedFrame, ReportData, overall

_CLOSE_UP = 0.11  # half the side of the close-up, relative to the height
_SHEET_VIEW, _SHEET_SIZE = (35.0, 8.0), (120, 150)
_TWO_SIDES = {"front": (0.0, 0.0), "left": (90.0, 0.0)}
_FOUR_SIDES = {**_TWO_SIDES, "back": (180.0, 0.0), "right": (-90.0, 0.0)}
_FADED = 0.6  # how far the mesh is faded to white, so that the skeleton shows inside it
_GOLDEN = 0.61803398875  # turns of the colour circle from bone to bone
# Figure -> label of its axis, its factor, and the caption.
_COSTS = {
    "ms_1": ("time of one pose on one thread, ms", 1.0, "Mean error against the time of one pose."),
    "bytes": ("size, MB", 1e-6, "Mean error against the size."),
}


def contact_sheet(data: ReportData) -> str:
    """Small pictures of training poses, and of what was measured on; "" if they are not known."""
    if data.sheet is None or len(data.mesh.triangles) > views.MOST_TRIANGLES:
        return ""
    rows = ""
    for what, poses in zip(("Training poses", "Test poses"), data.sheet):
        box = np.stack([poses.min(axis=(0, 1)), poses.max(axis=(0, 1))])
        corners = np.array([[box[i, 0], box[j, 1], box[k, 2]] for i, j, k in np.ndindex(2, 2, 2)])
        camera = replace(views.camera_of(data.mesh, _SHEET_VIEW, corners), size=_SHEET_SIZE)
        pictures = (render(pose, data.mesh.triangles, camera, samples=1) for pose in poses)
        shown = "".join(picture(one, f"{what}, number {k}") for k, one in enumerate(pictures))
        rows += f"<h3>{what}</h3><div class='sheet'>{shown}</div>"
    return f"<section><h2>What was learned from, and measured on</h2>\n{rows}</section>"


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
    return [*found, *data.plots.get(case, ())]


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
        for side, view in _FOUR_SIDES.items():
            camera = views.camera_of(data.mesh, view, data.mesh.vertices)
            heat = HeatMap(errors, 0.0, top)
            image = render(data.mesh.vertices, data.mesh.triangles, camera, heat=heat)
            cells.append(_cell(image, f"{case}, {side}", side))
        rows += f"<h3>{escape(case)}</h3>{columns(cells)}"
    return (
        f"<section><h2>Where the errors of {escape(data.subject)} are</h2>\n<p class='soft'>The "
        f"largest error of each vertex over the animation, shown on the rest pose.</p>\n"
        f"{rows}{heat_scale(top, data.unit)}</section>"
    )


def bones_section(data: ReportData) -> str:
    """The bones of every method that found some; "" if none did."""
    rows = "".join(
        f"<h3>{escape(method)}, {skeleton.bone_count} bones</h3>"
        + columns(_cells(data, method, skeleton, skin))
        for method, (skeleton, skin) in data.skins.items()
    )
    if not rows:
        return ""
    known = data.true_joints is not None
    rings = " Rings are the joints of the character's own rig that move." if known else ""
    return (
        "<section><h2>Bones</h2>\n<p class='soft'>The skeleton inside the mesh at rest, and the "
        f"weights: every bone has a colour, and vertices mix those of their bones.{rings}</p>\n"
        f"{rows}</section>"
    )


def _cells(data: ReportData, method: str, skeleton: Skeleton, skin: Skin) -> list[str]:
    mesh, cells = data.mesh, []
    for side, view in _TWO_SIDES.items():
        camera = views.camera_of(mesh, view, mesh.vertices)
        plain = render(mesh.vertices, mesh.triangles, camera).astype(np.float64)
        faded = (255 * _FADED + (1 - _FADED) * plain).astype(np.uint8)
        drawn = skeleton_overlay(camera, mesh, skeleton, data.true_joints)
        cells.append(_cell(faded, f"{method}, skeleton, {side}", side, drawn))
    colours = weight_colours(skin, skeleton.bone_count)
    for side, view in _TWO_SIDES.items():
        camera = views.camera_of(mesh, view, mesh.vertices)
        image = render(mesh.vertices, mesh.triangles, camera, colours=colours)
        cells.append(_cell(image, f"{method}, weights, {side}", f"weights, {side}"))
    return cells


def _cell(image: np.ndarray, text: str, caption: str, overlay: str = "") -> str:
    """A picture with a caption; text and overlay as in `picture`."""
    return f"<div>{picture(image, text, overlay)}<figcaption>{caption}</figcaption></div>"


def weight_colours(skin: Skin, bones: int) -> np.ndarray:
    """sRGB colours (V,3) of 0 to 255: every bone has its own, mixed by the weights.

    >>> weight_colours(Skin.rigid(np.array([0, 1])), 2).shape
    (2, 3)
    """
    palette = np.array(
        [
            colorsys.hsv_to_rgb(bone * _GOLDEN % 1, 0.55 + 0.25 * (bone % 2), 0.95)
            for bone in range(bones)
        ]
    )
    return np.clip(255 * (skin_weights(skin, bones) @ palette), 0, 255)


def skeleton_overlay(
    camera: Camera, mesh: Mesh, skeleton: Skeleton, true_joints: np.ndarray | None = None
) -> str:
    """A skeleton as SVG over a picture of the mesh; true_joints (n,3) become rings."""
    at = camera.project(skeleton.world_from_bone[:, :, 3])
    width, height = camera.size
    lines = "".join(
        f'<line x1="{at[parent, 0]:.1f}" y1="{at[parent, 1]:.1f}" x2="{at[bone, 0]:.1f}" '
        f'y2="{at[bone, 1]:.1f}" stroke="#1f4e8c" stroke-width="2"/>'
        for bone, parent in enumerate(skeleton.parents)
        if parent >= 0
    )
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{4.5 if parent < 0 else 3}" fill="#c8372d"/>'
        for (x, y, _), parent in zip(at, skeleton.parents)
    )
    rings = ""
    if true_joints is not None and len(true_joints):
        rings = "".join(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="none" stroke="#20262e"/>'
            for x, y, _ in camera.project(true_joints)
        )
    return f'<svg viewBox="0 0 {width} {height}" aria-hidden="true">{lines}{rings}{dots}</svg>'


def pareto(data: ReportData, styles: Mapping[str, plots.Style]) -> str:
    """A section with one plot for each cost that at least two methods have; "" if there is none."""
    found = []
    for name, (label, factor, caption) in _COSTS.items():
        points = cost_points(data, name, factor)
        if len(points) > 1:
            caption += " The line joins the methods that no other one beats in both."
            unit = unit_text(data.unit)
            found.append((plots.pareto(points, styles, label, unit, key=name), caption))
    if not any("time" in caption for _, caption in found):
        return ""  # sizes alone are in the tables
    return "<section><h2>Error and cost</h2>\n" + curves(data.methods, styles, found) + "</section>"


def cost_points(data: ReportData, name: str, factor: float) -> dict[str, tuple[float, float]]:
    """Method -> (cost, mean error over all cases), of those that have both and above zero."""
    points = {}
    for method in data.methods:
        cost = next(
            (r.figures[name] for r in data.results if r.method == method and name in r.figures),
            math.nan,
        )
        error = overall(data.results, method)["mean"]
        if cost > 0 and error > 0 and math.isfinite(cost) and math.isfinite(error):
            points[method] = (factor * cost, error)
    return points
