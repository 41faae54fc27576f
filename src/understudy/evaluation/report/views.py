"""Which view, size and colour scale show the errors of a frame best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from understudy.core.mesh import Mesh
from understudy.evaluation.camera import Camera, View
from understudy.evaluation.render import visible
from understudy.evaluation.result import PicturedFrame
from understudy.geometry.normals import vertex_normals

MOST_TRIANGLES = 60_000  # more take too long to draw for small pictures
WIDTH = 360  # pixels of a picture: about twice the width of a column, for high-density screens
_AROUND = (35.0, -35.0, 145.0, -145.0)
_THREE_QUARTER = [(azimuth, 8.0) for azimuth in _AROUND]
_OTHERS = [
    *((azimuth, 8.0) for azimuth in (0.0, 90.0, 180.0, -90.0)),
    *((azimuth, elevation) for elevation in (-30.0, 45.0) for azimuth in _AROUND),
]
_OTHERS_WEIGHT = 0.7  # other views must show clearly more


def camera_of(mesh: Mesh, view: View, points: np.ndarray) -> Camera:
    """A camera that frames `points` (V,3) from `view`, in a picture as tall as they need."""
    camera = Camera(
        view=view, size=(WIDTH, WIDTH), fit_to=points, up_axis=mesh.up, handedness=mesh.handedness
    )
    across, down = np.ptp(camera.project(points)[:, :2], axis=0)
    return replace(camera, size=(WIDTH, int(WIDTH * np.clip(down / max(across, 1e-9), 0.7, 1.5))))


def telling_view(mesh: Mesh, frame: PicturedFrame) -> tuple[View, np.ndarray]:
    """The view that shows most of the largest errors, and the vertices (V,) bool that it sees.

    A three-quarter view, unless another view shows clearly more (a sole, an armpit). Facing the
    camera is necessary to be seen and cheap to compute. Views are therefore tried in the order of
    what faces them, until none of the remaining views can show more.
    """
    true = np.nan_to_num(frame.true)
    normals = vertex_normals(true, mesh.triangles, np.float64)
    weight = np.nan_to_num(frame.error)
    weight = (weight / max(weight.max(), 1e-300)) ** 4
    cameras = {
        view: Camera(view=view, up_axis=mesh.up, handedness=mesh.handedness)
        for view in (*_THREE_QUARTER, *_OTHERS)
    }
    faced = {
        view: weight
        * np.maximum(normals @ camera.direction, 0.0)
        * (1.0 if view in _THREE_QUARTER else _OTHERS_WEIGHT)
        for view, camera in cameras.items()
    }
    best, found, seen = -1.0, _THREE_QUARTER[0], np.zeros(len(true), bool)
    for view in sorted(cameras, key=lambda v: -faced[v].sum()):
        if faced[view].sum() <= best:
            break
        sees = visible(true, mesh.triangles, cameras[view])
        if faced[view][sees].sum() > best:
            best, found, seen = float(faced[view][sees].sum()), view, sees
    return found, seen


def shared_scale(subject: np.ndarray, every: Sequence[np.ndarray]) -> float:
    """The end of a heat scale that all methods share.

    subject  (V,) errors of the method that the report is about
    every    the errors of all methods

    It is the subject's largest error, or the median over the methods of the 99th percentile,
    whichever is larger. The subject's pattern then stays visible beside methods that are ten times
    worse, and these still show where they are less bad.
    """
    tails = [float(np.nanpercentile(e, 99)) for e in every if np.isfinite(e).any()]
    largest = float(np.nanmax(subject)) if np.isfinite(subject).any() else 0.0
    return round_up(max(largest, float(np.median(tails)) if tails else 0.0))


def round_up(number: float) -> float:
    """The next larger of 1, 1.5, 2, 3, 4, 5, 6, 8 times a power of ten.

    >>> [round_up(x) for x in (0.93, 1.2, 0.0)]
    [1.0, 1.5, 1.0]
    """
    if not (math.isfinite(number) and number > 0):
        return 1.0
    power = 10.0 ** math.floor(math.log10(number))
    steps = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)
    return float(f"{next(s for s in steps if s * power >= number * (1 - 1e-9)) * power:.3g}")
