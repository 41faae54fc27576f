"""Points and a triangle mesh: the closest of its surface, whether they are inside, and its voxels.

The generalised winding number (Jacobson et al. 2013) is the sum of the solid angles of all
triangles, over 4 pi: 1 inside a closed mesh, 0 outside, in between where a mesh has holes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

_BLOCK = 2**21  # pairs of points and triangles at a time
_INSIDE = 0.5
_START = 1e-4  # of the size: how far from the surface a ray starts
_SHRINKS = 20  # of a ball that is too large
_SAMPLES = 12  # points of the surface for every ball
_OFFSET = 1e-7  # of a voxel, off the lines that edges of modelled meshes often lie on
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


@dataclass(frozen=True, eq=False)
class Voxels:
    """A grid of cubes.

    filled   (X,Y,Z) bool
    origin   (3,) corner of the first voxel
    spacing  length of their edges
    """

    filled: np.ndarray
    origin: np.ndarray
    spacing: float

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Return which points (n,3) are in filled voxels, (n,) bool."""
        at = np.floor((points - self.origin) / self.spacing)
        known = ((at >= 0) & (at < self.filled.shape)).all(axis=1)
        at = np.where(known[:, None], at, 0).astype(np.int64)
        return known & self.filled[tuple(at.T)]

    def surface_centres(self) -> np.ndarray:
        """Return the centres (n,3) of filled voxels with an empty neighbour."""
        padded = np.pad(self.filled, 1)
        buried = np.ones_like(self.filled)
        for axis in range(3):
            for shift in (-1, 1):
                buried &= np.roll(padded, shift, axis)[1:-1, 1:-1, 1:-1]
        return self.origin + self.spacing * (np.argwhere(self.filled & ~buried) + 0.5)


def solid_voxels(vertices: np.ndarray, triangles: np.ndarray, count: int) -> Voxels:
    """Return the voxels whose centres are inside a mesh; `count` of them are as long as its size.

    Lines along each axis count the faces that they enter and leave. What two of the three axes find
    inside is inside, so that small holes do no harm.

    >>> corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> faces = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> solid = solid_voxels(corners, faces, 40)
    >>> solid.contains(np.array([[0.2, 0.2, 0.2], [0.5, 0.5, 0.5]])).tolist()
    [True, False]
    """
    vertices = np.asarray(vertices, np.float64)
    low, extent = vertices.min(axis=0), np.ptp(vertices, axis=0)
    spacing = (float(np.linalg.norm(extent)) or 1.0) / count
    shape = np.ceil(extent / spacing).astype(np.int64) + 1
    votes = np.zeros(shape, np.int8)
    corners = ((vertices - low) / spacing)[triangles]
    for axis in range(3):
        order = [(axis + 1) % 3, (axis + 2) % 3, axis]
        inside = _along_last_axis(corners[..., order], shape[order])
        votes += np.moveaxis(inside, [0, 1, 2], order)
    return Voxels(votes >= 2, low, spacing)


def _along_last_axis(corners: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Return the voxels (X,Y,Z) inside, by lines along the last axis; corners (M,3,3) in voxels."""
    flat = corners[..., :2] - 0.5 - _OFFSET
    first = np.maximum(np.ceil(flat.min(axis=1)), 0).astype(np.int64)
    last = np.minimum(np.floor(flat.max(axis=1)), shape[:2] - 1).astype(np.int64)
    sizes = np.maximum(last - first + 1, 0)
    total = sizes.prod(axis=1)
    triangle = np.repeat(np.arange(len(corners)), total)
    place = np.arange(len(triangle)) - np.repeat(np.cumsum(total) - total, total)
    line = first[triangle] + np.stack(
        [place // np.maximum(sizes[triangle, 1], 1), place % np.maximum(sizes[triangle, 1], 1)],
        axis=1,
    )
    a, b, c = (flat[triangle, corner] for corner in range(3))
    cross = lambda u, v: u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    area = cross(b - a, c - a)
    with np.errstate(divide="ignore", invalid="ignore"):
        v, w = cross(line - a, c - a) / area, cross(b - a, line - a) / area
        hit = (v >= 0) & (w >= 0) & (v + w <= 1)
    v, w, depth = v[hit], w[hit], corners[triangle[hit], :, 2]
    height = (1 - v - w) * depth[:, 0] + v * depth[:, 1] + w * depth[:, 2]
    above = np.clip(np.ceil(height - 0.5), 0, shape[2]).astype(np.int64)
    entered = np.zeros((*shape[:2], shape[2] + 1), np.int32)
    np.add.at(entered, (line[hit, 0], line[hit, 1], above), np.sign(area[hit]).astype(np.int32))
    return np.cumsum(entered, axis=2)[..., :-1] != 0
