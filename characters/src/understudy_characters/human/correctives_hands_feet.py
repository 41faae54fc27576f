"""Correctives of hands and feet: knuckles, pads and folds of every finger joint and toe.

Each is driven by its own bone. A finger joint with flexion c (fold = palm side):

    tanh(c / 30 deg)      skin of the back slides towards the finger tip, the pad on the palm side
                          swells
    smoothstep(c)^1.3     the knuckle rises, flesh bulges sideways, the inner fold fills

Both are local to half a phalanx. The palm cups, the ball of the thumb swells with the thumb,
tendons rise on the back of a spread or tense hand. In the foot, the ball spreads and the arch lifts
with the toes, and the ankle folds in front and behind.

Letters: V vertices.
"""

from __future__ import annotations

import numpy as np

from understudy_characters.human.correctives import CorrectiveBuilder, Driver, saturate, smoothstep
from understudy_characters.human.fields import UP, folds, gaussian_ball, sideways_bulge


def add_hand_and_foot_correctives(builder: CorrectiveBuilder) -> None:
    """Add the correctives of hands and feet."""
    for finger in range(1, 6):
        for joint in range(1, 4):
            _finger_joint(builder, finger, joint)
    _hand(builder)
    _foot(builder)
    for toe in range(1, 6):
        _toe(builder, toe)


def _finger_joint(builder: CorrectiveBuilder, finger: int, joint: int) -> None:
    bone = f"finger{finger}-{joint}"
    before = builder.anatomy.bone_names[builder.anatomy.bone_parents[builder.bones[f"{bone}.L"]]]
    own = [f"finger{finger}-{k}.L" for k in range(1, 4)] + ([before] if before != "wrist.L" else [])
    _, y, z = builder.axes(f"{bone}.L")
    head = builder.head(f"{bone}.L")
    tip = builder.anatomy.bone_tails[builder.bones[f"{bone}.L"]]
    length = float(np.linalg.norm(tip - head))
    region = builder.region(head, tip, f"{bone}.L", own, 1)
    ball = gaussian_ball(builder, head, 0.9 * length) * region.mask
    # About 1 for the finger of an adult.
    size = float(np.quantile(region.radius[ball > 0.3], 0.7)) / 0.8
    away, near = region.toward(-z), region.toward(z)
    pad = region.mask * region.band(0.5, 0.3) * near
    slide = (
        builder.along_skin(0.42 * size * ball * away, y, 1)
        - builder.along_skin(0.3 * size * ball * near, y, 1)
        + builder.outward(0.26 * size * pad, 1)
    )
    builder.add_pair("slide", f"{bone}_skin", slide, lambda j: saturate(j.flex(bone), 30))
    fold = 0.34 * size * sideways_bulge(builder, region, ball, 1) + builder.outward(
        0.28 * size * ball * away + 0.3 * size * ball * near, 1
    )
    builder.add_pair(
        "volume", f"{bone}_fold", fold, lambda j: smoothstep(j.flex(bone), -25, 95) ** 1.3
    )
    if finger > 1 and joint < 3:
        crease = 0.1 * size * folds(builder, region, 0.0, 0.35, 0.7 * size, z)
        builder.add_pair(
            "crease", f"{bone}_crease", crease, lambda j: smoothstep(j.flex(bone), 15, 80)
        )


def _hand(builder: CorrectiveBuilder) -> None:
    palm_bones = [
        "wrist.L",
        "metacarpal1.L",
        "metacarpal2.L",
        "metacarpal3.L",
        "metacarpal4.L",
        "finger1-1.L",
    ]
    middle = builder.head("finger3-1.L")
    wrist = builder.head("wrist.L")
    hand = builder.region(wrist, middle, "wrist.L", palm_bones, 3)
    x, y, z = builder.axes("metacarpal2.L")
    inner, outer = hand.toward(z), hand.toward(-z)
    thenar = (
        gaussian_ball(builder, builder.head("finger1-2.L") * 0.5 + wrist * 0.5 + 0.8 * z, 3.2)
        * hand.mask
    )
    builder.add_pair(
        "muscle",
        "thenar",
        builder.outward(1.0 * thenar * inner, 2),
        lambda j: smoothstep(j.flex("finger1-1", "finger1-2"), -15, 70) + 0.4 * j["flex"],
    )
    builder.add_pair(
        "slide",
        "thumb_web",
        builder.along_skin(
            0.9
            * gaussian_ball(
                builder, builder.head("finger1-2.L") * 0.4 + builder.head("finger2-1.L") * 0.6, 3.0
            )
            * hand.mask,
            y,
            2,
        ),
        lambda j: saturate(j.side("finger1-1"), 14),
    )
    for finger in range(2, 6):
        knuckle = builder.head(f"finger{finger}-1.L")
        tendon = (
            np.exp(-(((builder.points - knuckle) @ x / 0.55) ** 2))
            * hand.mask
            * outer
            * hand.band(0.7, 0.5)
        )
        bone = f"finger{finger}-1"
        builder.add_pair(
            "muscle",
            f"tendon{finger}",
            builder.outward(0.5 * tendon, 1),
            _tendon(bone),
        )
        pad = gaussian_ball(builder, knuckle + 0.8 * z - 0.8 * y, 1.7) * hand.mask * inner
        builder.add_pair(
            "volume",
            f"palm_pad{finger}",
            builder.outward(0.65 * pad, 1),
            _pad(bone),
        )
    builder.add_pair(
        "slide",
        "hand_back",
        builder.along_skin(0.8 * hand.mask * outer * hand.band(0.5, 0.5), y, 2),
        lambda j: saturate(j.flex("wrist"), 28),
    )
    builder.add_pair(
        "slide",
        "palm",
        builder.along_skin(-0.7 * hand.mask * inner * hand.band(0.4, 0.5), y, 2),
        lambda j: saturate(j.flex("wrist"), 28),
    )
    builder.add_pair(
        "volume",
        "hand_heel",
        builder.outward(
            0.8 * gaussian_ball(builder, wrist + 1.5 * z + 1.5 * y, 3.0) * hand.mask, 2
        ),
        lambda j: saturate(j.flex("wrist"), 35),
    )
    arm = builder.region("lowerarm02.L", "wrist.L", "lowerarm02.L", ["lowerarm02.L", "wrist.L"], 3)
    sides = builder.outward(
        0.9 * gaussian_ball(builder, wrist, 3.6) * arm.mask * np.abs(arm.toward(x) * 2 - 1), 2
    )
    builder.add_pair(
        "volume", "wrist_sides", sides, lambda j: smoothstep(np.abs(j.flex("wrist")), 0, 70)
    )
    builder.add_pair(
        "crease",
        "wrist",
        0.22 * folds(builder, arm, 1.0, 0.16, 1.5, z),
        lambda j: smoothstep(j.flex("wrist"), 8, 60),
    )
    builder.add_pair(
        "slide",
        "wrist_lean",
        builder.along_skin(0.8 * gaussian_ball(builder, wrist, 4.0), x, 2),
        lambda j: saturate(j.side("wrist"), 14),
    )


def _tendon(bone: str) -> Driver:
    """Tendons rise with tension and disappear as the finger bends."""
    return lambda j: 0.7 * j["flex"] - 0.8 * saturate(j.flex(bone), 30)


def _pad(bone: str) -> Driver:
    """The pad of the palm swells as the finger bends."""
    return lambda j: saturate(j.flex(bone) - 10, 35)


def _foot(builder: CorrectiveBuilder) -> None:
    ankle, ball = builder.head("foot.L"), builder.head("toe2-1.L")
    names = ["foot.L", "lowerleg02.L"]
    foot = builder.region(ankle, ball, "foot.L", ["foot.L"], 3)
    mask = builder.smooth(builder.weight(names), 3)
    lowered = lambda j: j.flex("foot")  # positive: toes down
    toes = lambda j: -j.flex("toe2-1")  # positive: toes up
    builder.add_pair(
        "volume",
        "instep",
        builder.outward(1.2 * gaussian_ball(builder, ankle, 4.5, (0, 1, 5)) * mask, 2),
        lambda j: -saturate(lowered(j), 18),
    )
    heel = builder.along_skin(
        1.6 * gaussian_ball(builder, ankle, 5.0, (0, 0, -5)) * mask, UP, 2
    ) + builder.outward(0.6 * gaussian_ball(builder, ankle, 3.5, (0, 3, -4)) * mask, 2)
    builder.add_pair("slide", "heel", heel, lambda j: saturate(lowered(j), 20))
    builder.add_pair(
        "slide",
        "foot_top",
        builder.along_skin(1.2 * foot.mask * foot.toward(UP) * foot.band(0.5, 0.5), foot.axis, 2),
        lambda j: saturate(lowered(j), 22) - 0.5 * saturate(toes(j), 22),
    )
    builder.add_pair(
        "volume",
        "arch",
        builder.smooth(
            (1.1 * foot.mask * foot.band(0.45, 0.3) * foot.toward(-UP))[:, None] * UP, 2
        ),
        lambda j: saturate(toes(j), 20) + 0.5 * j["flex"],
    )
    builder.add_pair(
        "volume",
        "ball",
        builder.outward(0.9 * gaussian_ball(builder, ball, 4.0, (-1, -2, 0)), 2),
        lambda j: smoothstep(toes(j), -20, 50),
    )
    builder.add_pair(
        "slide",
        "sole",
        builder.along_skin(0.9 * foot.mask * foot.toward(-UP), foot.axis, 2),
        lambda j: saturate(toes(j), 20),
    )
    builder.add_pair(
        "volume",
        "malleolus",
        0.8 * sideways_bulge(builder, foot, gaussian_ball(builder, ankle, 4.0) * mask),
        lambda j: saturate(j.side("foot"), 12),
    )
    tendon = (
        np.abs(np.sin(np.pi * (builder.points[:, 0] - ankle[0]) / 1.9))
        * foot.mask
        * foot.toward(UP, 2)
        * foot.band(0.75, 0.35)
    )
    builder.add_pair(
        "muscle",
        "foot_tendons",
        builder.outward(0.6 * tendon, 1),
        lambda j: saturate(toes(j), 20) + 0.6 * j["flex"],
    )
    builder.add_pair(
        "crease",
        "ankle",
        0.3 * folds(builder, foot, 0.1, 0.2, 1.8, UP),
        lambda j: smoothstep(-lowered(j), 4, 30),
    )


def _toe(builder: CorrectiveBuilder, toe: int) -> None:
    bone = f"toe{toe}-1"
    names = [f"toe{toe}-{k}.L" for k in range(1, 4 if toe > 1 else 3)]
    _, y, z = builder.axes(f"{bone}.L")
    head, tip = builder.head(f"{bone}.L"), builder.anatomy.bone_tails[builder.bones[names[-1]]]
    region = builder.region(head, tip, f"{bone}.L", names, 1)
    size = float(np.quantile(region.radius[region.mask > 0.6], 0.7)) / 1.1
    top, under = region.toward(-z), region.toward(z)
    skin = builder.along_skin(-0.5 * size * region.mask * top, y, 1) + builder.outward(
        0.35 * size * region.mask * region.band(0.75, 0.3) * under, 1
    )
    builder.add_pair("slide", f"{bone}_skin", skin, lambda j: saturate(-j.flex(bone), 18))
    fold = builder.outward(
        0.4
        * size
        * region.mask
        * (region.band(0.1, 0.25) * top + 0.6 * region.band(0.5, 0.3) * under),
        1,
    )
    builder.add_pair(
        "volume", f"{bone}_fold", fold, lambda j: smoothstep(np.abs(j.flex(bone)), 2, 40)
    )
    builder.add_pair(
        "volume",
        f"{bone}_grip",
        0.35 * size * sideways_bulge(builder, region, region.mask, 1),
        lambda j: saturate(j.flex(bone), 20),
    )
