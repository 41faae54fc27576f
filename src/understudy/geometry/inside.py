"""Points and a triangle mesh: the closest of its surface, and whether they are inside.

The generalised winding number (Jacobson et al. 2013) is the sum of the solid angles of all
triangles, over 4 pi: 1 inside a closed mesh, 0 outside, in between where a mesh has holes.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

_BLOCK = 2**21  # pairs of points and triangles at a time
_INSIDE = 0.5
_START = 1e-4  # of the size: how far from the surface a ray starts
_CORNERS, _CENTRES = 12, 24  # triangles that are tried: those with the nearest corners and centres
_POINTS_AT_ONCE = 4096  # points at a time


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
    for start in range(0, len(points), _POINTS_AT_ONCE):
        some = points[start : start + _POINTS_AT_ONCE]
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
        chosen[start : start + _POINTS_AT_ONCE] = tried[row, best]
        weights[start : start + _POINTS_AT_ONCE] = bary[row, best]
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


def winding_numbers(points: np.ndarray, vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Return the winding number (n,) of a mesh around points (n,3).

    vertices   (V,3)
    triangles  (M,3)

    >>> corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> winding_numbers(np.array([[0.1, 0.1, 0.1], [2, 2, 2]]), corners, faces).round(6).tolist()
    [1.0, 0.0]
    """
    corners = np.asarray(vertices, np.float64)[triangles]  # (M,3,3)
    points = np.asarray(points, np.float64)
    result = np.zeros(len(points))
    step = max(1, _BLOCK // max(1, len(corners)))
    for start in range(0, len(points), step):
        some = points[start : start + step]
        a, b, c = (corners[:, k] - some[:, None] for k in range(3))  # (n,M,3)
        length = lambda x: np.linalg.norm(x, axis=2)
        dot = lambda x, y: np.einsum("nmi,nmi->nm", x, y)
        la, lb, lc = length(a), length(b), length(c)
        volume = dot(a, np.cross(b, c))
        below = la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb
        result[start : start + step] = np.arctan2(volume, below).sum(axis=1) / (2 * np.pi)
    return result


def are_inside(points: np.ndarray, vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Return whether points (n,3) are inside a mesh, (n,) bool; its faces may face either way."""
    if not len(triangles):
        return np.zeros(len(points), bool)
    return np.abs(winding_numbers(points, vertices, triangles)) > _INSIDE


def surface_points(points: np.ndarray, vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Return the points (n,3) of the surface of a mesh that are nearest to points (n,3)."""
    return _nearest(points, vertices, triangles)[0]


def medial_points(points: np.ndarray, vertices: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Return points (n,3) in the middle of the body, near given points (n,3).

    A ray leaves the nearest point of the surface straight into the body; the result is half-way to
    where it meets the surface again. Where it does not, the nearest point of the surface is
    returned.
    """
    at, triangle = _nearest(points, vertices, triangles)
    corners = np.asarray(vertices, np.float64)[triangles]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])[triangle]
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    size = float(np.linalg.norm(np.ptp(vertices, axis=0))) or 1.0
    result = at.copy()
    deepest = np.zeros(len(points))
    for side in (-1.0, 1.0):  # the faces may face either way
        start = at + side * _START * size * normal
        depth = first_hits(start, side * normal, corners)
        reached = np.isfinite(depth)
        middle = at + side * normal * np.where(reached, depth / 2, 0.0)[:, None]
        better = reached.copy()
        better[reached] = are_inside(middle[reached], vertices, triangles)
        better &= depth > deepest  # the longer chord, if both are inside
        result[better], deepest[better] = middle[better], depth[better]
    return result


def first_hits(starts: np.ndarray, directions: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """How far rays (n,3) travel to triangles (M,3,3): (n,); infinity where they meet none."""
    result = np.full(len(starts), np.inf)
    one, two = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    for number, (start, direction) in enumerate(zip(starts, directions)):
        across = np.cross(direction, two)
        det = np.einsum("mi,mi->m", one, across)
        with np.errstate(divide="ignore", invalid="ignore"):
            to = start - corners[:, 0]
            u = np.einsum("mi,mi->m", to, across) / det
            turned = np.cross(to, one)
            v = turned @ direction / det
            far = np.einsum("mi,mi->m", turned, two) / det
            hit = (u >= 0) & (v >= 0) & (u + v <= 1) & (far > 0)
        if hit.any():
            result[number] = far[hit].min()
    return result


def _nearest(
    points: np.ndarray, vertices: np.ndarray, triangles: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the points (n,3) of a surface nearest to points (n,3), and their triangles (n,)."""
    triangle, weights = closest_points(points, vertices, triangles)
    corners = np.asarray(vertices, np.float64)[triangles[triangle]]
    return np.einsum("nk,nki->ni", weights, corners), triangle
