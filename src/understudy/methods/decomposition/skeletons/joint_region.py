"""Where joints may be: inside the body.

The body is the union of voxels (`geometry.voxels`) and, for limbs thinner than these, of balls that
fill it (`geometry.inside.interior_balls`). Whether a point is inside, and the point inside that
costs least, then need no mesh.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from understudy.geometry.inside import interior_balls
from understudy.geometry.voxels import Voxels, solid_voxels

_VOXELS = 120  # as long as the size
_REACH = 0.9  # of a voxel: the radius of its ball; the balls of neighbours overlap
_PAIRS = 2 * 10**7  # of balls and triangles, which bounds the time of finding balls
_BALLS = 300
_SHRUNK = 0.7  # of its radius: the part of a ball that joints may be in
_OPEN = 0.01  # of the size: how far from the vertices of a mesh that encloses nothing


@dataclass(frozen=True, eq=False)
class JointRegion:
    """Voxels, and balls that cover their surface and what is thinner than they are.

    voxels   of the body
    surface  centres of the voxels at the surface; each has a ball of radius `reach`
    reach    a length
    balls    (n,3) centres of other balls
    radii    (n,)
    """

    voxels: Voxels
    surface: cKDTree
    reach: float
    balls: np.ndarray
    radii: np.ndarray

    @staticmethod
    def of(vertices: np.ndarray, triangles: np.ndarray) -> JointRegion:
        """Return the inside of a mesh (V,3), (M,3)."""
        count = int(np.clip(_PAIRS // (2 * max(1, len(triangles))), 50, _BALLS))
        voxels = solid_voxels(vertices, triangles, _VOXELS)
        balls, radii = interior_balls(vertices, triangles, count)
        thin, cubes = ~voxels.contains(balls), voxels.surface_centres()
        balls, radii = balls[thin], _SHRUNK * radii[thin]
        if not len(balls) and not len(cubes):
            size = float(np.linalg.norm(np.ptp(vertices, axis=0)))
            balls, radii = vertices, np.full(len(vertices), _OPEN * size)
        return JointRegion(voxels, cKDTree(cubes), _REACH * voxels.spacing, balls, radii)

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """Return the points (n,3), those outside moved to the nearest point inside."""
        result = points.copy()
        outside = np.flatnonzero(~self.voxels.contains(points))
        if not len(outside):
            return result
        own = points[outside]
        away, to = np.full(len(own), np.inf), own.copy()
        if self.surface.n:
            distance, number = self.surface.query(own)
            away, to = _beyond(own, self.surface.data[number], distance, self.reach)
        if len(self.balls):
            distance = np.linalg.norm(own[:, None] - self.balls, axis=2)
            best = np.argmin(distance - self.radii, axis=1)
            distance = distance[np.arange(len(own)), best]
            other, there = _beyond(own, self.balls[best], distance, self.radii[best])
            to = np.where((other < away)[:, None], there, to)
        result[outside] = to
        return result


def _beyond(
    points: np.ndarray, centres: np.ndarray, distance: np.ndarray, radius: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Return how far points (n,3) are outside balls (n,), and the nearest points of these (n,3)."""
    away = np.maximum(distance - radius, 0)
    share = away / np.maximum(distance, 1e-300)
    return away, points + share[:, None] * (centres - points)
