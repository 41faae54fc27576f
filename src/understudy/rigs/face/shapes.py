"""Shapes of the face: MakeHuman's units and a few of our own, each times a number that its controls
make, not always in a straight line.

    d_i = sum over shapes k of  g_k(controls) field_k,i

    both ways      a control's positive and its negative half have shapes of their own; the halves
                   join smoothly at zero
    in-betweens    half a smile is not half of a whole one: the skin runs along an arc over the
                   teeth, so a second field comes and goes on the way
    combinations   two to four controls together: what their sum gets wrong is put right by a field
                   times the product of their halves

Letters: T poses, C controls, K shapes, V vertices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from understudy.rigs.face.surface import Surface

Read = Mapping[str, np.ndarray]  # control -> (T,)
SIDES = (("L", "Left", "left", "l", 1.0), ("R", "Right", "right", "r", -1.0))


def up(x: np.ndarray) -> np.ndarray:
    """The positive half, rounded at zero over about 0.2 and exactly 0 at rest."""
    return 0.5 * (x + np.sqrt(x * x + 0.01) - 0.1)


def down(x: np.ndarray) -> np.ndarray:
    """The negative half as a positive number."""
    return up(-x)


def between(x: np.ndarray) -> np.ndarray:
    """An in-between: 0 at 0 and at 1, 1 half-way."""
    return 4.0 * x * (1.0 - x)


class Shapes:
    """Fields (3V,K) and the numbers that go with them; `amounts` maps controls to (K,T) float32."""

    def __init__(self, surface: Surface):
        self._surface = surface
        self._fields: list[np.ndarray] = []
        self._numbers: list[Callable[[Read], np.ndarray]] = []
        self._unit, self._expression = surface.anatomy.unit, surface.anatomy.expression
        for side in SIDES:
            self._eye_region(*side)
            self._mouth_side(*side)
        self._mouth_middle()
        self._rest_of_face()
        self._combinations()
        self.matrix = np.stack([field.reshape(-1) for field in self._fields], axis=1).astype(
            np.float32
        )

    def amounts(self, read: Read) -> np.ndarray:
        return np.stack([number(read) for number in self._numbers]).astype(np.float32)

    def _add(self, field: np.ndarray, number: Callable[[Read], np.ndarray]) -> None:
        self._fields.append(field)
        self._numbers.append(number)

    def _two_way(self, control: str, positive: np.ndarray, negative: np.ndarray) -> None:
        self._add(positive, lambda read: up(read[control]))
        self._add(negative, lambda read: down(read[control]))

    def _arc(self, control: str, field: np.ndarray, size: float) -> None:
        """The in-between of `field`: on the way, the skin that moves stands out by `size` of its
        path.
        """
        lift = size * np.linalg.norm(field, axis=1)
        self._add(
            self._surface.outward(lift, 3), lambda read: between(np.clip(up(read[control]), 0, 1.4))
        )

    def _eye_region(self, s: str, Side: str, side: str, letter: str, sign: float) -> None:
        surface, unit = self._surface, self._unit
        inner = surface.half(unit("browInnerUp"), s)
        self._two_way(f"brow_inner_{s}", 1.2 * inner, 0.9 * unit(f"browDown{Side}"))
        self._two_way(
            f"brow_outer_{s}",
            unit(f"browOuterUp{Side}"),
            0.8 * self._expression(f"eyebrows-{side}-down"),
        )
        self._arc(f"brow_outer_{s}", unit(f"browOuterUp{Side}"), 0.25)
        glabella = surface.ball((sign * 1.6, 166.0, 15.6), 1.5)
        self._add(
            0.35 * glabella[:, None] * np.array([-sign, -0.2, 0.25]),
            lambda r: r[f"brow_squeeze_{s}"],
        )
        # Lids turn with their joints (joints.py); the shapes add what the skin around the eye does.
        self._add(0.6 * unit(f"eyeSquint{Side}"), lambda r: up(r[f"lid_lower_{s}"]))
        self._add(
            surface.half(0.5 * unit(f"eyeWide{Side}"), s), lambda r: down(r[f"lid_upper_{s}"])
        )
        fold = surface.ball((sign * 3.2, 165.2, 15.0), 1.0)
        self._add(
            surface.along(0.22 * fold, (0, -1, 0)) - surface.outward(0.10 * fold, 1),
            lambda r: r[f"lid_crease_{s}"],
        )
        self._add(
            surface.outward(0.12 * fold, 1), lambda r: between(np.clip(r[f"lid_upper_{s}"], 0, 1))
        )
        self._add(unit(f"cheekSquint{Side}"), lambda r: r[f"cheek_raise_{s}"])
        self._arc(f"cheek_raise_{s}", unit(f"cheekSquint{Side}"), 0.3)

    def _mouth_side(self, s: str, Side: str, side: str, letter: str, sign: float) -> None:
        surface, unit = self._surface, self._unit
        target = surface.anatomy.target
        smile = unit(f"mouthSmile{Side}")
        self._two_way(f"corner_up_{s}", smile, 1.1 * unit(f"mouthFrown{Side}"))
        self._arc(f"corner_up_{s}", smile, 0.22)
        narrow = surface.half(self._expression("mouth-pursing"), s)
        self._two_way(f"corner_out_{s}", unit(f"mouthStretch{Side}"), 0.45 * narrow)
        self._arc(f"corner_out_{s}", unit(f"mouthStretch{Side}"), 0.2)
        corner = surface.ball((sign * 2.6, 156.8, 14.3), 1.2)
        self._add(
            0.3 * corner[:, None] * np.array([0.1 * sign, 0.0, -1.0]),
            lambda r: r[f"corner_deep_{s}"],
        )
        self._add(unit(f"mouthDimple{Side}"), lambda r: r[f"dimple_{s}"])
        self._two_way(
            f"lip_upper_raise_{s}", unit(f"mouthUpperUp{Side}"), -0.35 * unit(f"mouthUpperUp{Side}")
        )
        self._two_way(
            f"lip_lower_drop_{s}",
            unit(f"mouthLowerDown{Side}"),
            -0.4 * unit(f"mouthLowerDown{Side}"),
        )
        self._add(0.8 * unit(f"mouthPress{Side}"), lambda r: r[f"press_{s}"])
        self._two_way(
            f"cheek_puff_{s}",
            surface.half(unit("cheekPuff"), s),
            0.9 * target(f"cheek/{letter}-cheek-volume-decr"),
        )
        self._arc(f"cheek_puff_{s}", surface.half(unit("cheekPuff"), s), 0.15)
        self._add(1.1 * unit(f"noseSneer{Side}"), lambda r: r[f"sneer_{s}"])
        flare = self._expression(f"nose-{side}-dilatation")
        self._two_way(f"nostril_{s}", 2.0 * flare, -1.2 * flare)
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
        self._arc("funnel", unit("mouthFunnel"), -0.2)
        self._add(unit("mouthPucker"), lambda r: r["pucker"])
        self._arc("pucker", unit("mouthPucker"), 0.25)
        self._two_way("roll_upper", 0.8 * unit("mouthRollUpper"), -0.45 * unit("mouthRollUpper"))
        self._two_way("roll_lower", 0.8 * unit("mouthRollLower"), -0.45 * unit("mouthRollLower"))
        self._add(unit("mouthShrugUpper"), lambda r: r["shrug_upper"])
        self._add(unit("mouthShrugLower"), lambda r: r["shrug_lower"])
        self._two_way("mouth_shift", 0.9 * unit("mouthLeft"), 0.9 * unit("mouthRight"))
        mouth = surface.ball((0.0, 156.8, 15.0), 2.6)
        spin = np.cross([0.0, 0.0, 1.0], surface.points - [0.0, 156.8, 15.0])
        self._add(0.14 * mouth[:, None] * spin, lambda r: r["mouth_twist"])
        self._two_way(
            "mouth_raise", 0.8 * expression("mouth-elevation"), 0.7 * expression("mouth-depression")
        )
        self._add(expression("mouth-parling"), lambda r: r["lips_apart"])
        self._add(expression("mouth-eversion"), lambda r: r["lips_evert"])
        forward = surface.ball((0.0, 156.8, 15.6), 2.0)
        self._two_way(
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
        self._two_way(
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
        self._two_way(
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
        self._two_way(
            "throat", surface.outward(0.5 * throat, 2), surface.along(0.5 * throat, (0, 1, 0))
        )
        crown = surface.skin * np.clip((surface.points[:, 1] - 167.0) / 6.0, 0, 1)
        self._two_way(
            "scalp",
            surface.along(0.5 * crown, (0, 0.3, -1)),
            surface.along(0.4 * crown, (0, -0.3, 1)),
        )

    def _combinations(self) -> None:
        surface, unit, expression = self._surface, self._unit, self._expression
        opened = lambda r: np.clip(r["jaw_open"] / 24.0, 0.0, 1.4)
        # The jaw's skin slides and its lips close over an opening jaw: MakeHuman's own correction,
        # for as far as the jaw is open.
        self._add(
            unit("mouthClose"), lambda r: r["mouth_close"] * np.minimum(opened(r), 1.0) ** 1.2
        )
        for s, Side, _, _, sign in SIDES:
            smile, sneer, raised = (
                unit(f"mouthSmile{Side}"),
                unit(f"noseSneer{Side}"),
                unit(f"cheekSquint{Side}"),
            )
            self._add(
                0.35 * unit(f"mouthStretch{Side}") + 0.2 * smile,
                lambda r, s=s: up(r[f"corner_up_{s}"]) * opened(r),
            )
            self._add(-0.45 * smile, lambda r, s=s: up(r[f"corner_up_{s}"]) * up(r["pucker"]))
            self._add(
                -0.35 * smile, lambda r, s=s: up(r[f"corner_up_{s}"]) * up(r[f"cheek_puff_{s}"])
            )
            self._add(
                0.4 * raised,
                lambda r, s=s: (
                    up(r[f"corner_up_{s}"]) * up(r[f"sneer_{s}"]) * up(r[f"cheek_raise_{s}"])
                ),
            )
            self._add(
                0.4 * unit(f"browDown{Side}"),
                lambda r, s=s: up(r[f"sneer_{s}"]) * down(r[f"brow_inner_{s}"]),
            )
            self._add(
                -0.4 * surface.half(unit("browInnerUp"), s),
                lambda r, s=s: (
                    up(r[f"brow_inner_{s}"]) * up(r[f"brow_outer_{s}"]) * up(r[f"brow_squeeze_{s}"])
                ),
            )
            hollow = surface.outward(-0.7 * surface.ball((sign * 5.2, 157.6, 12.0), 2.0), 2)
            self._add(
                hollow,
                lambda r, s=s: opened(r) * (0.4 + up(r["pucker"]) + down(r[f"cheek_puff_{s}"])),
            )
            self._add(
                0.5 * unit(f"mouthPress{Side}"),
                lambda r, s=s: up(r[f"press_{s}"]) * up(r["roll_lower"]) * up(r["roll_upper"]),
            )
            self._add(
                0.5 * sneer, lambda r, s=s: up(r[f"sneer_{s}"]) * up(r[f"lip_upper_raise_{s}"])
            )
            self._add(
                0.6 * unit(f"mouthLowerDown{Side}") + 0.4 * raised,
                lambda r, s=s: (
                    up(r[f"corner_up_{s}"])
                    * up(r[f"lip_upper_raise_{s}"])
                    * up(r[f"lip_lower_drop_{s}"])
                    * opened(r)
                ),
            )
        self._add(
            -0.5 * unit("mouthPucker") + 0.3 * expression("mouth-eversion"),
            lambda r: up(r["funnel"]) * up(r["pucker"]),
        )
        self._add(0.6 * unit("mouthFunnel"), lambda r: up(r["funnel"]) * opened(r))
        self._add(-0.4 * unit("mouthShrugLower"), lambda r: up(r["shrug_lower"]) * opened(r))
        self._add(
            0.5 * expression("mouth-protusion"),
            lambda r: up(r["funnel"]) * up(r["pucker"]) * up(r["lips_evert"]) * opened(r),
        )
