"""Blend shapes of the face: MakeHuman's units and our own, each with a driver.

    d_i = sum over shapes k of  g_k(controls) field_k,i

    two-way        the positive and the negative half of a control have their own shapes; the halves
                   join smoothly at zero
    in-betweens    half a smile is not half of a full one: the skin moves along an arc over the
                   teeth, so a second field comes and goes on the way
    combinations   two to four controls together: a field times the product of their halves corrects
                   the sum of their shapes

Letters: T poses, C controls, K shapes, V vertices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from understudy_characters.face.surface import Surface

Values = Mapping[str, np.ndarray]  # control -> (T,)
Driver = Callable[[Values], np.ndarray]


class Side(NamedTuple):
    """One side of the face, in the spellings of the controls and of MakeHuman's files."""

    suffix: str
    unit: str
    expression: str
    target: str
    sign: float


SIDES = (Side("L", "Left", "left", "l", 1.0), Side("R", "Right", "right", "r", -1.0))


def positive_part(x: np.ndarray) -> np.ndarray:
    """The positive half of a control, rounded near zero and exactly 0 at rest."""
    return 0.5 * (x + np.sqrt(x * x + 0.01) - 0.1)


def negative_part(x: np.ndarray) -> np.ndarray:
    """The negative half of a control, as a positive number."""
    return positive_part(-x)


def in_between(x: np.ndarray) -> np.ndarray:
    """0 at 0 and at 1, and 1 half-way."""
    return 4.0 * x * (1.0 - x)


class Shapes:
    """All blend shapes.

    matrix  (3V,K) float32, one field per column
    """

    def __init__(self, surface: Surface):
        self._surface = surface
        self._fields: list[np.ndarray] = []
        self._drivers: list[Driver] = []
        self._unit, self._expression = surface.anatomy.unit, surface.anatomy.expression
        for side in SIDES:
            self._eye_region(side)
            self._mouth_side(side)
        self._mouth_middle()
        self._rest_of_face()
        self._close_mouth()
        for side in SIDES:
            self._combinations(side)
        self._middle_combinations()
        self.matrix = np.stack([field.reshape(-1) for field in self._fields], axis=1).astype(
            np.float32
        )

    def amounts(self, values: Values) -> np.ndarray:
        """(K,T) float32, the amount of each shape."""
        return np.stack([driver(values) for driver in self._drivers]).astype(np.float32)

    def _add(self, field: np.ndarray, driver: Driver) -> None:
        self._fields.append(field)
        self._drivers.append(driver)

    def _add_two_way(self, control: str, positive: np.ndarray, negative: np.ndarray) -> None:
        self._add(positive, lambda r: positive_part(r[control]))
        self._add(negative, lambda r: negative_part(r[control]))

    def _add_in_between(self, control: str, field: np.ndarray, size: float) -> None:
        """Add the in-between of `field`: on the way, skin is lifted by `size` of its path."""
        lift = size * np.linalg.norm(field, axis=1)
        self._add(
            self._surface.outward(lift, 3),
            lambda r: in_between(np.clip(positive_part(r[control]), 0, 1.4)),
        )

    def _eye_region(self, side: Side) -> None:
        surface, unit, s, sign = self._surface, self._unit, side.suffix, side.sign
        inner = surface.half(unit("browInnerUp"), s)
        self._add_two_way(f"brow_inner_{s}", 1.2 * inner, 0.9 * unit(f"browDown{side.unit}"))
        self._add_two_way(
            f"brow_outer_{s}",
            unit(f"browOuterUp{side.unit}"),
            0.8 * self._expression(f"eyebrows-{side.expression}-down"),
        )
        self._add_in_between(f"brow_outer_{s}", unit(f"browOuterUp{side.unit}"), 0.25)
        glabella = surface.ball((sign * 1.6, 166.0, 15.6), 1.5)
        self._add(
            0.35 * glabella[:, None] * np.array([-sign, -0.2, 0.25]),
            lambda r: r[f"brow_squeeze_{s}"],
        )
        # Lids rotate with their joints (joints.py); the shapes move the skin around the eye.
        self._add(0.6 * unit(f"eyeSquint{side.unit}"), lambda r: positive_part(r[f"lid_lower_{s}"]))
        self._add(
            surface.half(0.5 * unit(f"eyeWide{side.unit}"), s),
            lambda r: negative_part(r[f"lid_upper_{s}"]),
        )
        fold = surface.ball((sign * 3.2, 165.2, 15.0), 1.0)
        self._add(
            surface.along(0.22 * fold, (0, -1, 0)) - surface.outward(0.10 * fold, 1),
            lambda r: r[f"lid_crease_{s}"],
        )
        self._add(
            surface.outward(0.12 * fold, 1),
            lambda r: in_between(np.clip(r[f"lid_upper_{s}"], 0, 1)),
        )
        self._add(unit(f"cheekSquint{side.unit}"), lambda r: r[f"cheek_raise_{s}"])
        self._add_in_between(f"cheek_raise_{s}", unit(f"cheekSquint{side.unit}"), 0.3)

    def _mouth_side(self, side: Side) -> None:
        surface, unit, s, sign = self._surface, self._unit, side.suffix, side.sign
        target = surface.anatomy.target
        smile = unit(f"mouthSmile{side.unit}")
        self._add_two_way(f"corner_up_{s}", smile, 1.1 * unit(f"mouthFrown{side.unit}"))
        self._add_in_between(f"corner_up_{s}", smile, 0.22)
        narrow = surface.half(self._expression("mouth-pursing"), s)
        self._add_two_way(f"corner_out_{s}", unit(f"mouthStretch{side.unit}"), 0.45 * narrow)
        self._add_in_between(f"corner_out_{s}", unit(f"mouthStretch{side.unit}"), 0.2)
        corner = surface.ball((sign * 2.6, 156.8, 14.3), 1.2)
        self._add(
            0.3 * corner[:, None] * np.array([0.1 * sign, 0.0, -1.0]),
            lambda r: r[f"corner_deep_{s}"],
        )
        self._add(unit(f"mouthDimple{side.unit}"), lambda r: r[f"dimple_{s}"])
        self._add_two_way(
            f"lip_upper_raise_{s}",
            unit(f"mouthUpperUp{side.unit}"),
            -0.35 * unit(f"mouthUpperUp{side.unit}"),
        )
        self._add_two_way(
            f"lip_lower_drop_{s}",
            unit(f"mouthLowerDown{side.unit}"),
            -0.4 * unit(f"mouthLowerDown{side.unit}"),
        )
        self._add(0.8 * unit(f"mouthPress{side.unit}"), lambda r: r[f"press_{s}"])
        self._add_two_way(
            f"cheek_puff_{s}",
            surface.half(unit("cheekPuff"), s),
            0.9 * target(f"cheek/{side.target}-cheek-volume-decr"),
        )
        self._add_in_between(f"cheek_puff_{s}", surface.half(unit("cheekPuff"), s), 0.15)
        self._add(1.1 * unit(f"noseSneer{side.unit}"), lambda r: r[f"sneer_{s}"])
        flare = self._expression(f"nose-{side.expression}-dilatation")
        self._add_two_way(f"nostril_{s}", 2.0 * flare, -1.2 * flare)
        crease = surface.ball((sign * 2.9, 159.0, 14.4), 1.1)
        self._add(
            surface.outward(-0.25 * crease, 1) + surface.along(0.15 * crease, (0, 1, 0)),
            lambda r: r[f"nasolabial_{s}"],
        )
        self._add(surface.half(self._expression("neck-platysma"), s), lambda r: r[f"platysma_{s}"])

    def _mouth_middle(self) -> None:
        unit, expression = self._unit, self._expression
        surface = self._surface
        self._add(unit("mouthFunnel"), lambda r: r["funnel"])
        self._add_in_between("funnel", unit("mouthFunnel"), -0.2)
        self._add(unit("mouthPucker"), lambda r: r["pucker"])
        self._add_in_between("pucker", unit("mouthPucker"), 0.25)
        self._add_two_way(
            "roll_upper", 0.8 * unit("mouthRollUpper"), -0.45 * unit("mouthRollUpper")
        )
        self._add_two_way(
            "roll_lower", 0.8 * unit("mouthRollLower"), -0.45 * unit("mouthRollLower")
        )
        self._add(unit("mouthShrugUpper"), lambda r: r["shrug_upper"])
        self._add(unit("mouthShrugLower"), lambda r: r["shrug_lower"])
        self._add_two_way("mouth_shift", 0.9 * unit("mouthLeft"), 0.9 * unit("mouthRight"))
        mouth = surface.ball((0.0, 156.8, 15.0), 2.6)
        spin = np.cross([0.0, 0.0, 1.0], surface.points - [0.0, 156.8, 15.0])
        self._add(0.14 * mouth[:, None] * spin, lambda r: r["mouth_twist"])
        self._add_two_way(
            "mouth_raise", 0.8 * expression("mouth-elevation"), 0.7 * expression("mouth-depression")
        )
        self._add(expression("mouth-parling"), lambda r: r["lips_apart"])
        self._add(expression("mouth-eversion"), lambda r: r["lips_evert"])
        forward = surface.ball((0.0, 156.8, 15.6), 2.0)
        self._add_two_way(
            "lips_protrude",
            0.45 * forward[:, None] * np.array([0, 0, 1.0]),
            0.35 * forward[:, None] * np.array([0, 0, -1.0]),
        )
        self._add(0.8 * expression("mouth-retraction"), lambda r: r["mouth_retract"])
        self._add(0.7 * expression("mouth-compression"), lambda r: r["mouth_compress"])

    def _rest_of_face(self) -> None:
        surface = self._surface
        chin = surface.ball((0.0, 153.2, 15.0), 1.8)
        folds = chin * np.cos(2 * np.pi * (surface.points[:, 1] - 153.2) / 1.1)
        self._add(
            surface.outward(0.10 * folds, 1) + surface.along(0.25 * chin, (0, 1, 0)),
            lambda r: r["chin_wrinkle"],
        )
        self._add(0.35 * chin[:, None] * np.array([1.0, 0.0, 0.0]), lambda r: r["chin_shift"])
        tip = surface.ball((0.0, 159.9, 17.4), 1.4)
        self._add_two_way(
            "nose_tip",
            0.25 * tip[:, None] * np.array([0, 1.0, 0.1]),
            0.7 * self._expression("nose-depression"),
        )
        bridge = surface.ball((0.0, 163.6, 15.8), 1.3)
        self._add(
            surface.outward(0.09 * bridge * np.cos(2 * np.pi * surface.points[:, 1] / 0.9), 0),
            lambda r: r["nose_wrinkle"],
        )
        brow = surface.ball((0.0, 169.0, 14.0), 4.0)
        waves = brow * np.cos(2 * np.pi * (surface.points[:, 1] - 169.0) / 1.8)
        self._add_two_way(
            "forehead",
            surface.outward(0.10 * waves, 1) + surface.along(0.4 * brow, (0, 1, 0)),
            surface.along(0.35 * brow, (0, -1, 0)),
        )
        for sign in (1.0, -1.0):
            self._add(
                surface.outward(0.45 * surface.ball((sign * 6.2, 156.5, 8.5), 2.2), 2),
                lambda r: r["clench"],
            )
            self._add(
                surface.outward(0.2 * surface.ball((sign * 6.9, 166.5, 9.5), 2.2), 2),
                lambda r: r["clench"] ** 2,
            )
        throat = surface.ball((0.0, 152.0, 9.0), 2.5)
        self._add_two_way(
            "throat", surface.outward(0.5 * throat, 2), surface.along(0.5 * throat, (0, 1, 0))
        )
        crown = surface.skin * np.clip((surface.points[:, 1] - 167.0) / 6.0, 0, 1)
        self._add_two_way(
            "scalp",
            surface.along(0.5 * crown, (0, 0.3, -1)),
            surface.along(0.4 * crown, (0, -0.3, 1)),
        )

    def _close_mouth(self) -> None:
        # MakeHuman's correction that closes the lips over an open jaw, as far as the jaw is open.
        self._add(
            self._unit("mouthClose"),
            lambda r: r["mouth_close"] * np.minimum(_opened(r), 1.0) ** 1.2,
        )

    def _combinations(self, side: Side) -> None:
        surface, unit, s, sign = self._surface, self._unit, side.suffix, side.sign
        smile, sneer, raised = (
            unit(f"mouthSmile{side.unit}"),
            unit(f"noseSneer{side.unit}"),
            unit(f"cheekSquint{side.unit}"),
        )
        self._add(
            0.35 * unit(f"mouthStretch{side.unit}") + 0.2 * smile,
            lambda r: positive_part(r[f"corner_up_{s}"]) * _opened(r),
        )
        self._add(
            -0.45 * smile, lambda r: positive_part(r[f"corner_up_{s}"]) * positive_part(r["pucker"])
        )
        self._add(
            -0.35 * smile,
            lambda r: positive_part(r[f"corner_up_{s}"]) * positive_part(r[f"cheek_puff_{s}"]),
        )
        self._add(
            0.4 * raised,
            lambda r: (
                positive_part(r[f"corner_up_{s}"])
                * positive_part(r[f"sneer_{s}"])
                * positive_part(r[f"cheek_raise_{s}"])
            ),
        )
        self._add(
            0.4 * unit(f"browDown{side.unit}"),
            lambda r: positive_part(r[f"sneer_{s}"]) * negative_part(r[f"brow_inner_{s}"]),
        )
        self._add(
            -0.4 * surface.half(unit("browInnerUp"), s),
            lambda r: (
                positive_part(r[f"brow_inner_{s}"])
                * positive_part(r[f"brow_outer_{s}"])
                * positive_part(r[f"brow_squeeze_{s}"])
            ),
        )
        hollow = surface.outward(-0.7 * surface.ball((sign * 5.2, 157.6, 12.0), 2.0), 2)
        self._add(
            hollow,
            lambda r: (
                _opened(r)
                * (0.4 + positive_part(r["pucker"]) + negative_part(r[f"cheek_puff_{s}"]))
            ),
        )
        self._add(
            0.5 * unit(f"mouthPress{side.unit}"),
            lambda r: (
                positive_part(r[f"press_{s}"])
                * positive_part(r["roll_lower"])
                * positive_part(r["roll_upper"])
            ),
        )
        self._add(
            0.5 * sneer,
            lambda r: positive_part(r[f"sneer_{s}"]) * positive_part(r[f"lip_upper_raise_{s}"]),
        )
        self._add(
            0.6 * unit(f"mouthLowerDown{side.unit}") + 0.4 * raised,
            lambda r: (
                positive_part(r[f"corner_up_{s}"])
                * positive_part(r[f"lip_upper_raise_{s}"])
                * positive_part(r[f"lip_lower_drop_{s}"])
                * _opened(r)
            ),
        )

    def _middle_combinations(self) -> None:
        unit, expression = self._unit, self._expression
        self._add(
            -0.5 * unit("mouthPucker") + 0.3 * expression("mouth-eversion"),
            lambda r: positive_part(r["funnel"]) * positive_part(r["pucker"]),
        )
        self._add(0.6 * unit("mouthFunnel"), lambda r: positive_part(r["funnel"]) * _opened(r))
        self._add(
            -0.4 * unit("mouthShrugLower"), lambda r: positive_part(r["shrug_lower"]) * _opened(r)
        )
        self._add(
            0.5 * expression("mouth-protusion"),
            lambda r: (
                positive_part(r["funnel"])
                * positive_part(r["pucker"])
                * positive_part(r["lips_evert"])
                * _opened(r)
            ),
        )


def _opened(values: Values) -> np.ndarray:
    """(T,) how far the jaw is open: 1 at its full training range."""
    return np.clip(values["jaw_open"] / 24.0, 0.0, 1.4)
