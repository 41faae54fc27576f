"""Lids slide over the eyeball: skin inside the ball or its cornea is lifted out along the radius.

    r' = r + s log(1 + exp((r_min - r) / s))     r the distance from the centre of the eye, s a soft
                                                 edge of half a millimetre
    r_min = ball + cornea(angle to the gaze)     a closed lid shows where the eye looks

The lift at rest is subtracted, so that the rest pose is exact.

Letters: T poses, n lid vertices; points are (V,3,T) in the frame of the head.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from understudy_characters.face.anatomy import FaceAnatomy

SOFT = 0.05  # cm
SKIN = 0.06  # cm between the ball and the middle of the lid
CORNEA_HEIGHT, CORNEA_WIDTH = 0.14, 0.10  # cm, and in 1 - cos of the angle


class _Eye(NamedTuple):
    """The lids of one eye.

    at        (n,) vertices of the lids
    centre    (3,) of the eyeball
    least     (n,) smallest distance from the centre
    strength  (n,) 0 to 1, how much a vertex belongs to the lids
    joint     of the eye
    """

    at: np.ndarray
    centre: np.ndarray
    least: np.ndarray
    strength: np.ndarray
    joint: int


class Lids:
    """The collision of the lids with both eyes."""

    def __init__(self, anatomy: FaceAnatomy):
        weights = anatomy.weights.toarray()
        skin = np.zeros(len(weights), bool)
        skin[anatomy.parts["skin"]] = True
        self._eyes: list[tuple[_Eye, np.ndarray]] = []
        for side in "LR":
            lids = weights[
                :, [anatomy.joint(f"lid_upper_{side}"), anatomy.joint(f"lid_lower_{side}")]
            ].sum(axis=1)
            at = np.flatnonzero(skin & (lids > 0.05))
            joint = anatomy.joint(f"eye_{side}")
            centre = anatomy.joint_positions[joint]
            eyeball = anatomy.vertices[anatomy.parts[f"eye_{side}"]]
            ball = float(np.median(np.linalg.norm(eyeball - centre, axis=1)))
            rest = anatomy.vertices[at] - centre
            # Skin that lies deeper than the lid at rest (the rim of the socket) keeps its depth.
            least = np.minimum(ball + SKIN, np.linalg.norm(rest, axis=1))
            strength = np.clip(lids[at] / 0.3, 0, 1)
            eye = _Eye(at, centre.astype(np.float32), least, strength, joint)
            lift = _lift(rest[:, :, None], np.array([[0.0, 0.0, 1.0]]), eye)
            self._eyes.append((eye, lift))

    def apply(self, points: np.ndarray, head_from_joint: np.ndarray) -> None:
        """Lift the lids out of the eyeballs, in place.

        points           (V,3,T)
        head_from_joint  (T,B,3,3) rotations of the joints relative to the head
        """
        for eye, at_rest in self._eyes:
            gaze = head_from_joint[:, eye.joint, :, 2]
            offset = points[eye.at] - eye.centre[:, None]
            lift = _lift(offset, gaze, eye) - at_rest
            points[eye.at] += (
                lift[:, None]
                * offset
                / np.maximum(np.linalg.norm(offset, axis=1, keepdims=True), 1e-6)
            ).astype(np.float32)


def _lift(offset: np.ndarray, gaze: np.ndarray, eye: _Eye) -> np.ndarray:
    """(n,T) cm outward, for offsets (n,3,T) from the centre of the eye and gaze (T,3)."""
    away = np.linalg.norm(offset, axis=1)
    facing = np.einsum("nit,ti->nt", offset, gaze, optimize=True) / np.maximum(away, 1e-6)
    wanted = eye.least[:, None] + CORNEA_HEIGHT * np.exp(-(1.0 - facing) / CORNEA_WIDTH)
    return eye.strength[:, None] * SOFT * np.logaddexp(0.0, (wanted - away) / SOFT)
