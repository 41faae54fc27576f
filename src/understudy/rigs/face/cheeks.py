"""Cheeks keep their volume: as a mouth corner comes nearer to the cheekbone the flesh between them
bulges, and as it is drawn away it flattens.

    e = 1 - |corner - cheekbone| / (the same at rest)         measured on the posed face, whatever
    moved the corner v = v + bulge (up(e) - 0.5 down(e)) + fold up(e)^2        bulge: outward over
    the cheek; fold: the crease from nose to mouth deepens

Letters: T poses; points are (V,3,T) in the head's frame.
"""

from __future__ import annotations

import numpy as np

from understudy.rigs.face.surface import Surface

BULGE, FOLD = 2.2, -2.6  # cm at e = 1; a broad smile reaches a third of that
_ROUND = 0.03


class Cheeks:
    """Volume of both cheeks."""

    def __init__(self, surface: Surface):
        self._sides = []
        anatomy = surface.anatomy
        for side, sign in (("L", 1.0), ("R", -1.0)):
            corner = surface.ball(anatomy.joint_places[anatomy.joint(f"corner_{side}")], 0.7)
            bone = surface.ball((sign * 5.2, 161.5, 12.6), 0.9)
            rest = float(
                np.linalg.norm(
                    _place(corner, surface.points[:, :, None])
                    - _place(bone, surface.points[:, :, None])
                )
            )
            bulge = surface.outward(BULGE * surface.ball((sign * 4.4, 159.6, 13.4), 1.7), 2)
            fold = surface.outward(FOLD * surface.ball((sign * 3.0, 158.6, 14.4), 0.9), 1)
            self._sides.append(
                (corner, bone, rest, bulge.astype(np.float32), fold.astype(np.float32))
            )

    def apply(self, points: np.ndarray) -> None:
        """Bulge in place."""
        before = points.copy()
        for corner, bone, rest, bulge, fold in self._sides:
            e = 1.0 - np.linalg.norm(_place(corner, before) - _place(bone, before), axis=0) / rest
            smooth = lambda x: 0.5 * (x + np.sqrt(x * x + _ROUND**2) - _ROUND)
            closer, further = smooth(e), smooth(-e)
            points += bulge[:, :, None] * (closer - 0.5 * further).astype(np.float32)
            points += fold[:, :, None] * (closer**2).astype(np.float32)


def _place(ball: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(3,T): the mean of points (V,3,T) under a ball (V,)."""
    at = np.flatnonzero(ball > 0.05)
    share = ball[at] / ball[at].sum()
    return np.einsum("v,vit->it", share, points[at], optimize=True)
