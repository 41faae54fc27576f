"""Lips: they stick together at the corners as the mouth opens, and never pass through each other.

Pairs of facing points, one on each lip, are found once on the closed mouth at rest. For every pair,
with g the gap beyond the one at rest:

    sticking   both points move by half of  s exp(-(|g| / reach)^2) g   towards each other, with s
               the control; reach grows towards the corner, so the mouth opens from the middle
    contact    if the lower lip is above the upper one, they are pushed apart, softly

The skin around follows with a Gaussian of its distance to the pairs, each lip its own.

Letters: V vertices, T poses, P pairs; points are (V,3,T) in the frame of the head.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse
from scipy.spatial import cKDTree

from understudy_characters.face.anatomy import UNDER_JAW, FaceAnatomy

NEAR = 0.30  # cm, the largest gap between facing points at rest
FALL_OFF = 0.45  # cm
REACH_MIDDLE, REACH_CORNER = 0.6, 2.0  # cm
SOFT = 0.04  # cm


class Lips:
    """Sticky lips and the contact between them."""

    def __init__(self, anatomy: FaceAnatomy):
        points = anatomy.vertices
        weights = anatomy.weights.toarray()
        jaw = weights[:, [anatomy.joint(name) for name in ("jaw", *UNDER_JAW)]].sum(axis=1)
        corner = anatomy.joint_positions[anatomy.joint("corner_L")]
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
        # Points that are mutually nearest face each other across the gap.
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

    def gaps(self, points: np.ndarray) -> np.ndarray:
        """(P,T) cm between the facing points, for points (V,3,T)."""
        return np.linalg.norm(points[self._lower] - points[self._upper], axis=1)

    def apply(self, points: np.ndarray, sticky_left: np.ndarray, sticky_right: np.ndarray) -> None:
        """Move the lips of points (V,3,T), in place; the controls are (T,)."""
        gap = points[self._lower] - points[self._upper] - self._gap
        apart = np.linalg.norm(gap, axis=1)
        sticky = self._left * sticky_left + (1.0 - self._left) * sticky_right
        pull = 0.5 * (sticky * np.exp(-((apart / self._reach) ** 2)))[:, None] * gap
        # How far the lower lip is above the position where it touches the upper one.
        overlap = SOFT * (np.logaddexp(0.0, gap[:, 1] / SOFT) - np.log(2.0))
        push = np.zeros_like(gap)
        push[:, 1] = (
            0.5 * np.maximum(overlap, -SOFT * np.log(2.0)) * (1 - np.exp(-((apart / 0.02) ** 2)))
        )
        pull, push = pull.astype(np.float32), push.astype(np.float32)
        moves = np.concatenate([pull + push, -pull - push])
        points += (self._spread @ moves.reshape(len(moves), -1)).reshape(points.shape)


def _falloff(points: np.ndarray, lip: np.ndarray, at: np.ndarray) -> sparse.csr_matrix:
    """(V,P): how much each vertex of a lip follows the points of the pairs, `at` (P,)."""
    share = np.exp(-np.sum((points[lip][:, None] - points[at][None]) ** 2, axis=2) / FALL_OFF**2)
    share *= share.max(axis=1, keepdims=True) / np.maximum(share.sum(axis=1, keepdims=True), 1e-12)
    share[share < 1e-3] = 0
    row, column = np.nonzero(share)
    return sparse.csr_matrix(
        (share[row, column].astype(np.float32), (lip[row], column)), shape=(len(points), len(at))
    )
