"""The animations of the face, as authored control curves.

`speech`       360 frames at 30 per second: a sentence as a sequence of mouth shapes (visemes),
               joined by monotone cubics, with blinks, glances, brows that stress words, and head
               motion
`expressions`  330 frames: joy, surprise, anger, disgust, sadness, fear, a kiss, a wink and puffed
               cheeks, each held for a moment

Both stay inside the training ranges. Letters: T frames, C controls.
"""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

from understudy.core.controls import ControlSpec
from understudy_characters.control_curves import drift

NAMES = ("speech", "expressions")
FRAME_RATE = 30.0
# A name without a side sets both; `name_L` or `name_R` sets one.
_VISEMES = {
    "rest": {},
    "M": {"press": 0.45, "roll_lower": 0.3, "roll_upper": 0.25, "mouth_compress": 0.2,
    "jaw_open": 0.5},
    "F": {"roll_lower": 0.55, "lip_upper_raise": 0.35, "jaw_open": 2.5, "corner_out": 0.15},
    "A": {"jaw_open": 15, "lip_lower_drop": 0.45, "lip_upper_raise": 0.25, "corner_out": 0.2,
    "lips_apart": 0.4, "tongue_raise": -5},
    "E": {"jaw_open": 7, "corner_out": 0.6, "corner_up": 0.2, "lip_upper_raise": 0.3,
    "lip_lower_drop": 0.3, "tongue_raise": 8},
    "I": {"jaw_open": 4, "corner_out": 0.75, "corner_up": 0.25, "lip_lower_drop": 0.35,
    "dimple": 0.2, "tongue_raise": 14},
    "O": {"jaw_open": 10, "funnel": 0.6, "pucker": 0.25, "corner_out": -0.45, "lips_evert": 0.25},
    "U": {"jaw_open": 4.5, "pucker": 0.75, "funnel": 0.35, "corner_out": -0.6,
    "lips_protrude": 0.45},
    "L": {"jaw_open": 6, "tongue_raise": 20, "tongue_curl": 14, "lip_lower_drop": 0.2,
    "lips_apart": 0.3},
    "S": {"jaw_open": 1.5, "corner_out": 0.4, "lip_lower_drop": 0.4, "lip_upper_raise": 0.2,
    "jaw_forward": 0.15},
    "W": {"jaw_open": 2.5, "pucker": 0.9, "corner_out": -0.7, "lips_protrude": 0.3},
    "R": {"jaw_open": 4, "funnel": 0.45, "lips_evert": 0.3, "tongue_curl": 18, "corner_out": -0.25},
    "TH": {"jaw_open": 3.5, "tongue_out": 0.9, "tongue_raise": 8, "lip_upper_raise": 0.2,
    "lip_lower_drop": 0.2},
}  # fmt: skip
# (seconds, mouth shape, loudness): "A small understudy learns the whole role, and one evening it
# walks on."
_SENTENCE = [
    (0.0, "rest", 1), (0.3, "A", 0.6), (0.5, "S", 1), (0.62, "M", 1), (0.8, "O", 0.9), (0.98, "L",
    1), (1.2, "A", 0.7), (1.36, "TH", 0.6), (1.5,
    "E", 1), (1.64, "R", 0.8), (1.8, "S", 1), (1.95, "TH", 0.5), (2.1, "A", 0.8), (2.24, "TH",
    0.6), (2.4, "I", 0.9), (2.62, "L", 1), (2.8, "R",
    0.9), (2.95, "S", 1), (3.1, "TH", 1), (3.2, "A", 0.4), (3.36, "O", 1), (3.6, "L", 0.9), (3.76,
    "R", 1), (3.98, "O", 1.1), (4.2, "U", 0.7),
    (4.34, "L", 0.8), (4.6, "rest", 1), (5.0, "rest", 1), (5.2, "A", 0.7), (5.36, "TH", 0.5), (5.5,
    "W", 1), (5.68, "A", 0.9), (5.86, "S", 0.7),
    (6.04, "I", 1.1), (6.22, "F", 1), (6.36, "E", 0.6), (6.52, "S", 0.6), (6.68, "I", 0.8), (6.9,
    "S", 0.9), (7.06, "I", 0.6), (7.2, "S", 1),
    (7.4, "W", 1), (7.62, "O", 1.15), (7.84, "L", 0.8), (8.0, "S", 1), (8.22, "A", 1.2), (8.5, "A",
    0.9), (8.8, "M", 1), (9.2, "rest", 1), (9.8,
    "rest", 1), (10.2, "M", 0.8), (10.4, "A", 0.4), (10.7, "M", 0.9), (11.2, "rest", 1), (12.0,
    "rest", 1),
]  # fmt: skip
_FEELINGS: list[tuple[float, dict[str, float]]] = [
    (0.0, {}),
    (0.8, {"corner_up": 0.85, "cheek_raise": 0.7, "lid_lower": 0.45, "lip_upper_raise": 0.35,
    "jaw_open": 4, "nasolabial": 0.5, "dimple": 0.2}),
    (1.5, {"corner_up": 0.95, "cheek_raise": 0.85, "lid_lower": 0.6, "lid_upper": 0.25,
    "lip_upper_raise": 0.5, "lip_lower_drop": 0.5,
        "jaw_open": 13, "nasolabial": 0.6, "head_nod": -8}),
    (2.2, {"brow_inner": 0.9, "brow_outer": 0.9, "forehead": 0.7, "lid_upper": -0.45,
    "jaw_open": 19, "lips_apart": 0.4, "funnel": 0.25,
        "scalp": 0.4}),
    (2.8, {"brow_inner": 0.8, "brow_outer": 0.7, "lid_upper": -0.35, "jaw_open": 12, "funnel": 0.4,
    "eye_up": 8}),
    (3.5, {"brow_inner": -0.9, "brow_outer": -0.3, "brow_squeeze": 0.8, "lid_upper": 0.15,
    "lid_lower": 0.5, "press": 0.7, "clench": 0.8,
        "nostril": 0.7, "corner_out": 0.2, "mouth_compress": 0.5, "head_nod": 7}),
    (4.2, {"brow_inner": -0.85, "brow_squeeze": 0.7, "sneer": 0.8, "lip_upper_raise": 0.75,
    "lip_lower_drop": 0.6, "jaw_open": 8,
        "corner_out": 0.5, "nose_wrinkle": 0.6, "nasolabial": 0.7, "platysma": 0.6, "clench": 0.3}),
    (5.0, {"sneer_L": 0.9, "sneer_R": 0.3, "lip_upper_raise_L": 0.7, "lid_lower": 0.4,
    "corner_up": -0.3, "shrug_lower": 0.4, "nose_wrinkle": 0.5,
        "head_turn": 12, "eye_out_L": 14, "eye_out_R": -14, "brow_inner": -0.4,
        "mouth_shift": 0.3}),
    (5.8, {"brow_inner": 0.75, "brow_outer": -0.4, "brow_squeeze": 0.4, "corner_up": -0.75,
    "shrug_lower": 0.6, "chin_wrinkle": 0.8,
        "lid_upper": 0.35, "eye_up": -12, "head_nod": 10, "head_tilt": 6}),
    (6.5, {"brow_inner": 0.8, "brow_squeeze": 0.6, "lid_upper": -0.4, "corner_out": 0.7,
    "lip_lower_drop": 0.5, "jaw_open": 7, "platysma": 0.8,
        "head_turn": -10, "eye_out_L": -12, "eye_out_R": 12, "nostril": 0.5}),
    (7.2, {"pucker": 0.9, "funnel": 0.3, "lips_protrude": 0.5, "corner_out": -0.6,
    "lid_upper": 0.95, "brow_inner": 0.3, "head_tilt": -7,
        "lips_evert": 0.2}),
    (7.9, {"lid_upper_L": 1.0, "cheek_raise_L": 0.8, "corner_up_L": 0.8, "corner_up_R": 0.3,
    "brow_outer_R": 0.5, "head_tilt": 5,
        "lid_lower_L": 0.6, "mouth_shift": 0.25}),
    (8.6, {"cheek_puff": 0.85, "press": 0.5, "brow_inner": 0.3, "lid_upper": -0.2,
        "roll_lower": 0.3, "roll_upper": 0.2, "eye_up": 6}),
    (9.2, {"cheek_puff_L": 0.9, "cheek_puff_R": -0.4, "mouth_shift": -0.4, "press": 0.4,
    "eye_out_L": 10, "eye_out_R": -10}),
    (9.8, {"tongue_out": 1.4, "jaw_open": 9, "corner_up": 0.4, "tongue_curl": -12,
    "lid_upper_R": 0.6, "brow_outer_L": 0.5,
        "lip_lower_drop": 0.4}),
    (10.4, {"corner_up": 0.3}),
    (11.0, {}),
]  # fmt: skip


def curves(name: str, spec: ControlSpec) -> tuple[np.ndarray, float]:
    """Control values (T,C) of an animation, and its frames per second."""
    table = {"speech": _speech, "expressions": _expressions}[name](spec)
    count = len(next(iter(table.values())))
    values = np.tile(spec.rest, (count, 1))
    for control, curve in table.items():
        values[:, spec.names.index(control)] = curve
    return np.clip(values, spec.low, spec.high), FRAME_RATE


def _keyed(
    keys: list[tuple[float, dict[str, float]]], t: np.ndarray, spec: ControlSpec
) -> dict[str, np.ndarray]:
    """Monotone cubics through the keys; a control is at rest in keys that do not name it."""
    times = np.array([time for time, _ in keys])
    spread = [_both_sides(pose, spec) for _, pose in keys]
    named = dict.fromkeys(name for pose in spread for name in pose)
    return {
        name: PchipInterpolator(times, [pose.get(name, 0.0) for pose in spread])(t)
        for name in named
    }


def _both_sides(pose: dict[str, float], spec: ControlSpec) -> dict[str, float]:
    known = set(spec.names)
    result: dict[str, float] = {}
    for name, value in pose.items():
        for control in (name,) if name in known else (f"{name}_L", f"{name}_R"):
            result[control] = value
    return result


def _blinks(t: np.ndarray, times: tuple[float, ...]) -> np.ndarray:
    """Blinks at the given times: closed within 0.08 s, open again within 0.17 s."""
    away = t[:, None] - np.array(times)
    return np.exp(-np.where(away < 0, (away / 0.05) ** 2, (away / 0.10) ** 2)).max(axis=1)


def _speech(spec: ControlSpec) -> dict[str, np.ndarray]:
    t = np.arange(360) / FRAME_RATE
    keys = [
        (time, {name: loud * value for name, value in _VISEMES[shape].items()})
        for time, shape, loud in _SENTENCE
    ]
    table = _keyed(keys, t, spec)
    add = lambda name, curve: table.__setitem__(name, table.get(name, 0.0) + curve)
    for side, seed in (("L", 0.0), ("R", 0.35)):
        stress = sum(np.exp(-(((t - at) / 0.22) ** 2)) for at in (0.8, 3.36, 6.04, 8.22))
        add(f"brow_inner_{side}", 0.45 * stress + 0.1 * drift(t, 1 + seed, 3.1))
        add(f"brow_outer_{side}", 0.35 * stress + 0.1 * drift(t, 2 + seed, 2.7))
        add(
            f"lid_upper_{side}",
            np.maximum(_blinks(t, (0.2, 2.55, 4.8, 6.9, 9.5, 11.3)), 0.06 * drift(t, 3, 2.0)),
        )
        add(f"cheek_raise_{side}", 0.15 + 0.12 * drift(t, 4 + seed, 3.7))
        add(
            f"corner_up_{side}",
            0.12 + 0.12 * drift(t, 5 + seed, 4.3) + 0.4 * np.exp(-(((t - 10.6) / 0.7) ** 2)),
        )
        add(f"sticky_{side}", 0.45 + 0.25 * drift(t, 6 + seed, 2.9))
        add(f"nostril_{side}", 0.2 * drift(t, 7 + seed, 3.3))
        add(f"eye_up_{side}", 5 * drift(t, 8, 3.4))
    glance = 9 * drift(t, 9, 4.4)
    add("eye_out_L", glance)
    add("eye_out_R", -glance)
    add("head_nod", 5 * drift(t, 10, 2.6))
    add("head_turn", 8 * drift(t, 11, 3.9))
    add("head_tilt", 4 * drift(t, 12, 3.3))
    add("jaw_side", 0.8 * drift(t, 13, 1.9))
    add("throat", 0.5 * drift(t, 14, 1.3))
    add("mouth_shift", 0.08 * drift(t, 15, 1.7))
    return table


def _expressions(spec: ControlSpec) -> dict[str, np.ndarray]:
    t = np.arange(330) / FRAME_RATE
    table = _keyed(_FEELINGS, t, spec)
    for k, name in enumerate(("head_nod", "head_turn", "head_tilt")):
        table[name] = table.get(name, 0.0) + 2.5 * drift(t, 20 + k, 2.8)
    for side, seed in (("L", 0.0), ("R", 0.3)):
        table[f"sticky_{side}"] = 0.4 + 0.3 * drift(t, 23 + seed, 3.0)
        lid = table.get(f"lid_upper_{side}", np.zeros_like(t))
        table[f"lid_upper_{side}"] = np.maximum(lid, _blinks(t, (1.85, 4.6, 6.15)))
    return table
