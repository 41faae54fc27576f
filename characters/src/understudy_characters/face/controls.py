"""The controls of the face: what an animator sets.

Most numeric controls run both ways from a neutral zero, like the sliders of production face rigs: a
mouth corner goes up into a smile and down into a frown, each with its own shape (shapes.py). Joint
controls rotate and move joints (joints.py). Numeric controls shape the skin, and some of them move
a joint too.
"""

from __future__ import annotations

import numpy as np

from understudy.core.controls import ControlSpec

# name -> (low, high, limit_low, limit_high): the training range, and the limits of the rig
_BOTH = (-1.0, 1.0, -1.5, 1.5)
_ONE = (-0.25, 1.0, -0.5, 1.4)
JOINT_CONTROLS = {
    "jaw_open": (-1.0, 24.0, -3.0, 32.0), "jaw_side": (-6.0, 6.0, -10.0, 10.0),
    "jaw_forward": (-0.4, 0.7, -0.7, 1.1),
    "head_nod": (-18.0, 18.0, -30.0, 30.0), "head_turn": (-25.0, 25.0, -45.0, 45.0),
    "head_tilt": (-14.0, 14.0, -25.0, 25.0),
    "eye_up_L": (-22.0, 18.0, -35.0, 30.0), "eye_out_L": (-28.0, 28.0, -40.0, 40.0),
    "eye_up_R": (-22.0, 18.0, -35.0, 30.0), "eye_out_R": (-28.0, 28.0, -40.0, 40.0),
    "tongue_raise": (-12.0, 25.0, -25.0, 40.0), "tongue_curl": (-20.0, 25.0, -35.0, 40.0),
    "tongue_side": (-15.0, 15.0, -30.0, 30.0),
    "tongue_out": (-0.3, 1.6, -0.6, 2.4),
}  # fmt: skip
_UNITS = {"jaw_forward": "cm", "tongue_out": "cm"}
SIDED = {
    "brow_inner": _BOTH, "brow_outer": _BOTH, "brow_squeeze": _ONE, "lid_upper": (-0.5, 1.0, -0.8,
    1.15), "lid_lower": (-0.5, 1.0, -0.8, 1.15),
    "cheek_raise": _ONE, "cheek_puff": _BOTH, "sneer": _ONE, "nostril": _BOTH, "corner_up": _BOTH,
    "corner_out": _BOTH, "corner_deep": _BOTH,
    "dimple": _ONE, "lip_upper_raise": _BOTH, "lip_lower_drop": _BOTH, "press": _ONE,
    "sticky": (0.0, 1.0, 0.0, 1.0), "platysma": _ONE,
    "lid_crease": _BOTH, "nasolabial": _ONE,
}  # fmt: skip
MIDDLE = {
    "funnel": _ONE, "pucker": _ONE, "roll_upper": _BOTH, "roll_lower": _BOTH, "shrug_upper": _ONE,
    "shrug_lower": _ONE, "mouth_close": _ONE,
    "mouth_shift": _BOTH, "mouth_twist": _BOTH, "mouth_raise": _BOTH, "lips_apart": _ONE,
    "lips_evert": _ONE, "lips_protrude": _BOTH,
    "mouth_retract": _ONE, "mouth_compress": _ONE, "chin_wrinkle": _ONE, "chin_shift": _BOTH,
    "nose_tip": _BOTH, "nose_wrinkle": _ONE,
    "forehead": _BOTH, "clench": _ONE, "throat": _BOTH, "scalp": _BOTH,
}  # fmt: skip


def control_spec() -> ControlSpec:
    """All controls: joint controls first, then the numeric ones of both sides and the middle."""
    rows = dict(JOINT_CONTROLS)
    for side in "LR":
        rows |= {f"{name}_{side}": limits for name, limits in SIDED.items()}
    rows |= MIDDLE
    low, high, limit_low, limit_high = np.array(list(rows.values())).T
    joint = np.array([name in JOINT_CONTROLS for name in rows])
    units = tuple(_UNITS.get(name, "deg") if name in JOINT_CONTROLS else "" for name in rows)
    return ControlSpec(
        tuple(rows), low, high, np.zeros(len(rows)), limit_low, limit_high, units, ~joint
    )
