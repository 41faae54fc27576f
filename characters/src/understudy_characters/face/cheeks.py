"""Cheeks keep their volume: flesh bulges as a mouth corner approaches the cheekbone.

It flattens as the corner moves away.

    e = 1 - |corner - cheekbone| / (the same at rest)          measured on the posed face
    v = v + bulge (positive(e) - 0.5 positive(-e)) + fold positive(e)^2

`bulge` points outward over the cheek; `fold` deepens the crease from nose to mouth.

Letters: T poses; points are (V,3,T) in the frame of the head.
"""

from __future__ import annotations

import numpy as np

from understudy_characters.face.surface import Surface

BULGE, FOLD = 2.2, -2.6  # cm at e = 1; a broad smile reaches e = 1/3
_ROUNDING = 0.03  # of the positive part, at zero


class Cheeks:
    """Volume of both cheeks."""

    def __init__(self, surface: Surface):
        self._sides = []
        anatomy = surface.anatomy
        for side, sign in (("L", 1.0), ("R", -1.0)):
            corner = surface.ball(anatomy.joint_positions[anatomy.joint(f"corner_{side}")], 0.7)
            bone = surface.ball((sign * 5.2, 161.5, 12.6), 0.9)
            rest = float(
                np.linalg.norm(
                    _weighted_mean(corner, surface.points[:, :, None])
                    - _weighted_mean(bone, surface.points[:, :, None])
                )
            )
            bulge = surface.outward(BULGE * surface.ball((sign * 4.4, 159.6, 13.4), 1.7), 2)
            fold = surface.outward(FOLD * surface.ball((sign * 3.0, 158.6, 14.4), 0.9), 1)
            self._sides.append(
                (corner, bone, rest, bulge.astype(np.float32), fold.astype(np.float32))
            )

    def apply(self, points: np.ndarray) -> None:
        """Add the bulges to points (V,3,T), in place."""
        before = points.copy()
        for corner, bone, rest, bulge, fold in self._sides:
            e = (
                1.0
                - np.linalg.norm(
                    _weighted_mean(corner, before) - _weighted_mean(bone, before), axis=0
                )
                / rest
            )
            positive = lambda x: 0.5 * (x + np.sqrt(x * x + _ROUNDING**2) - _ROUNDING)
            closer, further = positive(e), positive(-e)
            points += bulge[:, :, None] * (closer - 0.5 * further).astype(np.float32)
            points += fold[:, :, None] * (closer**2).astype(np.float32)


def _weighted_mean(ball: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(3,T): the mean of points (V,3,T), weighted by a ball (V,)."""
    at = np.flatnonzero(ball > 0.05)
    share = ball[at] / ball[at].sum()
    return np.einsum("v,vit->it", share, points[at], optimize=True)
