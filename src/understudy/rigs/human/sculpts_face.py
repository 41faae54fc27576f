"""Sculpts of the face: expressions, and what the jaw does to the skin over it.

Each expression control is a sum of MakeHuman's face units, left and right together, whose response
is not linear: it eases in, and its skin lies down on the skull in the second half (a square term
along the surface), as real cheeks do. Pairs that share a muscle act on each other: a smile is wider
with the mouth open, a snarl pulls the lowered brow, a puffed cheek stiffens the smile.

The scalp, the ears and the temples follow the brow; the masseter and temple swell when the jaw
clenches (`flex`) and hollow as it opens.

Letters: V vertices.
"""

from __future__ import annotations

import numpy as np

from understudy.rigs.human.sculpt import Bench, rise, saturate
from understudy.rigs.human.shapes import UP, blob

UNITS = {
    "smile": (
        ("mouthSmileLeft", 1.0),
        ("mouthSmileRight", 1.0),
        ("cheekSquintLeft", 0.6),
        ("cheekSquintRight", 0.6),
    ),
    "frown": (("mouthFrownLeft", 1.2), ("mouthFrownRight", 1.2), ("mouthShrugLower", 0.7)),
    "pucker": (("mouthPucker", 1.1), ("mouthFunnel", 0.4)),
    "mouth_wide": (
        ("mouthStretchLeft", 1.2),
        ("mouthStretchRight", 1.2),
        ("mouthLowerDownLeft", 0.6),
        ("mouthLowerDownRight", 0.6),
    ),
    "brow_raise": (
        ("browInnerUp", 1.3),
        ("browOuterUpLeft", 1.3),
        ("browOuterUpRight", 1.3),
        ("eyeWideLeft", 0.6),
        ("eyeWideRight", 0.6),
    ),
    "brow_furrow": (("browDownLeft", 0.9), ("browDownRight", 0.9)),
    "squint": (
        ("eyeBlinkLeft", 0.9),
        ("eyeBlinkRight", 0.9),
        ("eyeSquintLeft", 0.5),
        ("eyeSquintRight", 0.5),
    ),
    "snarl": (
        ("noseSneerLeft", 1.4),
        ("noseSneerRight", 1.4),
        ("mouthUpperUpLeft", 1.0),
        ("mouthUpperUpRight", 1.0),
    ),
    "cheek_puff": (("cheekPuff", 1.0),),
}


def sculpt_face(bench: Bench) -> None:
    """Add the sculpts of the face to the bench."""
    fields = {
        name: sum(share * bench.anatomy.target(f"faceunits/{unit}") for unit, share in units)
        for name, units in UNITS.items()
    }
    for name, field in fields.items():
        bench.middle(
            "expression",
            name,
            field,
            lambda j, name=name: j[name] * (0.7 + 0.6 * j[name] - 0.3 * j[name] ** 2),
        )
        lift = np.linalg.norm(field, axis=1)
        bench.middle(
            "expression",
            f"{name}_flesh",
            bench.outward(0.45 * lift, 4),
            lambda j, name=name: j[name] ** 2 - 0.4 * j[name],
        )
    jaw = lambda j: rise(j.flex("jaw"), 0, 28)
    bench.middle(
        "expression",
        "smile_open",
        0.45 * fields["mouth_wide"] + 0.3 * fields["smile"],
        lambda j: j["smile"] * jaw(j),
    )
    bench.middle(
        "expression",
        "snarl_brow",
        0.3 * fields["brow_furrow"],
        lambda j: j["snarl"] * (1 - 0.5 * j["brow_raise"]),
    )
    bench.middle(
        "expression", "puff_smile", -0.5 * fields["smile"], lambda j: j["cheek_puff"] * j["smile"]
    )
    bench.middle(
        "expression",
        "brow_squint",
        0.35 * fields["squint"],
        lambda j: j["brow_furrow"] * (1 - j["squint"]),
    )
    _skull(bench)
    _jaw(bench)


def _skull(bench: Bench) -> None:
    """Scalp, temples, ears: broad, gentle slides over the skull that go with the brow."""
    head = bench.smooth(bench.weight(["head"]), 3)
    top = bench.head("head") + np.array([0.0, 12.0, -2.0])
    scalp = head * rise(bench.points[:, 1], top[1] - 9, top[1] + 1)
    back = np.array([0.0, 0.35, -1.0])
    bench.middle(
        "slide",
        "scalp",
        bench.along_skin(1.0 * scalp, back, 4),
        lambda j: saturate(j["brow_raise"], 0.6) - 0.7 * saturate(j["brow_furrow"], 0.6),
    )
    ear = blob(bench, bench.head("head"), 4.5, (7.8, 3.0, -1.0)) * head
    bench.pair(
        "slide",
        "ear",
        bench.smooth(ear[:, None] * np.array([0.15, 0.75, -0.45]), 1),
        lambda j: (
            0.8 * saturate(j["smile"], 0.6)
            + 0.5 * saturate(j["brow_raise"], 0.6)
            - 0.5 * j["snarl"] ** 2
        ),
    )
    temple = blob(bench, bench.head("head"), 3.8, (6.5, 7.5, 4.5)) * head
    bench.pair(
        "muscle",
        "temple",
        bench.outward(0.6 * temple, 2),
        lambda j: j["flex"] - 0.5 * rise(j.flex("jaw"), 0, 26) + 0.4 * j["squint"],
    )


def _jaw(bench: Bench) -> None:
    """Cheeks hollow and skin slides back toward the ear as the jaw opens; the masseter swells when
    it clenches.
    """
    chin = bench.anatomy.bone_tails[bench.bones["jaw"]]
    hinge = bench.head("jaw")
    face = bench.smooth(
        bench.weight(
            [
                n
                for n in bench.bones
                if n.startswith(
                    ("head", "jaw", "risorius", "levator", "oris", "special", "temporalis")
                )
            ]
        ),
        2,
    )
    masseter = blob(bench, 0.55 * hinge + 0.45 * chin, 3.4, (5.6, 0.5, -1.0)) * face
    bench.pair(
        "muscle",
        "masseter",
        bench.outward(0.8 * masseter, 2),
        lambda j: 0.9 * j["flex"] - 0.9 * rise(j.flex("jaw"), 0, 26),
    )
    cheek = blob(bench, 0.6 * hinge + 0.4 * chin, 3.2, (4.5, 1.0, 5.0)) * face
    bench.pair(
        "volume",
        "cheek_hollow",
        bench.outward(-0.9 * cheek, 2),
        lambda j: rise(j.flex("jaw"), 2, 28) + 0.5 * j["pucker"] ** 2,
    )
    bench.pair(
        "slide",
        "jaw_skin",
        bench.along_skin(
            1.2 * blob(bench, chin, 4.5, (4.0, 1.5, -4.0)) * face, np.array([0.2, 0.7, -0.7]), 2
        ),
        lambda j: saturate(j.flex("jaw"), 10),
    )
    bench.middle(
        "slide",
        "chin",
        bench.along_skin(0.9 * blob(bench, chin, 3.5) * face, -UP, 2),
        lambda j: saturate(j.flex("jaw"), 9) - 0.5 * j["frown"] + 0.4 * j["snarl"],
    )
    bench.odd(
        "slide",
        "jaw_lean",
        bench.along_skin(
            1.0 * blob(bench, chin, 5.5, (0, 2, 0)) * face, np.array([1.0, 0.0, 0.0]), 2
        ),
        lambda j: saturate(j.side("jaw"), 4),
    )
    platysma = bench.target("expression/units/caucasian/neck-platysma", 1.0, 1.0)
    bench.middle(
        "expression",
        "platysma",
        platysma,
        lambda j: 0.9 * np.maximum(j["mouth_wide"], 0) ** 1.5 + 0.5 * j["snarl"] * j["flex"],
    )
