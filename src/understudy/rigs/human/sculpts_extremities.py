"""Sculpts of hands and feet: every finger joint and toe has its own knuckle, pad and folds, each
driven by its own bone.

A finger joint, turned by angle c about its hinge (fold = palm side):

    tanh(c / 30 deg)      skin of the back slides toward the finger tip, the pad of the palm side
                          swells
    smoothstep(c)^1.3     knuckle rises, flesh leaves sideways, the inner fold fills

Both are local to half a phalanx. The palm cups, the heel of the thumb swells with the thumb,
tendons rise on the back of a spread or tensed hand. Feet: the ball spreads and the arch lifts with
the toes, the ankle folds in front and behind.

Letters: V vertices.
"""

from __future__ import annotations

import numpy as np

from understudy.rigs.human.sculpt import Bench, rise, saturate
from understudy.rigs.human.shapes import UP, blob, corrugation, sideways


def sculpt_extremities(bench: Bench) -> None:
    """Add the sculpts of hands and feet to the bench."""
    for finger in range(1, 6):
        for joint in range(1, 4):
            _finger_joint(bench, finger, joint)
    _hand(bench)
    _foot(bench)
    for toe in range(1, 6):
        _toe(bench, toe)


def _finger_joint(bench: Bench, finger: int, joint: int) -> None:
    bone = f"finger{finger}-{joint}"
    before = bench.anatomy.bone_names[bench.anatomy.bone_parents[bench.bones[f"{bone}.L"]]]
    own = [f"finger{finger}-{k}.L" for k in range(1, 4)] + ([before] if before != "wrist.L" else [])
    _, y, z = bench.axes(f"{bone}.L")
    head = bench.head(f"{bone}.L")
    tip = bench.anatomy.bone_tails[bench.bones[f"{bone}.L"]]
    length = float(np.linalg.norm(tip - head))
    region = bench.region(head, tip, f"{bone}.L", own, 1)
    ball = blob(bench, head, 0.9 * length) * region.mask
    size = (
        float(np.quantile(region.radius[ball > 0.3], 0.7)) / 0.8
    )  # about 1 for a grown man's finger
    away, near = region.toward(-z), region.toward(z)
    pad = region.mask * region.band(0.5, 0.3) * near
    slide = (
        bench.along_skin(0.42 * size * ball * away, y, 1)
        - bench.along_skin(0.3 * size * ball * near, y, 1)
        + bench.outward(0.26 * size * pad, 1)
    )
    bench.pair("slide", f"{bone}_skin", slide, lambda j: saturate(j.flex(bone), 30))
    fold = 0.34 * size * sideways(bench, region, ball, 1) + bench.outward(
        0.28 * size * ball * away + 0.3 * size * ball * near, 1
    )
    bench.pair("volume", f"{bone}_fold", fold, lambda j: rise(j.flex(bone), -25, 95) ** 1.3)
    if finger > 1 and joint < 3:
        crease = 0.1 * size * corrugation(bench, region, 0.0, 0.35, 0.7 * size, z)
        bench.pair("crease", f"{bone}_crease", crease, lambda j: rise(j.flex(bone), 15, 80))


def _hand(bench: Bench) -> None:
    palm_bones = [
        "wrist.L",
        "metacarpal1.L",
        "metacarpal2.L",
        "metacarpal3.L",
        "metacarpal4.L",
        "finger1-1.L",
    ]
    middle = bench.head("finger3-1.L")
    wrist = bench.head("wrist.L")
    hand = bench.region(wrist, middle, "wrist.L", palm_bones, 3)
    x, y, z = bench.axes("metacarpal2.L")
    inner, outer = hand.toward(z), hand.toward(-z)
    thenar = blob(bench, bench.head("finger1-2.L") * 0.5 + wrist * 0.5 + 0.8 * z, 3.2) * hand.mask
    bench.pair(
        "muscle",
        "thenar",
        bench.outward(1.0 * thenar * inner, 2),
        lambda j: rise(j.flex("finger1-1", "finger1-2"), -15, 70) + 0.4 * j["flex"],
    )
    bench.pair(
        "slide",
        "thumb_web",
        bench.along_skin(
            0.9
            * blob(bench, bench.head("finger1-2.L") * 0.4 + bench.head("finger2-1.L") * 0.6, 3.0)
            * hand.mask,
            y,
            2,
        ),
        lambda j: saturate(j.side("finger1-1"), 14),
    )
    for finger in range(2, 6):
        knuckle = bench.head(f"finger{finger}-1.L")
        tendon = (
            np.exp(-(((bench.points - knuckle) @ x / 0.55) ** 2))
            * hand.mask
            * outer
            * hand.band(0.7, 0.5)
        )
        bone = f"finger{finger}-1"
        bench.pair(
            "muscle",
            f"tendon{finger}",
            bench.outward(0.5 * tendon, 1),
            lambda j, bone=bone: 0.7 * j["flex"] - 0.8 * saturate(j.flex(bone), 30),
        )
        pad = blob(bench, knuckle + 0.8 * z - 0.8 * y, 1.7) * hand.mask * inner
        bench.pair(
            "volume",
            f"palm_pad{finger}",
            bench.outward(0.65 * pad, 1),
            lambda j, bone=bone: saturate(j.flex(bone) - 10, 35),
        )
    bench.pair(
        "slide",
        "hand_back",
        bench.along_skin(0.8 * hand.mask * outer * hand.band(0.5, 0.5), y, 2),
        lambda j: saturate(j.flex("wrist"), 28),
    )
    bench.pair(
        "slide",
        "palm",
        bench.along_skin(-0.7 * hand.mask * inner * hand.band(0.4, 0.5), y, 2),
        lambda j: saturate(j.flex("wrist"), 28),
    )
    bench.pair(
        "volume",
        "hand_heel",
        bench.outward(0.8 * blob(bench, wrist + 1.5 * z + 1.5 * y, 3.0) * hand.mask, 2),
        lambda j: saturate(j.flex("wrist"), 35),
    )
    arm = bench.region("lowerarm02.L", "wrist.L", "lowerarm02.L", ["lowerarm02.L", "wrist.L"], 3)
    sides = bench.outward(
        0.9 * blob(bench, wrist, 3.6) * arm.mask * np.abs(arm.toward(x) * 2 - 1), 2
    )
    bench.pair("volume", "wrist_sides", sides, lambda j: rise(np.abs(j.flex("wrist")), 0, 70))
    bench.pair(
        "crease",
        "wrist",
        0.22 * corrugation(bench, arm, 1.0, 0.16, 1.5, z),
        lambda j: rise(j.flex("wrist"), 8, 60),
    )
    bench.pair(
        "slide",
        "wrist_lean",
        bench.along_skin(0.8 * blob(bench, wrist, 4.0), x, 2),
        lambda j: saturate(j.side("wrist"), 14),
    )


def _foot(bench: Bench) -> None:
    ankle, ball = bench.head("foot.L"), bench.head("toe2-1.L")
    names = ["foot.L", "lowerleg02.L"]
    foot = bench.region(ankle, ball, "foot.L", ["foot.L"], 3)
    mask = bench.smooth(bench.weight(names), 3)
    lowered = lambda j: j.flex("foot")  # positive: toes down
    toes = lambda j: -j.flex("toe2-1")  # positive: toes up
    bench.pair(
        "volume",
        "instep",
        bench.outward(1.2 * blob(bench, ankle, 4.5, (0, 1, 5)) * mask, 2),
        lambda j: -saturate(lowered(j), 18),
    )
    heel = bench.along_skin(
        1.6 * blob(bench, ankle, 5.0, (0, 0, -5)) * mask, UP, 2
    ) + bench.outward(0.6 * blob(bench, ankle, 3.5, (0, 3, -4)) * mask, 2)
    bench.pair("slide", "heel", heel, lambda j: saturate(lowered(j), 20))
    bench.pair(
        "slide",
        "foot_top",
        bench.along_skin(1.2 * foot.mask * foot.toward(UP) * foot.band(0.5, 0.5), foot.axis, 2),
        lambda j: saturate(lowered(j), 22) - 0.5 * saturate(toes(j), 22),
    )
    bench.pair(
        "volume",
        "arch",
        bench.smooth((1.1 * foot.mask * foot.band(0.45, 0.3) * foot.toward(-UP))[:, None] * UP, 2),
        lambda j: saturate(toes(j), 20) + 0.5 * j["flex"],
    )
    bench.pair(
        "volume",
        "ball",
        bench.outward(0.9 * blob(bench, ball, 4.0, (-1, -2, 0)), 2),
        lambda j: rise(toes(j), -20, 50),
    )
    bench.pair(
        "slide",
        "sole",
        bench.along_skin(0.9 * foot.mask * foot.toward(-UP), foot.axis, 2),
        lambda j: saturate(toes(j), 20),
    )
    bench.pair(
        "volume",
        "malleolus",
        0.8 * sideways(bench, foot, blob(bench, ankle, 4.0) * mask),
        lambda j: saturate(j.side("foot"), 12),
    )
    tendon = (
        np.abs(np.sin(np.pi * (bench.points[:, 0] - ankle[0]) / 1.9))
        * foot.mask
        * foot.toward(UP, 2)
        * foot.band(0.75, 0.35)
    )
    bench.pair(
        "muscle",
        "foot_tendons",
        bench.outward(0.6 * tendon, 1),
        lambda j: saturate(toes(j), 20) + 0.6 * j["flex"],
    )
    bench.pair(
        "crease",
        "ankle",
        0.3 * corrugation(bench, foot, 0.1, 0.2, 1.8, UP),
        lambda j: rise(-lowered(j), 4, 30),
    )


def _toe(bench: Bench, toe: int) -> None:
    bone = f"toe{toe}-1"
    names = [f"toe{toe}-{k}.L" for k in range(1, 4 if toe > 1 else 3)]
    _, y, z = bench.axes(f"{bone}.L")
    head, tip = bench.head(f"{bone}.L"), bench.anatomy.bone_tails[bench.bones[names[-1]]]
    region = bench.region(head, tip, f"{bone}.L", names, 1)
    size = float(np.quantile(region.radius[region.mask > 0.6], 0.7)) / 1.1
    top, under = region.toward(-z), region.toward(z)
    skin = bench.along_skin(-0.5 * size * region.mask * top, y, 1) + bench.outward(
        0.35 * size * region.mask * region.band(0.75, 0.3) * under, 1
    )
    bench.pair("slide", f"{bone}_skin", skin, lambda j: saturate(-j.flex(bone), 18))
    fold = bench.outward(
        0.4
        * size
        * region.mask
        * (region.band(0.1, 0.25) * top + 0.6 * region.band(0.5, 0.3) * under),
        1,
    )
    bench.pair("volume", f"{bone}_fold", fold, lambda j: rise(np.abs(j.flex(bone)), 2, 40))
    bench.pair(
        "volume",
        f"{bone}_grip",
        0.35 * size * sideways(bench, region, region.mask, 1),
        lambda j: saturate(j.flex(bone), 20),
    )
