"""The animations of the human, as control curves.

`walk`  300 frames at 30 per second, on the spot, inside the training ranges. The gait curves are
        sums of periodic bumps over the phase p of each leg (0 = heel strike, the other leg half a
        cycle later), after textbook joint angles: hip a cosine, knee two bumps (loading, swing),
        ankle three. Tempo and amplitudes drift slowly at unrelated rates, so no two frames are
        equal. Face, breath and hands move independently.
`kick`  270 frames: guard, front kick, turn, roundhouse, landing, two punches, guard. Key poses
        joined by monotone cubics. At the two impacts the kicking leg stretches and some joints
        rotate beyond the training ranges, but within the limits of the rig.

Letters: T frames, C controls.
"""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

from understudy.core.controls import ControlSpec
from understudy_characters.control_curves import drift

NAMES = ("walk", "kick")
FRAME_RATE = 30.0
THIGH, SHIN, ANKLE = 42.7, 43.6, 7.2  # cm: hip to knee, knee to ankle, ankle to sole
HEEL, BALL, TOES = -5.0, 13.0, 5.5  # cm: heel and ball ahead of the ankle, toes ahead of the ball


def curves(name: str, spec: ControlSpec) -> tuple[np.ndarray, float]:
    """Control values (T,C) of an animation, and its frames per second."""
    table = {"walk": _walk, "kick": _kick}[name]()
    count = len(next(iter(table.values())))
    values = np.tile(spec.rest, (count, 1))
    for control, curve in table.items():
        values[:, spec.names.index(control)] = curve
    if name == "walk":
        values = np.clip(values, spec.low, spec.high)
    return values, FRAME_RATE


def _bump(phase: np.ndarray, centre: float, width: float) -> np.ndarray:
    """A periodic bump of height 1 over the phase 0 to 1."""
    return np.exp((np.cos(2 * np.pi * (phase - centre)) - 1) / (2 * np.pi * width) ** 2)


def _grounded(table: dict[str, np.ndarray]) -> np.ndarray:
    """Root height in cm that keeps the lowest heel, ball or toe on the ground.

    It is a soft maximum of how far each of them is below the hip.
    """
    hang = []
    lean = np.deg2rad(table["root_turn_x"])
    for side in "LR":
        hip, knee, ankle = (
            np.deg2rad(table[f"{joint}_{side}"])
            for joint in ("hip_flex", "knee_flex", "ankle_flex")
        )
        hip = hip - lean
        spread = np.cos(np.deg2rad(table[f"hip_abduct_{side}"]))
        leg = (
            (THIGH * np.cos(hip) + SHIN * np.cos(knee - hip))
            * spread
            * table[f"leg_stretch_{side}"]
        )
        pitch = hip - knee + ankle  # toes up
        heel, ball = (leg + ANKLE * np.cos(pitch) - ahead * np.sin(pitch) for ahead in (HEEL, BALL))
        hang += [heel, ball, ball - TOES * np.sin(pitch + np.deg2rad(table[f"toe_bend_{side}"]))]
    sharp = 0.8
    return (
        sharp * np.log(np.mean(np.exp((np.array(hang) - THIGH - SHIN - ANKLE) / sharp), axis=0))
        + 0.6 * sharp
    )


def _walk() -> dict[str, np.ndarray]:
    t = np.arange(300) / FRAME_RATE
    cycle = t / 1.12 + 0.06 * drift(t, 0.4, 5.0)
    stride = 1.0 + 0.12 * drift(t, 1.0, 4.0)
    table: dict[str, np.ndarray] = {}
    for side, lead, seed in (("L", 0.0, 0.0), ("R", 0.5, 1.7)):
        p = (cycle + lead) % 1.0
        swing = np.cos(2 * np.pi * p)  # leg forward
        table[f"hip_flex_{side}"] = 9 + 24 * stride * swing + 3 * drift(t, 2 + seed)
        table[f"hip_abduct_{side}"] = -3.5 + 3 * np.sin(2 * np.pi * p) + 2 * drift(t, 3 + seed)
        table[f"hip_twist_{side}"] = 4 * np.sin(2 * np.pi * p + 0.6) + 5 * drift(t, 4 + seed, 4.0)
        table[f"knee_flex_{side}"] = (
            6
            + stride * (16 * _bump(p, 0.14, 0.08) + 50 * _bump(p, 0.72, 0.11))
            + 2 * drift(t, 5 + seed)
        )
        table[f"ankle_flex_{side}"] = (
            -9 * _bump(p, 0.07, 0.05)
            + 14 * _bump(p, 0.42, 0.1)
            - 26 * stride * _bump(p, 0.62, 0.07)
            + 4 * _bump(p, 0.88, 0.08)
        )
        table[f"ankle_roll_{side}"] = 5 * np.sin(2 * np.pi * p + 1.0) + 3 * drift(t, 6 + seed)
        table[f"toe_bend_{side}"] = (
            30 * stride * _bump(p, 0.56, 0.07)
            + 10 * _bump(p, 0.95, 0.08)
            - 4
            + 5 * drift(t, 7 + seed)
        )
        table[f"toe_spread_{side}"] = 2 + 4 * _bump(p, 0.2, 0.15) + 2 * drift(t, 8 + seed)
        table[f"leg_stretch_{side}"] = (
            1.015 + 0.025 * np.sin(2 * np.pi * p + 2.4) + 0.015 * drift(t, 9 + seed)
        )
        arm = -np.cos(2 * np.pi * (p + 0.03))  # opposite to the leg of the same side
        table[f"shoulder_swing_{side}"] = 6 + 27 * stride * arm + 4 * drift(t, 10 + seed)
        table[f"shoulder_raise_{side}"] = -29 + 5 * np.abs(arm) ** 2 + 6 * drift(t, 11 + seed, 4.0)
        table[f"shoulder_twist_{side}"] = 5 + 9 * arm + 10 * drift(t, 12 + seed, 4.5)
        table[f"elbow_flex_{side}"] = (
            -9 + 22 * stride * arm + 12 * _bump(p, 0.45, 0.1) + 9 * drift(t, 13 + seed)
        )
        table[f"forearm_twist_{side}"] = -14 + 9 * arm + 16 * drift(t, 14 + seed, 4.0)
        table[f"wrist_flex_{side}"] = (
            4 + 12 * np.cos(2 * np.pi * (p - 0.1)) + 10 * drift(t, 15 + seed)
        )
        table[f"wrist_side_{side}"] = -2 + 7 * drift(t, 16 + seed, 3.3)
        table[f"clavicle_raise_{side}"] = 3 + 4 * arm + 4 * drift(t, 17 + seed, 4.0)
        table[f"clavicle_forward_{side}"] = 1 + 6 * arm + 4 * drift(t, 18 + seed)
        for k, finger in enumerate(("index", "middle", "ring", "pinky")):
            table[f"{finger}_curl_{side}"] = (
                17
                + 4 * k
                + 16 * drift(t, 19 + seed + 0.35 * k, 2.8)
                + 7 * np.cos(2 * np.pi * (p + 0.2 + 0.05 * k))
            )
        table[f"finger_spread_{side}"] = 3 + 6 * drift(t, 23 + seed)
        table[f"thumb_curl_{side}"] = 12 + 14 * drift(t, 24 + seed)
        table[f"thumb_spread_{side}"] = 3 + 9 * drift(t, 25 + seed, 3.6)
        table[f"arm_stretch_{side}"] = 1.0 + 0.02 * arm + 0.015 * drift(t, 26 + seed)
    p = cycle % 1.0
    table["waist_twist"] = 7 * stride * np.cos(2 * np.pi * (p + 0.02)) + 4 * drift(t, 30, 4.0)
    table["chest_twist"] = 7 * stride * np.cos(2 * np.pi * (p + 0.05)) + 3 * drift(t, 31)
    table["waist_side"] = 5 * np.sin(2 * np.pi * p) + 4 * drift(t, 32, 4.4)
    table["chest_side"] = -4 * np.sin(2 * np.pi * p + 0.3) + 3 * drift(t, 33)
    table["waist_bend"] = 5 + 3 * np.cos(4 * np.pi * p) + 6 * drift(t, 34, 5.0)
    table["chest_bend"] = 2 + 2 * np.cos(4 * np.pi * p + 0.5) + 5 * drift(t, 35, 4.0)
    table["root_turn_x"] = 3 + 1.5 * np.cos(4 * np.pi * p + 1.0)
    table["root_turn_y"] = -6 * np.cos(2 * np.pi * p) + 6 * drift(t, 36, 6.0)
    table["root_turn_z"] = 3 * np.sin(2 * np.pi * p)
    table["root_move_x"] = 2.5 * np.sin(2 * np.pi * p) + 3 * drift(t, 37, 6.0)
    table["root_move_z"] = -18 + 3.6 * t + 1.5 * np.cos(4 * np.pi * p)
    look = PchipInterpolator(
        [0, 1.5, 2.3, 3.6, 4.6, 6.2, 7.2, 8.4, 10], [0, 2, 30, 33, -4, -6, -36, -20, 4]
    )(t)
    table["neck_twist"] = 0.8 * look - 0.6 * table["chest_twist"]
    table["head_turn"] = 0.45 * look + 4 * drift(t, 38)
    table["neck_bend"] = 2 + 7 * drift(t, 39, 4.0)
    table["neck_side"] = 6 * drift(t, 40, 3.6)
    table["head_nod"] = 2 + 8 * drift(t, 41, 2.6)
    table["head_tilt"] = 5 * drift(t, 42, 3.2)
    table["spine_stretch"] = 1.0 + 0.012 * np.cos(4 * np.pi * p) + 0.015 * drift(t, 43)
    table["neck_stretch"] = 1.02 + 0.05 * drift(t, 44)
    table["root_move_y"] = _grounded(table)
    table["breath"] = 0.5 - 0.42 * np.cos(2 * np.pi * t / 2.9 + 0.6 * np.sin(0.9 * t))
    table["flex"] = 0.42 + 0.36 * drift(t, 45, 4.6)
    # Each expression comes and goes once or twice.
    table["jaw_open"] = 5 + 6 * np.abs(drift(t, 46, 1.4)) + 4 * drift(t, 47, 2.0)
    table["jaw_side"] = 2 * drift(t, 48)
    for k, (name, size) in enumerate(
        (
            ("smile", 0.7),
            ("frown", 0.55),
            ("pucker", 0.6),
            ("mouth_wide", 0.55),
            ("brow_raise", 0.7),
            ("brow_furrow", 0.6),
            ("squint", 0.6),
            ("snarl", 0.5),
            ("cheek_puff", 0.5),
        )
    ):
        table[name] = size * (0.5 + 0.75 * drift(t, 50 + 1.9 * k, 3.5))
    return table


_GUARD = {
    "shoulder_raise_L": -22, "shoulder_swing_L": 42, "shoulder_twist_L": 10, "elbow_flex_L": 62,
    "forearm_twist_L": -20, "clavicle_forward_L": 8,
    "shoulder_raise_R": -28, "shoulder_swing_R": 28, "shoulder_twist_R": 14, "elbow_flex_R": 78,
    "forearm_twist_R": -24, "clavicle_forward_R": 6,
    "hip_flex_L": 24, "knee_flex_L": 30, "ankle_flex_L": 6, "hip_abduct_L": 9, "hip_flex_R": 4,
    "knee_flex_R": 26, "ankle_flex_R": 12,
    "hip_abduct_R": 14, "toe_bend_R": 12, "root_turn_y": -28, "waist_bend": 8, "chest_bend": 8,
    "waist_twist": 4, "chest_twist": 6, "neck_twist":
    12, "head_turn": 8, "neck_bend": -4, "head_nod": 6, "leg_stretch_L": 1.0, "leg_stretch_R": 1.0,
    "arm_stretch_L": 1.0, "arm_stretch_R": 1.0,
    "spine_stretch": 1.0, "fist_L": 62, "fist_R": 66, "brow_furrow": 0.4, "snarl": 0.1,
    "squint": 0.3, "mouth_wide": 0.1, "jaw_open": 3, "flex":
    0.45, "breath": 0.3, "smile": 0.0, "cheek_puff": 0.0, "frown": 0.2, "pucker": 0.0,
    "brow_raise": 0.0, "root_move_z": 0, "root_turn_x": 0,
    "root_turn_z": 0, "hip_twist_L": 0, "hip_twist_R": 6, "waist_side": 0, "wrist_flex_L": 0,
    "wrist_flex_R": 0, "head_tilt": 0,
    "clavicle_raise_L": 4, "clavicle_raise_R": 4, "chest_side": 0, "neck_side": 0, "toe_bend_L": 0,
    "ankle_roll_L": 0, "neck_stretch": 1.0,
}  # fmt: skip

_KEYS: list[tuple[float, dict[str, float]]] = [
    (0.0, {"breath": 0.2}),
    (0.9, {"breath": 0.9, "waist_twist": -6, "hip_flex_L": 28, "knee_flex_L": 38,
        "cheek_puff": 0.3}),
    (1.35, {"breath": 0.7, "hip_flex_R": 72, "knee_flex_R": 100, "hip_abduct_R": 6,
    "ankle_flex_R": -10, "toe_bend_R": 20, "waist_bend": 18,
        "shoulder_swing_L": 55, "shoulder_swing_R": 8, "hip_flex_L": 10, "knee_flex_L": 20,
        "flex": 0.7, "leg_stretch_R": 0.97, "root_move_z":
        6}),
    (1.7, {"breath": 0.1, "hip_flex_R": 108, "knee_flex_R": 2, "hip_abduct_R": 4,
    "ankle_flex_R": -50, "toe_bend_R": 46, "leg_stretch_R": 1.24,
        "waist_bend": -10, "chest_bend": 16, "root_turn_x": -14, "hip_flex_L": -6,
        "knee_flex_L": 12, "ankle_flex_L": 4, "shoulder_swing_R": -34,
        "shoulder_raise_R": -10, "elbow_flex_R": 30, "shoulder_swing_L": 30, "jaw_open": 24,
        "snarl": 0.8, "mouth_wide": 0.6, "brow_furrow": 0.9,
        "flex": 0.95, "root_move_z": 14, "leg_stretch_L": 1.06, "neck_stretch": 1.08}),
    (2.0, {"breath": 0.2, "hip_flex_R": 74, "knee_flex_R": 96, "ankle_flex_R": -14,
    "toe_bend_R": 6, "leg_stretch_R": 1.02, "waist_bend": 12,
        "hip_flex_L": 8, "knee_flex_L": 18, "jaw_open": 12, "flex": 0.6, "root_move_z": 14}),
    (2.6, {"breath": 0.6, "hip_flex_R": 34, "knee_flex_R": 44, "ankle_flex_R": 10,
    "hip_flex_L": -8, "knee_flex_L": 26, "ankle_flex_L": 10,
        "root_move_z": 24, "waist_bend": 20, "chest_twist": -10, "root_turn_y": 16,
        "toe_bend_L": 26, "toe_bend_R": 0, "brow_raise": 0.5,
        "brow_furrow": 0.1}),
    (3.2, {"breath": 0.95, "root_turn_y": 92, "waist_twist": 22, "chest_twist": 20,
    "neck_twist": 36, "head_turn": 24, "hip_flex_R": 16,
        "knee_flex_R": 40, "hip_flex_L": 20, "knee_flex_L": 46, "hip_twist_L": 24,
        "hip_twist_R": -18, "shoulder_swing_L": 60, "shoulder_raise_L":
        10, "elbow_flex_L": 40, "waist_bend": 16, "root_move_z": 26, "ankle_flex_L": 14,
        "ankle_roll_L": 10, "pucker": 0.4}),
    (3.75, {"breath": 0.7, "root_turn_y": 160, "waist_twist": -14, "chest_twist": -12,
    "hip_flex_R": 66, "hip_abduct_R": 44, "knee_flex_R": 104,
        "ankle_flex_R": -30, "hip_twist_R": -24, "hip_flex_L": 6, "knee_flex_L": 20,
        "hip_abduct_L": -8, "waist_side": 18, "chest_side": 10,
        "shoulder_raise_L": 24, "shoulder_swing_L": 20, "elbow_flex_L": 34, "shoulder_raise_R": 20,
        "elbow_flex_R": 36, "leg_stretch_R": 0.98,
        "flex": 0.7, "neck_side": -12, "root_move_z": 28, "hip_twist_L": -20}),
    (4.15, {"breath": 0.05, "root_turn_y": 206, "waist_twist": -24, "chest_twist": -20,
    "hip_flex_R": 84, "hip_abduct_R": 62, "knee_flex_R": 4,
        "ankle_flex_R": -46, "hip_twist_R": -30, "leg_stretch_R": 1.27, "hip_flex_L": -12,
        "knee_flex_L": 10, "hip_abduct_L": -16, "waist_side":
        30, "chest_side": 14, "root_turn_z": 18, "shoulder_raise_L": 48, "shoulder_swing_L": -20,
        "shoulder_raise_R": 34, "shoulder_swing_R": -10,
        "elbow_flex_R": 10, "elbow_flex_L": 4, "jaw_open": 27, "snarl": 0.95, "mouth_wide": 0.8,
        "brow_furrow": 1.0, "squint": 0.5, "flex": 1.1,
        "neck_side": -18, "head_tilt": -10, "toe_bend_R": -20, "root_move_z": 26,
        "spine_stretch": 1.05, "leg_stretch_L": 1.05, "neck_twist": 30,
        "clavicle_raise_L": 18, "clavicle_raise_R": 14}),
    (4.55, {"breath": 0.2, "root_turn_y": 240, "hip_flex_R": 62, "hip_abduct_R": 36,
    "knee_flex_R": 92, "leg_stretch_R": 1.0, "waist_side": 12,
        "hip_flex_L": 6, "knee_flex_L": 24, "jaw_open": 8, "flex": 0.5, "ankle_flex_R": -16,
        "root_turn_z": 6, "shoulder_raise_R": 10,
        "elbow_flex_R": 40, "shoulder_raise_L": 20, "elbow_flex_L": 40, "neck_twist": -10}),
    (5.15, {"breath": 0.8, "root_turn_y": 300, "hip_flex_R": 70, "knee_flex_R": 88,
    "ankle_flex_R": 20, "hip_abduct_R": 22, "hip_flex_L": 76,
        "knee_flex_L": 98, "ankle_flex_L": 22, "hip_abduct_L": 20, "waist_bend": 36,
        "chest_bend": 22, "neck_bend": -20, "head_nod": -10,
        "shoulder_raise_L": -10, "shoulder_swing_L": 30, "shoulder_raise_R": 30,
        "shoulder_swing_R": -30, "elbow_flex_R": 0, "elbow_flex_L": 20,
        "fist_L": 10, "fist_R": 20, "wrist_flex_L": -40, "cheek_puff": 0.6, "frown": 0.7,
        "flex": 0.6, "leg_stretch_L": 0.96, "leg_stretch_R":
        0.96, "toe_bend_L": 24, "toe_bend_R": 20, "spine_stretch": 0.96}),
    (5.9, {"breath": 0.4, "root_turn_y": 328, "hip_flex_R": 20, "knee_flex_R": 36,
    "hip_flex_L": 30, "knee_flex_L": 40, "smile": 0.4, "frown":
        0.0}),
    (6.5, {"breath": 0.6, "root_turn_y": 332, "smile": 0.1}),
    (6.85, {"breath": 0.2, "root_turn_y": 340, "shoulder_swing_L": 74, "shoulder_raise_L": 4,
    "elbow_flex_L": -34, "forearm_twist_L": -70,
        "chest_twist": -18, "waist_twist": -12, "clavicle_forward_L": 20, "arm_stretch_L": 1.13,
        "flex": 0.9, "jaw_open": 14, "snarl": 0.5,
        "mouth_wide": 0.4, "fist_L": 76}),
    (7.15, {"breath": 0.3, "root_turn_y": 336, "flex": 0.6, "shoulder_swing_L": 50}),
    (7.5, {"breath": 0.1, "root_turn_y": 352, "shoulder_swing_R": 84, "shoulder_raise_R": 6,
    "elbow_flex_R": -38, "forearm_twist_R": -76,
        "chest_twist": 22, "waist_twist": 20, "clavicle_forward_R": 21, "arm_stretch_R": 1.17,
        "hip_twist_R": -20, "toe_bend_R": 34,
        "ankle_flex_R": -18, "flex": 1.0, "jaw_open": 20, "snarl": 0.7, "mouth_wide": 0.7,
        "brow_furrow": 0.8, "fist_R": 78}),
    (8.0, {"breath": 0.5, "root_turn_y": 334, "pucker": 0.5}),
    (8.6, {"breath": 1.0, "root_turn_y": 331, "brow_raise": 0.4, "brow_furrow": 0.1,
    "pucker": 0.6}),
    (9.2, {"breath": 0.4, "root_turn_y": 332}),
]  # fmt: skip


def _kick() -> dict[str, np.ndarray]:
    """The kick: controls that a key does not name return to the guard."""
    t = np.arange(270) / FRAME_RATE
    times = [time for time, _ in _KEYS]
    keyed = {
        name: PchipInterpolator(times, [pose.get(name, rest) for _, pose in _KEYS])(t)
        for name, rest in _GUARD.items()
    }
    table = {name: curve for name, curve in keyed.items() if not name.startswith("fist")}
    for side, seed in (("L", 0.0), ("R", 1.7)):
        for k, finger in enumerate(("index", "middle", "ring", "pinky")):
            table[f"{finger}_curl_{side}"] = (
                keyed[f"fist_{side}"] + 3 * k - 4 + 9 * drift(t, 60 + seed + 0.4 * k, 1.6)
            )
        table[f"thumb_curl_{side}"] = 8 + 0.4 * keyed[f"fist_{side}"] + 5 * drift(t, 66 + seed, 1.8)
        table[f"thumb_spread_{side}"] = -6 + 6 * drift(t, 67 + seed)
        table[f"finger_spread_{side}"] = 1 + 4 * drift(t, 68 + seed)
        table[f"wrist_side_{side}"] = 6 * drift(t, 69 + seed)
        table[f"toe_spread_{side}"] = 2 + 3 * drift(t, 70 + seed)
        for joint, size in (
            ("shoulder_raise", 3),
            ("shoulder_swing", 3),
            ("elbow_flex", 4),
            ("forearm_twist", 6),
            ("wrist_flex", 7),
            ("hip_twist", 3),
            ("clavicle_raise", 2),
        ):
            table[f"{joint}_{side}"] = table.get(f"{joint}_{side}", 0.0) + size * drift(
                t, 71 + seed + size, 1.9
            )
    for name, size in (
        ("waist_bend", 2),
        ("chest_bend", 2),
        ("chest_side", 2),
        ("neck_bend", 3),
        ("head_nod", 3),
        ("head_tilt", 3),
        ("head_turn", 3),
    ):
        table[name] = table[name] + size * drift(t, 80 + size + len(name), 1.7)
    table["jaw_side"] = 2 * drift(t, 90, 1.5)
    table["root_move_y"] = _grounded(table)
    table["root_move_z"] = table["root_move_z"] + 1.0 * drift(t, 91, 2.0)
    return table
