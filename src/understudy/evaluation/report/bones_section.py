"""The bones of a compressed sequence: the skeleton inside the mesh, and the weights by bone."""

from __future__ import annotations

import colorsys
from html import escape

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin, skin_weights
from understudy.evaluation.camera import Camera
from understudy.evaluation.render import render
from understudy.evaluation.report import views
from understudy.evaluation.report.html import columns, picture
from understudy.evaluation.result import ReportData

_SIDES = {"front": (0.0, 0.0), "left": (90.0, 0.0)}
_FADED = 0.6  # how far the mesh is faded to white, so that the skeleton shows inside it
_GOLDEN = 0.61803398875  # turns of the colour circle from bone to bone


def bones_section(data: ReportData) -> str:
    """The bones of every method that found some; "" if none did."""
    rows = "".join(
        f"<h3>{escape(method)}, {skeleton.bone_count} bones</h3>"
        + columns(_cells(data, method, skeleton, skin))
        for method, (skeleton, skin) in data.skins.items()
    )
    if not rows:
        return ""
    rings = (
        " Rings are the joints of the character's own rig that move."
        if data.true_joints is not None
        else ""
    )
    return (
        "<section><h2>Bones</h2>\n<p class='soft'>The skeleton inside the mesh at rest, and the "
        f"weights: every bone has a colour, and vertices mix those of their bones.{rings}</p>\n"
        f"{rows}</section>"
    )


def _cells(data: ReportData, method: str, skeleton: Skeleton, skin: Skin) -> list[str]:
    mesh, cells = data.mesh, []
    for side, view in _SIDES.items():
        camera = views.camera_of(mesh, view, mesh.vertices)
        plain = render(mesh.vertices, mesh.triangles, camera).astype(np.float64)
        faded = (255 * _FADED + (1 - _FADED) * plain).astype(np.uint8)
        drawn = skeleton_overlay(camera, mesh, skeleton, data.true_joints)
        text = f"{method}, skeleton, {side}"
        cells.append(f"<div>{picture(faded, text, drawn)}<figcaption>{side}</figcaption></div>")
    colours = weight_colours(skin, skeleton.bone_count)
    for side, view in _SIDES.items():
        camera = views.camera_of(mesh, view, mesh.vertices)
        image = render(mesh.vertices, mesh.triangles, camera, colours=colours)
        text = f"{method}, weights, {side}"
        cells.append(f"<div>{picture(image, text)}<figcaption>weights, {side}</figcaption></div>")
    return cells


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
