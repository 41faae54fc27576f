"""Correctives of the face: expressions, and the skin that the jaw moves.

Each expression control is a sum of MakeHuman's face units, left and right together, with a
non-linear response: it eases in, and in the second half the skin settles onto the skull (a square
term along the surface). Expressions that share a muscle affect each other: a smile is wider with
the mouth open, a snarl pulls the lowered brow, a puffed cheek reduces the smile.

Scalp, ears and temples follow the brow. Masseter and temple swell when the jaw clenches (`flex`)
and hollow as it opens.

Letters: V vertices.
"""

from __future__ import annotations

import numpy as np

from understudy_characters.human.correctives import CorrectiveBuilder, Driver, saturate, smoothstep
from understudy_characters.human.fields import UP, gaussian_ball

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


def add_face_correctives(builder: CorrectiveBuilder) -> None:
    """Add the correctives of the face."""
    unit = lambda name: builder.anatomy.target(f"faceunits/{name}")
    fields = {
        name: sum((share * unit(each) for each, share in units), np.zeros(()))
        for name, units in UNITS.items()
    }
    for name, field in fields.items():
        builder.add_symmetric(
            "expression",
            name,
            field,
            _eased(name),
        )
        lift = np.linalg.norm(field, axis=1)
        builder.add_symmetric(
            "expression",
            f"{name}_flesh",
            builder.outward(0.45 * lift, 4),
            _late(name),
        )
    jaw = lambda j: smoothstep(j.flex("jaw"), 0, 28)
    builder.add_symmetric(
        "expression",
        "smile_open",
        0.45 * fields["mouth_wide"] + 0.3 * fields["smile"],
        lambda j: j["smile"] * jaw(j),
    )
    builder.add_symmetric(
        "expression",
        "snarl_brow",
        0.3 * fields["brow_furrow"],
        lambda j: j["snarl"] * (1 - 0.5 * j["brow_raise"]),
    )
    builder.add_symmetric(
        "expression", "puff_smile", -0.5 * fields["smile"], lambda j: j["cheek_puff"] * j["smile"]
    )
    builder.add_symmetric(
        "expression",
        "brow_squint",
        0.35 * fields["squint"],
        lambda j: j["brow_furrow"] * (1 - j["squint"]),
    )
    _skull(builder)
    _jaw(builder)


def _eased(control: str) -> Driver:
    """An expression control with an eased response."""
    return lambda j: j[control] * (0.7 + 0.6 * j[control] - 0.3 * j[control] ** 2)


def _late(control: str) -> Driver:
    """What the flesh adds in the second half of an expression."""
    return lambda j: j[control] ** 2 - 0.4 * j[control]


def _skull(builder: CorrectiveBuilder) -> None:
    """Scalp, temples and ears: slides over the skull that follow the brow."""
    head = builder.smooth(builder.weight(["head"]), 3)
    top = builder.head("head") + np.array([0.0, 12.0, -2.0])
    scalp = head * smoothstep(builder.points[:, 1], top[1] - 9, top[1] + 1)
    back = np.array([0.0, 0.35, -1.0])
    builder.add_symmetric(
        "slide",
        "scalp",
        builder.along_skin(1.0 * scalp, back, 4),
        lambda j: saturate(j["brow_raise"], 0.6) - 0.7 * saturate(j["brow_furrow"], 0.6),
    )
    ear = gaussian_ball(builder, builder.head("head"), 4.5, (7.8, 3.0, -1.0)) * head
    builder.add_pair(
        "slide",
        "ear",
        builder.smooth(ear[:, None] * np.array([0.15, 0.75, -0.45]), 1),
        lambda j: (
            0.8 * saturate(j["smile"], 0.6)
            + 0.5 * saturate(j["brow_raise"], 0.6)
            - 0.5 * j["snarl"] ** 2
        ),
    )
    temple = gaussian_ball(builder, builder.head("head"), 3.8, (6.5, 7.5, 4.5)) * head
    builder.add_pair(
        "muscle",
        "temple",
        builder.outward(0.6 * temple, 2),
        lambda j: j["flex"] - 0.5 * smoothstep(j.flex("jaw"), 0, 26) + 0.4 * j["squint"],
    )


def _jaw(builder: CorrectiveBuilder) -> None:
    """Cheeks that hollow and skin that slides as the jaw opens; the masseter of a clenched jaw."""
    chin = builder.anatomy.bone_tails[builder.bones["jaw"]]
    hinge = builder.head("jaw")
    face = builder.smooth(
        builder.weight(
            [
                n
                for n in builder.bones
                if n.startswith(
                    ("head", "jaw", "risorius", "levator", "oris", "special", "temporalis")
                )
            ]
        ),
        2,
    )
    masseter = gaussian_ball(builder, 0.55 * hinge + 0.45 * chin, 3.4, (5.6, 0.5, -1.0)) * face
    builder.add_pair(
        "muscle",
        "masseter",
        builder.outward(0.8 * masseter, 2),
        lambda j: 0.9 * j["flex"] - 0.9 * smoothstep(j.flex("jaw"), 0, 26),
    )
    cheek = gaussian_ball(builder, 0.6 * hinge + 0.4 * chin, 3.2, (4.5, 1.0, 5.0)) * face
    builder.add_pair(
        "volume",
        "cheek_hollow",
        builder.outward(-0.9 * cheek, 2),
        lambda j: smoothstep(j.flex("jaw"), 2, 28) + 0.5 * j["pucker"] ** 2,
    )
    builder.add_pair(
        "slide",
        "jaw_skin",
        builder.along_skin(
            1.2 * gaussian_ball(builder, chin, 4.5, (4.0, 1.5, -4.0)) * face,
            np.array([0.2, 0.7, -0.7]),
            2,
        ),
        lambda j: saturate(j.flex("jaw"), 10),
    )
    builder.add_symmetric(
        "slide",
        "chin",
        builder.along_skin(0.9 * gaussian_ball(builder, chin, 3.5) * face, -UP, 2),
        lambda j: saturate(j.flex("jaw"), 9) - 0.5 * j["frown"] + 0.4 * j["snarl"],
    )
    builder.add_antisymmetric(
        "slide",
        "jaw_lean",
        builder.along_skin(
            1.0 * gaussian_ball(builder, chin, 5.5, (0, 2, 0)) * face, np.array([1.0, 0.0, 0.0]), 2
        ),
        lambda j: saturate(j.side("jaw"), 4),
    )
    platysma = builder.target("expression/units/caucasian/neck-platysma", 1.0, 1.0)
    builder.add_symmetric(
        "expression",
        "platysma",
        platysma,
        lambda j: 0.9 * np.maximum(j["mouth_wide"], 0) ** 1.5 + 0.5 * j["snarl"] * j["flex"],
    )
