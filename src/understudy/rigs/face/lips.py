"""Lips: they stick together at the corners as the mouth opens, and they never pass through each
other.

Pairs of facing points, one on each lip, are found once on the closed rest mouth. For every pair,
with g the gap beyond the one at rest:

    sticking   both come together by half of  s exp(-(|g| / reach)^2) g         s the control; reach
               grows towards the corner, so the mouth unzips
                                                                               from the middle
    contact    where the lower lip would stand above the upper one they are pushed apart along the
               head's up axis, softly

The skin around follows with a Gaussian of its distance to the pairs, each lip its own. Letters: T
poses, P pairs; points are (V,3,T).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
from scipy.spatial import cKDTree

from understudy.rigs.face.anatomy import UNDER_JAW, FaceAnatomy

NEAR = 0.30  # cm: facing points are nearer than this at rest
FALL_OFF = 0.45  # cm
REACH_MIDDLE, REACH_CORNER = 0.6, 2.0
SOFT = 0.04


class Lips:
    """Sticky lips and their contact."""

    def __init__(self, anatomy: FaceAnatomy):
        points = anatomy.vertices
        weights = anatomy.weights.toarray()
        jaw = weights[:, [anatomy.joint(name) for name in ("jaw", *UNDER_JAW)]].sum(axis=1)
        corner = anatomy.joint_places[anatomy.joint("corner_L")]
        mouth = np.zeros(len(points), bool)
        mouth[anatomy.parts["skin"]] = True
        mouth &= (
            (np.abs(points[:, 0]) < corner[0])
            & (np.abs(points[:, 1] - corner[1]) < 2.0)
            & (points[:, 2] > corner[2] - 1.0)
        )
        lower, upper = np.flatnonzero(mouth & (jaw > 0.45)), np.flatnonzero(mouth & (jaw <= 0.45))
        to_lower, which = cKDTree(points[lower]).query(points[upper])
        back = cKDTree(points[upper]).query(points[lower])[1]
        # Mutual nearest points that face each other across the gap; the mouth's inside and its
        # corners' skin do not.
        pairs = np.flatnonzero((to_lower < NEAR) & (back[which] == np.arange(len(upper))))
        self._upper, self._lower = upper[pairs], lower[which[pairs]]
        self._gap = (points[self._lower] - points[self._upper])[:, :, None].astype(np.float32)
        along = np.clip(np.abs(points[self._upper, 0]) / np.abs(points[self._upper, 0]).max(), 0, 1)
        self._reach = (REACH_MIDDLE + (REACH_CORNER - REACH_MIDDLE) * along**2)[:, None].astype(
            np.float32
        )
        self._left = (0.5 + 0.5 * np.tanh(points[self._upper, 0] / 0.4))[:, None]
        self._spread = sparse.hstack(
            [_falloff(points, lip, at) for lip, at in ((upper, self._upper), (lower, self._lower))]
        ).tocsr()

    @property
    def pair_count(self) -> int:
        return len(self._upper)

    def gaps(self, points: np.ndarray) -> np.ndarray:
        """(P,T) cm: how far the facing points of points (V,3,T) are apart."""
        return np.linalg.norm(points[self._lower] - points[self._upper], axis=1)

    def apply(self, points: np.ndarray, sticky_left: np.ndarray, sticky_right: np.ndarray) -> None:
        """Move the lips in place: points (V,3,T), controls (T,)."""
        gap = points[self._lower] - points[self._upper] - self._gap
        apart = np.linalg.norm(gap, axis=1)
        sticky = self._left * sticky_left + (1.0 - self._left) * sticky_right
        pull = 0.5 * (sticky * np.exp(-((apart / self._reach) ** 2)))[:, None] * gap
        overlap = SOFT * (
            np.logaddexp(0.0, gap[:, 1] / SOFT) - np.log(2.0)
        )  # how far the lower lip is above where it touches
        push = np.zeros_like(gap)
        push[:, 1] = (
            0.5 * np.maximum(overlap, -SOFT * np.log(2.0)) * (1 - np.exp(-((apart / 0.02) ** 2)))
        )
        pull, push = pull.astype(np.float32), push.astype(np.float32)
        moves = np.concatenate([pull + push, -pull - push])
        points += (self._spread @ moves.reshape(len(moves), -1)).reshape(points.shape)


def _falloff(points: np.ndarray, lip: np.ndarray, at: np.ndarray) -> sparse.csr_matrix:
    """(V,P): how much each vertex of a lip follows the pairs' points on it; at a pair's own point
    nearly all.
    """
    share = np.exp(-np.sum((points[lip][:, None] - points[at][None]) ** 2, axis=2) / FALL_OFF**2)
    share *= share.max(axis=1, keepdims=True) / np.maximum(share.sum(axis=1, keepdims=True), 1e-12)
    share[share < 1e-3] = 0
    row, column = np.nonzero(share)
    return sparse.csr_matrix(
        (share[row, column].astype(np.float32), (lip[row], column)), shape=(len(points), len(at))
    )
