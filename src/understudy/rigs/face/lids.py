"""Lids slide over the eyeball: skin that would sink into the ball, or into the bulge of its cornea,
is lifted out along the ball's radius.

    r' = r + s log(1 + exp((r_min - r) / s))          r the distance from the eye's centre, s a soft
                                                      edge of half a millimetre
    r_min = ball + cornea(angle to the gaze)          so a closed lid shows where the eye looks
                                                      behind it

What the formula adds at rest is taken off again, so that rest stays rest. Letters: T poses, n lid
vertices; points are (V,3,T) in the head's frame.
"""

from __future__ import annotations

import numpy as np

from understudy.rigs.face.anatomy import FaceAnatomy

SOFT = 0.05
SKIN = 0.06  # cm between the ball and the middle of the lid
CORNEA_HEIGHT, CORNEA_WIDTH = 0.14, 0.10  # cm, and in 1 - cos of the angle


class Lids:
    """The collision of both eyes' lids."""

    def __init__(self, anatomy: FaceAnatomy):
        weights = anatomy.weights.toarray()
        skin = np.zeros(len(weights), bool)
        skin[anatomy.parts["skin"]] = True
        self._eyes = []
        for side in "LR":
            lids = weights[
                :, [anatomy.joint(f"lid_upper_{side}"), anatomy.joint(f"lid_lower_{side}")]
            ].sum(axis=1)
            at = np.flatnonzero(skin & (lids > 0.05))
            centre = anatomy.joint_places[anatomy.joint(f"eye_{side}")]
            ball = float(
                np.median(
                    np.linalg.norm(anatomy.vertices[anatomy.parts[f"eye_{side}"]] - centre, axis=1)
                )
            )
            rest = anatomy.vertices[at] - centre
            away = np.linalg.norm(rest, axis=1)
            # Skin that lies deeper than the lid at rest (the sockets' rims behind it) keeps its
            # depth.
            least = np.minimum(ball + SKIN, away)
            strength = np.clip(lids[at] / 0.3, 0, 1)
            eye = (at, centre.astype(np.float32), least, strength, anatomy.joint(f"eye_{side}"))
            lifted = self._lift(rest[:, :, None], np.array([[0.0, 0.0, 1.0]]), *eye)
            self._eyes.append((eye, lifted))

    def apply(self, points: np.ndarray, head_from_joint: np.ndarray) -> None:
        """Lift the lids out of the balls, in place: points (V,3,T), head_from_joint (T,B,3,3) the
        joints' turns against the head.
        """
        for eye, at_rest in self._eyes:
            at, centre, *_, joint = eye
            gaze = head_from_joint[:, joint, :, 2]
            offset = points[at] - centre[:, None]
            lift = self._lift(offset, gaze, *eye) - at_rest
            points[at] += (
                lift[:, None]
                * offset
                / np.maximum(np.linalg.norm(offset, axis=1, keepdims=True), 1e-6)
            ).astype(np.float32)

    @staticmethod
    def _lift(offset, gaze, at, centre, least, strength, joint) -> np.ndarray:
        """(n,T) cm outward: offset (n,3,T) from the eye's centre, gaze (T,3)."""
        away = np.linalg.norm(offset, axis=1)
        facing = np.einsum("nit,ti->nt", offset, gaze, optimize=True) / np.maximum(away, 1e-6)
        wanted = least[:, None] + CORNEA_HEIGHT * np.exp(-(1.0 - facing) / CORNEA_WIDTH)
        return strength[:, None] * SOFT * np.logaddexp(0.0, (wanted - away) / SOFT)
