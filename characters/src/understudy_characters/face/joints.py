"""From controls to joints: jaw, eyes, lids that follow the gaze, tongue, and small shifts.

    jaw     rotates about its hinge; the hinge slides forward and down along the slope of the joint
            as the mouth opens, so the chin does not move along a circle
    lids    rotate about the centre of the eyeball, so their edge slides over the ball. The upper
            lid follows an eye that looks down. It closes with an in-between: slow, then fast
    others  brows, nostrils, cheeks, corners and lips shift by a few millimetres with numeric
            controls

All joints are aligned with the world at rest, so an angle means the same on both sides up to its
sign.

Letters: T poses, C controls, B joints.
"""

from __future__ import annotations

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.skeleton import Skeleton
from understudy.geometry.transforms import rotation_from_axis_angle
from understudy_characters.face.anatomy import FaceAnatomy

LID_CLOSED = 30.0  # degrees from the open upper lid to the lower one
LID_LOWER_UP = 9.0  # degrees
CONDYLE = np.array([0.0, -0.35, 0.55])  # cm that the hinge slides when fully open
FULL_OPEN = 24.0  # degrees
# joint -> control -> (x, y, z) cm at control value 1, for the left or the middle
_SHIFTS = {
    "brow": {
        "brow_inner": (-0.02, 0.22, 0.02),
        "brow_outer": (0.03, 0.18, -0.04),
        "brow_squeeze": (-0.18, -0.05, 0.05),
    },
    "nostril": {"sneer": (0.03, 0.10, -0.02), "nostril": (0.06, 0.02, 0.0)},
    "cheek": {"cheek_raise": (0.0, 0.25, 0.06), "cheek_puff": (0.15, 0.0, 0.12)},
    "corner": {
        "corner_up": (0.06, 0.16, -0.08),
        "corner_out": (0.18, 0.0, -0.10),
        "corner_deep": (0.0, 0.0, -0.20),
    },
    "lip_upper": {
        "mouth_raise": (0.0, 0.15, 0.0),
        "mouth_shift": (0.25, 0.0, -0.03),
        "lips_protrude": (0.0, 0.0, 0.25),
    },
    "lip_lower": {
        "mouth_raise": (0.0, 0.15, 0.0),
        "mouth_shift": (0.22, 0.0, -0.03),
        "lips_protrude": (0.0, -0.03, 0.25),
    },
}


class Joints:
    """The skeleton of the face, and its pose for control values."""

    def __init__(self, anatomy: FaceAnatomy, spec: ControlSpec):
        rest = np.tile(np.eye(3, 4), (len(anatomy.joint_names), 1, 1))
        rest[:, :, 3] = anatomy.joint_positions
        self.skeleton = Skeleton(anatomy.joint_names, anatomy.joint_parents, rest)
        self._column = {name: c for c, name in enumerate(spec.names)}
        self._index = {name: b for b, name in enumerate(anatomy.joint_names)}
        self._shift = np.zeros((3 * len(rest), spec.count))
        for group, table in _SHIFTS.items():
            for suffix, mirror in (
                (("", 1.0),) if group in self._index else (("_L", 1.0), ("_R", -1.0))
            ):
                for control, (x, y, z) in table.items():
                    at = 3 * self._index[group + suffix]
                    self._shift[at : at + 3, self._column[control + suffix]] = (mirror * x, y, z)

    def pose(self, values: np.ndarray) -> np.ndarray:
        """world_from_bone (T,B,3,4) float64 at control values (T,C)."""
        count, joints = len(values), len(self._index)
        angles = np.zeros((count, joints, 3))
        shift = (values @ self._shift.T).reshape(count, joints, 3)
        read = lambda name: values[:, self._column[name]]
        put = lambda joint, axis, degrees: angles.__setitem__(
            (slice(None), self._index[joint], axis), np.deg2rad(degrees)
        )
        put("head", 0, read("head_nod"))
        put("head", 1, read("head_turn"))
        put("head", 2, read("head_tilt"))
        put("jaw", 0, read("jaw_open"))
        put("jaw", 1, 0.8 * read("jaw_side"))
        put("jaw", 2, 0.5 * read("jaw_side"))
        opened = read("jaw_open") / FULL_OPEN
        slide = np.tanh(1.6 * opened)[:, None] * CONDYLE
        slide[:, 0] += 0.09 * read("jaw_side")
        # A wide open jaw has less way left to go.
        slide[:, 2] += read("jaw_forward") * (1.0 - 0.25 * opened)
        slide[:, 1] -= 0.12 * read("jaw_forward") ** 2
        shift[:, self._index["jaw"]] += slide
        for side, sign in (("L", 1.0), ("R", -1.0)):
            up, out = read(f"eye_up_{side}"), read(f"eye_out_{side}")
            put(f"eye_{side}", 0, -up)
            put(f"eye_{side}", 1, sign * out)
            close, squint = read(f"lid_upper_{side}"), read(f"lid_lower_{side}")
            # The lid follows the eye while open, and less the further it is closed.
            follow = 0.55 * up * (1.0 - 0.8 * np.clip(close, 0.0, 1.0))
            put(f"lid_upper_{side}", 0, LID_CLOSED * _eased(close) - follow)
            put(
                f"lid_lower_{side}",
                0,
                -LID_LOWER_UP * squint - 0.25 * np.minimum(up, 0.0) - 0.12 * up,
            )
            put(f"lid_upper_{side}", 1, sign * 0.06 * out)
            put(f"lid_lower_{side}", 1, sign * 0.05 * out)
        for number, share in ((1, 0.2), (2, 0.35), (3, 0.7), (4, 1.0)):
            # The tongue lies down in an opening mouth.
            lie_down = 0.3 * read("jaw_open") if number < 3 else 0.0
            put(
                f"tongue_{number}",
                0,
                lie_down
                - share * read("tongue_raise") * (1.2 if number < 3 else 0.4)
                - share**2 * read("tongue_curl"),
            )
            put(f"tongue_{number}", 1, share * read("tongue_side"))
            shift[:, self._index[f"tongue_{number}"], 2] += 0.3 * read("tongue_out")
        return self._chain(angles, shift)

    def _chain(self, angles: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """world_from_bone (T,B,3,4) from local rotation vectors and shifts, (T,B,3) each."""
        rotation = rotation_from_axis_angle(angles)
        world = np.empty((*angles.shape[:2], 3, 4))
        heads, parents = self.skeleton.world_from_bone[:, :, 3], self.skeleton.parents
        world[:, 0, :, :3], world[:, 0, :, 3] = rotation[:, 0], heads[0] + shift[:, 0]
        for b in range(1, len(parents)):
            p = parents[b]
            world[:, b, :, :3] = world[:, p, :, :3] @ rotation[:, b]
            offset = heads[b] - heads[p] + shift[:, b]
            world[:, b, :, 3] = world[:, p, :, 3] + np.einsum(
                "tij,tj->ti", world[:, p, :, :3], offset
            )
        return world


def _eased(x: np.ndarray) -> np.ndarray:
    """The in-between of a closing lid: 0 at 0, 1 at 1, slow at first; linear below zero."""
    return np.where(x > 0, x * (0.55 + 0.45 * x), 0.55 * x)
