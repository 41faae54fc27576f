"""Whether points are inside a triangle mesh, and how deep rays from its surface reach.

The generalised winding number (Jacobson et al. 2013) is the sum of the solid angles of all
triangles, over 4 pi: 1 inside a closed mesh, 0 outside, in between where a mesh has holes.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from understudy.geometry.closest_points import closest_points

_BLOCK = 2**21  # pairs of points and triangles at a time
_INSIDE = 0.5
_START = 1e-4  # of the size: how far from the surface a ray starts
_SHRINKS = 20  # of a ball that is too large
_SAMPLES = 12  # points of the surface for every ball


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


def surface_distances(
    points: np.ndarray, vertices: np.ndarray, triangles: np.ndarray
) -> np.ndarray:
    """Return the distance (n,) of points (n,3) from the surface of a mesh."""
    return np.linalg.norm(points - surface_points(points, vertices, triangles), axis=1)


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


def interior_balls(
    vertices: np.ndarray, triangles: np.ndarray, count: int = 600
) -> tuple[np.ndarray, np.ndarray]:
    """Return the centres (n,3) and radii (n,) of at most 2 `count` balls that fill a body.

    The balls are about as large as fit: each touches the surface at one point, and shrinks until no
    other point of the surface is inside it (Ma et al. 2012). A mesh that encloses nothing has none.
    """
    points, normals = surface_samples(vertices, triangles, _SAMPLES * count)
    if not len(points):
        return np.zeros((0, 3)), np.zeros(0)
    tree = cKDTree(points)
    chosen = np.arange(0, len(points), _SAMPLES)
    at = points[chosen]
    found = []
    for side in (-1.0, 1.0):  # the faces may face either way
        inwards = side * normals[chosen]
        radius = np.full(len(at), float(np.linalg.norm(np.ptp(points, axis=0))) / 2)
        for _ in range(_SHRINKS):
            near = points[tree.query(at + radius[:, None] * inwards)[1]] - at
            along = np.einsum("ni,ni->n", near, inwards)
            with np.errstate(divide="ignore", invalid="ignore"):
                touching = (near**2).sum(axis=1) / (2 * along)
            smaller = (along > 0) & (touching < radius)
            if not smaller.any():
                break
            radius[smaller] = touching[smaller]
        found.append(at + radius[:, None] * inwards)
    centres = np.concatenate(found)
    centres = centres[are_inside(centres, vertices, triangles)]
    return centres, tree.query(centres)[0]


def surface_samples(
    vertices: np.ndarray, triangles: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return points (count,3) spread evenly over a surface, and its normals (count,3) there.

    Nothing is random. A mesh without area has no points.
    """
    corners = np.asarray(vertices, np.float64)[triangles]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    area = np.linalg.norm(normal, axis=1)
    total = np.cumsum(area)
    if not len(total) or not total[-1] > 0:
        return np.zeros((0, 3)), np.zeros((0, 3))
    number = np.arange(count)
    triangle = np.searchsorted(total, (number + 0.5) / count * total[-1])
    # The sequence of Roberts: evenly spread pairs in the unit square, folded into a triangle.
    u, v = (number * 0.7548776662466927) % 1, (number * 0.5698402909980532) % 1
    folded = u + v > 1
    u, v = np.where(folded, 1 - u, u), np.where(folded, 1 - v, v)
    weights = np.stack([1 - u - v, u, v], axis=1)
    unit = normal / np.maximum(area, 1e-300)[:, None]
    return np.einsum("nk,nki->ni", weights, corners[triangle]), unit[triangle]


def first_hits(starts: np.ndarray, directions: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return how far rays travel until they meet a triangle, (n,); infinity: they meet none.

    starts, directions  (n,3)
    corners             (M,3,3) of the triangles
    """
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
