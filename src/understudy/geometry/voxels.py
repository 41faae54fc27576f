"""The inside of a triangle mesh as voxels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_OFFSET = 1e-7  # of a voxel, off the lines that edges of modelled meshes often lie on


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
    """Return the voxels (X,Y,Z) that lines along the last axis find inside.

    corners  (M,3,3) of triangles, in voxels
    """
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
