"""The points of a triangle mesh that are closest to given points."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

_CORNERS, _CENTRES = 12, 24  # triangles that are tried: those with the nearest corners and centres
_BLOCK = 4096  # points at a time


def closest_points(
    points: np.ndarray, vertices: np.ndarray, triangles: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the triangle closest to each point, (n,), and barycentric weights, (n,3) float64.

    points     (n,3)
    vertices   (V,3)
    triangles  (M,3), at least one

    Tried are the triangles with the nearest corners and centres. Among triangles of very different
    sizes another one may be slightly closer.

    >>> triangle = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    >>> closest_points(np.array([[0.25, 0.25, 1.0]]), triangle, np.array([[0, 1, 2]]))[1].tolist()
    [[0.5, 0.25, 0.25]]
    """
    points, corners = np.asarray(points, np.float64), np.asarray(vertices, np.float64)[triangles]
    count = len(corners)
    by_corner = cKDTree(corners.reshape(-1, 3))
    by_centre = cKDTree(corners.mean(axis=1))
    chosen, weights = np.zeros(len(points), np.int64), np.zeros((len(points), 3))
    for start in range(0, len(points), _BLOCK):
        some = points[start : start + _BLOCK]
        near = [
            tree.query(some, k=np.arange(1, min(most, size) + 1))[1] // per
            for tree, most, size, per in (
                (by_corner, _CORNERS, 3 * count, 3),
                (by_centre, _CENTRES, count, 1),
            )
        ]
        tried = np.concatenate(near, axis=1)
        bary = _project(some[:, None], corners[tried])
        off = np.einsum("nck,nckd->ncd", bary, corners[tried]) - some[:, None]
        best = np.argmin(np.sum(off**2, axis=2), axis=1)
        row = np.arange(len(some))
        chosen[start : start + _BLOCK] = tried[row, best]
        weights[start : start + _BLOCK] = bary[row, best]
    return chosen, weights


def _project(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Barycentric weights (...,3) of the closest points of triangles (...,3,3) to points (...,3).

    The closest point is the foot of the perpendicular, if that is inside, else on one of the edges.
    """
    a, b, c = (corners[..., k, :] for k in range(3))
    u, v, w = b - a, c - a, points - a
    dot = lambda x, y: np.sum(x * y, axis=-1)
    uu, uv, vv, uw, vw = dot(u, u), dot(u, v), dot(v, v), dot(u, w), dot(v, w)
    area = uu * vv - uv * uv
    flat = area <= 1e-14 * uu * vv
    safe = np.where(flat, 1, area)
    s, t = (vv * uw - uv * vw) / safe, (uu * vw - uv * uw) / safe
    inside = ~flat & (s >= 0) & (t >= 0) & (s + t <= 1)
    result = np.stack([1 - s - t, s, t], axis=-1)
    best = np.where(inside, 0.0, np.inf)
    for first, second in ((0, 1), (1, 2), (2, 0)):
        start, along = corners[..., first, :], corners[..., second, :] - corners[..., first, :]
        length = dot(along, along)
        at = np.clip(dot(points - start, along) / np.where(length > 0, length, 1), 0, 1)
        off = start + at[..., None] * along - points
        distance = dot(off, off)
        edge = np.zeros_like(result)
        edge[..., first], edge[..., second] = 1 - at, at
        better = ~inside & (distance < best)
        best = np.where(better, distance, best)
        result = np.where(better[..., None], edge, result)
    return result
