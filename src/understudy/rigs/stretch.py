"""Poses whose edges stretch too far: a character is never used like that, so it is not learned.

Letters: T poses, V vertices, E edges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses

LONG = 1.5  # an edge is stretched if it is so many times as long as at rest
_NEARER = (0.6, 0.35, 0.15)  # of the way from rest, tried one after the other


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges (E,2) of a mesh, and how long (E,) each is at rest."""

    pairs: np.ndarray
    length: np.ndarray

    @staticmethod
    def of(mesh: Mesh) -> Edges:
        """The edges of a mesh, without those of no length."""
        length = _lengths(mesh.vertices[None].astype(np.float32), mesh.edges)[0]
        kept = length > 1e-6 * mesh.height
        return Edges(mesh.edges[kept], length[kept])

    def stretched(self, vertices: np.ndarray) -> np.ndarray:
        """The share (T,) of the edges that are stretched in each of some poses (T,V,3)."""
        if not len(self.pairs):
            return np.zeros(len(vertices))
        return (_lengths(vertices, self.pairs) > LONG * self.length).mean(axis=1)


def nearer_to_rest(
    vertices: np.ndarray,
    bones: np.ndarray | None,
    edges: Edges,
    limit: float,
    evaluate: Callable[[np.ndarray, float], Poses],
) -> np.ndarray:
    """Replace the poses with too many stretched edges; return how far (T,) each is from rest.

    vertices  (T,V,3), and bones (T,B,3,4): changed
    limit     share of the edges that may be stretched
    evaluate  numbers of poses, and a factor -> these poses with controls at rest plus the factor
              times what they differ from rest by
    """
    factor = np.ones(len(vertices), np.float32)
    for less in _NEARER:
        bad = np.flatnonzero(edges.stretched(vertices) > limit)
        if not len(bad):
            break
        poses = evaluate(bad, less)
        factor[bad], vertices[bad] = less, poses.read_poses(0, poses.pose_count)
        if bones is not None:
            bones[bad] = poses.world_from_bone
    return factor


def _lengths(vertices: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The lengths (T,E) of the edges of some poses (T,V,3)."""
    return np.linalg.norm(vertices[:, pairs[:, 0]] - vertices[:, pairs[:, 1]], axis=2)
