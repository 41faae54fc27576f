"""The body that joints are to be inside of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from understudy.geometry.inside import are_inside, first_hits, medial_points, surface_points

_CHORD = 0.2  # of the size: half of the longest line whose middle is looked for
_BENEATH = 0.01  # of the size: how deep beneath the surface joints outside are moved


@dataclass(frozen=True, eq=False)
class Body:
    """The rest shape that joints are to be inside of: vertices (V,3), triangles (M,3)."""

    vertices: np.ndarray
    triangles: np.ndarray

    @property
    def size(self) -> float:
        """The diagonal of its bounding box."""
        return float(np.linalg.norm(np.ptp(self.vertices, axis=0)))

    def middle(self, axis: int) -> float:
        """Return the middle of the body along an axis, where its plane of symmetry would be."""
        along = self.vertices[:, axis]
        return float(along.min() + along.max()) / 2

    def mirrored(self, points: np.ndarray, axis: int) -> np.ndarray:
        """Return points (n,3) mirrored along an axis in the middle of the body."""
        result = points.copy()
        result[..., axis] = 2 * self.middle(axis) - result[..., axis]
        return result

    def asymmetry(self, axis: int) -> float:
        """Return how far mirrored vertices are from others on average, as a share of the size."""
        away = cKDTree(self.vertices).query(self.mirrored(self.vertices, axis))[0]
        return float(away.mean()) / max(self.size, 1e-300)

    def vertex_areas(self) -> np.ndarray:
        """Return a third of the area of the triangles at each vertex (V,); without any, ones."""
        if not len(self.triangles):
            return np.ones(len(self.vertices))
        a, b, c = (self.vertices[self.triangles[:, corner]] for corner in range(3))
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 6
        return np.bincount(self.triangles.reshape(-1), np.repeat(area, 3), len(self.vertices))

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Return which points (n,3) are inside, (n,) bool; without triangles, all."""
        if not len(self.triangles):
            return np.ones(len(points), bool)
        return are_inside(points, self.vertices, self.triangles)

    def chord_middles(self, points: np.ndarray, directions: np.ndarray) -> np.ndarray:
        """Return the middles (n,3) of the lines through points (n,3) inside the body.

        directions  (n,3) of the lines, unit vectors

        A line ends where it leaves the body, or after a fifth of the size. Points outside stay.
        """
        result, inside = points.copy(), np.flatnonzero(self.contains(points))
        if not len(inside) or not len(self.triangles):
            return result
        corners, along = self.vertices[self.triangles], directions[inside]
        forth, back = (
            np.minimum(first_hits(points[inside], sign * along, corners), _CHORD * self.size)
            for sign in (1, -1)
        )
        result[inside] += (forth - back)[:, None] / 2 * along
        return result

    def moved_inside(self, points: np.ndarray) -> np.ndarray:
        """Return the points (n,3), those outside moved to the middle of the body nearby."""
        result = points.copy()
        outside = np.flatnonzero(~self.contains(points))
        if len(outside):
            result[outside] = medial_points(points[outside], self.vertices, self.triangles)
        return result

    def just_inside(self, points: np.ndarray) -> np.ndarray:
        """Return the points (n,3), those outside moved beneath the nearest point of the surface."""
        result = points.copy()
        outside = np.flatnonzero(~self.contains(points))
        if len(outside):
            middle = medial_points(points[outside], self.vertices, self.triangles)
            surface = surface_points(points[outside], self.vertices, self.triangles)
            depth = np.linalg.norm(middle - surface, axis=1, keepdims=True)
            share = np.minimum(1.0, _BENEATH * self.size / np.maximum(depth, 1e-300))
            result[outside] = surface + share * (middle - surface)
        return result
