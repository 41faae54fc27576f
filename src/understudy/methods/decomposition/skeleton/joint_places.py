"""Joints inside the limbs that they turn.

The motion determines where a joint is across its axis of rotation, if its bones turn enough. Along
the axis, and where bones hardly turn, it leaves the place open, and the shape decides: the joint
moves to the middle of the vertices that its bones share (of the limb, if there are none: separate
shells may move on a hinge between them), or, if that is outside the body, half-way through the body
beneath the nearest point of the surface. A joint that is still outside then moves beneath the
nearest point of the surface, as little as possible.

While the motion is solved for, the body is the union of voxels and, for limbs thinner than these,
of balls that fill it (`JointRegion`). Whether a point is inside, and the point inside that costs
least, then need no mesh.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from understudy.geometry.inside import (
    Voxels,
    are_inside,
    first_hits,
    interior_balls,
    medial_points,
    solid_voxels,
    surface_points,
)
from understudy.methods.decomposition.skeleton.articulation import Articulation

_MIN_SHARED = 0.5  # sum of products of weights from which two bones share vertices: two halves
# Mean square of a rotation of about three degrees: a smaller rotation about an axis does not
# determine where the joint is along the others.
_HOLD = 2e-3
_CHORD = 0.2  # of the size: half of the longest line whose middle is looked for
_BENEATH = 0.01  # of the size: how deep beneath the surface joints outside are moved
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


def placed_joints(
    pose: Articulation, weight: np.ndarray, rest: np.ndarray, body: Body
) -> np.ndarray:
    """Return joints (B,3) moved inside the body; weight (V,B) of the vertices at rest (V,3)."""
    children = np.flatnonzero(np.arange(pose.tree.bones) != pose.tree.root)
    joints = pose.joints.copy()
    if not len(children):
        return joints
    parents = pose.tree.parents[children]
    relative = pose.rotations[:, parents] - pose.rotations[:, children]
    stiffness = np.einsum("tkij,tkil->kjl", relative, relative, optimize=True) / pose.frames
    shared = weight[:, children] * weight[:, parents]
    total = shared.sum(axis=0)[:, None]
    # Separate shells share no vertices. A hinge is then in the middle of the limb that it turns.
    mass = weight[:, children].sum(axis=0)[:, None]
    turns = (np.einsum("kii->k", stiffness) > _HOLD)[:, None] & (mass > _MIN_SHARED)
    middle = np.where(
        turns, weight[:, children].T @ rest / np.maximum(mass, _MIN_SHARED), joints[children]
    )
    middle = np.divide(shared.T @ rest, total, out=middle, where=total > _MIN_SHARED)
    middle = body.moved_inside(middle)
    found = (
        joints[children]
        + np.linalg.solve(
            stiffness + _HOLD * np.eye(3), _HOLD * (middle - joints[children])[..., None]
        )[..., 0]
    )
    joints[children] = body.just_inside(found)
    return joints
