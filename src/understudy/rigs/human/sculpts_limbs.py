"""Sculpts of arms, shoulders, legs and hips.

Muscles are MakeHuman's own muscle targets cut into single muscles by where a vertex faces (biceps
toward the fold of the elbow, triceps away from it) and driven by the joints they span: a biceps
thickens as the elbow closes, more so with tension (`flex`), a calf as the heel lifts. Volume pushes
flesh sideways out of a closing joint and thins a stretched limb (s^-1.6 - 1, times the dial of
sculpt.py: about s^-1.2, twice what volume asks for, as film rigs exaggerate). Slide carries skin
along a limb, at first with the joint, then not at all (tanh). Creases are short corrugations that
rise past a threshold of bending. Twist redistributes roll between the bones: an extra turn, zero at
both ends of a segment, and a wrung waist in the middle of it.

Every driver looks at one joint, at most two neighbouring ones, so that each effect can be learnt
locally. Directions: `fold` is where positive flexion folds to, the front of arms and the back of
legs. Sizes are centimetres at full effect, before the dial.
"""

from __future__ import annotations

import numpy as np

from understudy.rigs.human.sculpt import Bench, Region, above, rise, saturate
from understudy.rigs.human.shapes import FORWARD, LEFT, UP, around, blob, corrugation, sideways


def sculpt_limbs(bench: Bench) -> None:
    """Add every sculpt of the limbs, with shoulders and hips, to the bench."""
    _arms(bench)
    _shoulders(bench)
    _legs(bench)
    _hips(bench)


def _limb_common(
    bench: Bench, name: str, region: Region, twist_of: tuple[str, ...], stretch_of: str
) -> None:
    """What every limb segment has: thinning, and roll spread finer than its bones (an extra turn of
    up to a fifth, zero at both ends).
    """
    bench.pair(
        "stretch",
        f"{name}_thin",
        bench.smooth(region.mask[:, None] * region.radial, 2),
        lambda j: j.stretch(stretch_of) ** -1.6 - 1.0,
    )
    profile = region.mask * np.sin(2 * np.pi * np.clip(region.u, 0, 1))
    bench.pair(
        "twist",
        f"{name}_roll",
        bench.smooth(around(region, profile), 3),
        lambda j: 0.35 * np.sin(np.deg2rad(j.twist(*twist_of))),
    )
    squeeze = region.mask * np.sin(np.pi * np.clip(region.u, 0, 1)) ** 2
    bench.pair(
        "twist",
        f"{name}_wring",
        bench.smooth(squeeze[:, None] * region.radial, 3),
        lambda j: -0.22 * (1 - np.cos(np.deg2rad(1.3 * j.twist(*twist_of)))),
    )


def _arms(bench: Bench) -> None:
    upper = bench.region(
        "upperarm01.L", "lowerarm01.L", "upperarm02.L", ["upperarm01.L", "upperarm02.L"]
    )
    fore = bench.region("lowerarm01.L", "wrist.L", "lowerarm01.L", ["lowerarm01.L", "lowerarm02.L"])
    _limb_common(bench, "upperarm", upper, ("upperarm01", "upperarm02"), "upperarm02")
    _limb_common(bench, "forearm", fore, ("lowerarm01", "lowerarm02"), "lowerarm01")
    elbow = bench.head("lowerarm01.L")
    closed = lambda j: rise(j.flex("lowerarm01"), -45, 95)
    muscle = "arms/l-upperarm-muscle-incr"
    bench.pair(
        "muscle",
        "biceps",
        bench.target(muscle, upper.toward(upper.fold, 2), 2.0),
        lambda j: closed(j) * (1.3 + 0.7 * j["flex"]) + 0.5 * j["flex"],
    )
    bench.pair(
        "muscle",
        "triceps",
        bench.target(muscle, upper.toward(-upper.fold, 2), 1.5),
        lambda j: (1 - closed(j)) * (0.8 + 0.8 * j["flex"]) + 0.3 * j["flex"],
    )
    bench.pair(
        "muscle",
        "forearm",
        bench.target("arms/l-lowerarm-muscle-incr", 1.0, 1.3),
        lambda j: 0.9 * closed(j) + 0.8 * j["flex"] + 0.5 * rise(j.flex("wrist"), -10, 60),
    )
    arm = upper.mask + fore.mask
    ball = blob(bench, elbow, 6.5) * arm
    bench.pair(
        "volume",
        "elbow_sides",
        1.6 * sideways(bench, upper, ball),
        lambda j: rise(j.flex("lowerarm01"), -30, 110) ** 1.5,
    )
    inner = (
        blob(bench, elbow + 4.0 * upper.fold, 6.0)
        * arm
        * (upper.toward(upper.fold) + fore.toward(fore.fold))
        / 2
    )
    bench.pair(
        "volume",
        "elbow_fold",
        bench.outward(1.8 * inner),
        lambda j: above(j.flex("lowerarm01") - 25, 60),
    )
    bench.pair(
        "volume",
        "elbow_tip",
        bench.outward(1.1 * blob(bench, elbow - 3.5 * upper.fold, 4.0) * arm),
        lambda j: saturate(j.flex("lowerarm01"), 50),
    )
    reach = upper.mask * np.clip(upper.u, 0, 1.2)
    bench.pair(
        "slide",
        "upperarm_outer",
        bench.along_skin(1.9 * reach * upper.toward(-upper.fold), upper.axis),
        lambda j: saturate(j.flex("lowerarm01"), 35),
    )
    bench.pair(
        "slide",
        "upperarm_inner",
        bench.along_skin(-1.4 * reach * upper.toward(upper.fold), upper.axis),
        lambda j: saturate(j.flex("lowerarm01") - 10, 45),
    )
    bench.pair(
        "slide",
        "forearm_outer",
        bench.along_skin(
            -1.5 * fore.mask * fore.band(0.15, 0.5) * fore.toward(-fore.fold), fore.axis
        ),
        lambda j: saturate(j.flex("lowerarm01"), 30),
    )
    bench.pair(
        "slide",
        "forearm_wrist",
        bench.along_skin(
            1.1 * fore.mask * fore.band(0.8, 0.4) * fore.toward(-fore.fold), fore.axis
        ),
        lambda j: saturate(j.flex("wrist"), 25),
    )
    bench.pair(
        "slide",
        "forearm_turn",
        bench.smooth(around(fore, 0.35 * fore.mask * fore.band(0.35, 0.3)), 2),
        lambda j: saturate(j.twist("lowerarm01", "lowerarm02"), 45),
    )
    bench.pair(
        "crease",
        "elbow",
        0.5 * corrugation(bench, fore, 0.03, 0.14, 2.6, fore.fold),
        lambda j: rise(j.flex("lowerarm01"), 15, 95),
    )


def _shoulders(bench: Bench) -> None:
    names = ["upperarm01.L", "shoulder01.L", "clavicle.L", "upperarm02.L"]
    cap = bench.region("shoulder01.L", "upperarm02.L", "upperarm01.L", names)
    joint, tip = bench.head("upperarm01.L"), bench.head("shoulder01.L")
    raised = lambda j: j.side("upperarm01") + j.side("shoulder01")
    swung = lambda j: j.flex("upperarm01") + j.flex("shoulder01")
    bench.pair(
        "muscle",
        "deltoid",
        bench.target("arms/l-upperarm-shoulder-muscle-incr", 1.0, 1.8),
        lambda j: 1.4 * rise(raised(j), -50, 80) + 0.6 * j["flex"],
    )
    front = blob(bench, joint, 8.0, (0, 0, 6))
    bench.pair(
        "volume", "deltoid_front", bench.outward(1.7 * front), lambda j: saturate(swung(j), 40)
    )
    bench.pair(
        "volume",
        "deltoid_back",
        bench.outward(1.7 * blob(bench, joint, 8.0, (0, 0, -6))),
        lambda j: -saturate(swung(j), 35),
    )
    left = np.clip(0.5 + bench.points[:, 0] / 8.0, 0, 1)
    left = left * left * (3 - 2 * left)
    pectoral = "torso/torso-muscle-pectoral-incr"
    bench.pair(
        "muscle",
        "pectoral",
        bench.target(pectoral, left, 1.9),
        lambda j: 0.9 * rise(swung(j), -45, 75) - 0.6 * rise(raised(j), -20, 80) + 0.6 * j["flex"],
    )
    bench.pair(
        "muscle",
        "dorsi",
        bench.target("torso/torso-muscle-dorsi-incr", left, 2.6),
        lambda j: 0.9 * rise(raised(j), -45, 70) + 0.5 * j["flex"],
    )
    trunk = (
        bench.smooth(
            bench.weight(["spine01", "spine02", "breast.L", "clavicle.L", "shoulder01.L"]), 4
        )
        * left
    )
    chest = blob(bench, joint, 10.0, (-9, -9, 9)) * trunk
    bench.pair(
        "slide",
        "chest_skin",
        bench.along_skin(2.4 * chest, np.array([0.6, 0.8, 0.0])),
        lambda j: saturate(raised(j), 35),
    )
    blade = blob(bench, joint, 9.0, (-8, -7, -11)) * trunk
    bench.pair(
        "slide",
        "shoulder_blade",
        bench.along_skin(2.8 * blade, np.array([0.8, 0.6, 0.0])),
        lambda j: saturate(raised(j), 40) + 0.6 * saturate(swung(j), 45),
    )
    bench.pair(
        "volume",
        "blade_ridge",
        bench.outward(1.6 * blob(bench, joint, 6.0, (-5, -9, -12)) * trunk),
        lambda j: -saturate(swung(j), 30) + 0.6 * saturate(raised(j), 45),
    )
    flank = blob(bench, joint, 12.0, (-5, -17, -2)) * trunk
    bench.pair(
        "slide", "flank", bench.along_skin(2.2 * flank, UP), lambda j: saturate(raised(j), 40)
    )
    bench.pair(
        "volume",
        "armpit",
        bench.outward(-1.6 * blob(bench, joint, 6.0, (-3, -7, 0))),
        lambda j: rise(raised(j), -20, 75),
    )
    trap = blob(bench, 0.6 * tip + 0.4 * bench.head("neck01"), 7.0, (0, 2, -2))
    bench.pair(
        "muscle",
        "trapezius",
        bench.outward(1.8 * trap),
        lambda j: (
            0.7 * rise(raised(j), -30, 80) + saturate(j.side("clavicle"), 18) + 0.5 * j["flex"]
        ),
    )
    bench.pair(
        "slide",
        "shoulder_top",
        bench.along_skin(-1.7 * blob(bench, tip, 8.0, (3, 1, 0)), LEFT),
        lambda j: saturate(raised(j), 35),
    )
    bench.pair(
        "slide",
        "shoulder_turn",
        bench.smooth(around(cap, 0.3 * cap.mask * cap.band(0.6, 0.6)), 3),
        lambda j: saturate(j.twist("upperarm01", "upperarm02"), 35),
    )
    hollow = blob(bench, bench.head("clavicle.L"), 5.0, (7, 2.5, 3))
    bench.pair(
        "volume",
        "collar_hollow",
        bench.outward(-1.2 * hollow),
        lambda j: saturate(j.flex("clavicle"), 14) + 0.5 * saturate(j.side("clavicle"), 14),
    )


def _legs(bench: Bench) -> None:
    thigh = bench.region(
        "upperleg01.L", "lowerleg01.L", "upperleg02.L", ["upperleg01.L", "upperleg02.L"]
    )
    shin = bench.region("lowerleg01.L", "foot.L", "lowerleg01.L", ["lowerleg01.L", "lowerleg02.L"])
    _limb_common(bench, "thigh", thigh, ("upperleg01", "upperleg02"), "upperleg02")
    _limb_common(bench, "shin", shin, ("upperleg02",), "lowerleg01")
    knee = bench.head("lowerleg01.L")
    bent = lambda j: rise(j.flex("lowerleg01"), -10, 120)
    lifted = lambda j: -j.flex("upperleg01")
    muscle = "legs/l-upperleg-muscle-incr"
    bench.pair(
        "muscle",
        "quadriceps",
        bench.target(muscle, thigh.toward(-thigh.fold, 1.5), 2.3),
        lambda j: 1.2 * (1 - bent(j)) + 0.8 * rise(lifted(j), -30, 90) + 0.7 * j["flex"],
    )
    bench.pair(
        "muscle",
        "hamstrings",
        bench.target(muscle, thigh.toward(thigh.fold, 1.5), 2.2),
        lambda j: 1.5 * bent(j) + 0.6 * j["flex"],
    )
    calf = bench.target("legs/l-lowerleg-muscle-incr", shin.toward(shin.fold, 1.5), 2.2)
    bench.pair(
        "muscle",
        "calf",
        calf,
        lambda j: 0.8 * saturate(j.flex("foot"), 22) + 0.7 * bent(j) + 0.7 * j["flex"],
    )
    bench.pair(
        "muscle",
        "shin_front",
        bench.outward(0.9 * shin.mask * shin.band(0.35, 0.25) * shin.toward(-shin.fold, 2)),
        lambda j: -saturate(j.flex("foot"), 18) + 0.5 * j["flex"],
    )
    both = thigh.mask + shin.mask
    ball = blob(bench, knee, 8.5) * both
    bench.pair(
        "volume",
        "knee_sides",
        1.7 * sideways(bench, thigh, ball),
        lambda j: rise(j.flex("lowerleg01"), 0, 130) ** 1.3,
    )
    back = blob(bench, knee + 5.0 * thigh.fold, 8.0) * both
    bench.pair(
        "volume",
        "knee_fold",
        bench.outward(2.2 * back),
        lambda j: above(j.flex("lowerleg01") - 45, 70),
    )
    cap = blob(bench, knee - 5.5 * thigh.fold, 5.5) * both
    bench.pair(
        "slide",
        "knee_cap",
        bench.along_skin(2.4 * cap, thigh.axis),
        lambda j: saturate(j.flex("lowerleg01"), 50),
    )
    bench.pair(
        "volume",
        "knee_cap",
        bench.outward(1.2 * cap),
        lambda j: saturate(j.flex("lowerleg01") - 20, 45),
    )
    along = np.clip(thigh.u, 0, 1.1)
    bench.pair(
        "slide",
        "thigh_front",
        bench.along_skin(2.6 * thigh.mask * along * thigh.toward(-thigh.fold), thigh.axis),
        lambda j: saturate(j.flex("lowerleg01"), 40),
    )
    bench.pair(
        "slide",
        "thigh_back",
        bench.along_skin(2.8 * thigh.mask * (1.1 - along) * thigh.toward(thigh.fold), thigh.axis),
        lambda j: saturate(lifted(j), 35),
    )
    bench.pair(
        "slide",
        "thigh_top",
        bench.along_skin(
            -2.2 * thigh.mask * thigh.band(0.2, 0.35) * thigh.toward(-thigh.fold), thigh.axis
        ),
        lambda j: saturate(lifted(j), 30),
    )
    bench.pair(
        "slide",
        "shin_front",
        bench.along_skin(
            -1.8 * shin.mask * shin.band(0.2, 0.45) * shin.toward(-shin.fold), shin.axis
        ),
        lambda j: saturate(j.flex("lowerleg01"), 35),
    )
    bench.pair(
        "slide",
        "calf_skin",
        bench.along_skin(1.6 * shin.mask * shin.band(0.6, 0.4) * shin.toward(shin.fold), shin.axis),
        lambda j: -saturate(j.flex("foot"), 16),
    )
    bench.pair(
        "crease",
        "knee_back",
        0.5 * corrugation(bench, shin, 0.0, 0.1, 3.2, shin.fold),
        lambda j: rise(j.flex("lowerleg01"), 35, 115),
    )


def _hips(bench: Bench) -> None:
    hip = bench.head("upperleg01.L")
    left = rise(bench.points[:, 0], -3.0, 6.0)
    names = ["upperleg01.L", "upperleg02.L", "pelvis.L", "root", "spine05"]
    mask = bench.smooth(bench.weight(names), 4) * left
    lifted = lambda j: -j.flex("upperleg01")
    spread = lambda j: -j.side("upperleg01")
    glute = bench.target("buttocks/buttocks-volume-incr", left, 2.4)
    bench.pair(
        "muscle",
        "glute",
        glute,
        lambda j: 0.9 * rise(-lifted(j), -20, 40) - 0.9 * rise(lifted(j), 5, 100) + 0.6 * j["flex"],
    )
    bench.pair(
        "slide",
        "glute",
        bench.along_skin(2.8 * blob(bench, hip, 10.0, (0, -1, -10)) * mask, -UP),
        lambda j: saturate(lifted(j), 30),
    )
    groin = blob(bench, hip, 7.0, (-1, -3, 9)) * mask
    bench.pair(
        "volume",
        "groin",
        bench.outward(2.2 * blob(bench, hip, 7.0, (1, -6, 10)) * mask),
        lambda j: above(lifted(j) - 15, 60),
    )
    bench.pair(
        "volume", "groin_fold", bench.outward(-1.4 * groin), lambda j: rise(lifted(j), 0, 90)
    )
    bench.pair(
        "volume",
        "hip_side",
        bench.outward(2.0 * blob(bench, hip, 8.5, (7, 2, 0)) * mask),
        lambda j: saturate(spread(j), 25) + 0.5 * saturate(lifted(j), 45),
    )
    bench.pair(
        "slide",
        "hip_skin",
        bench.along_skin(2.4 * blob(bench, hip, 11.0, (6, 4, 2)) * mask, np.array([0, -0.5, 0.85])),
        lambda j: saturate(lifted(j), 30),
    )
    bench.pair(
        "muscle",
        "adductor",
        bench.outward(1.8 * blob(bench, hip, 9.0, (-6, -14, 0)) * mask),
        lambda j: -saturate(spread(j), 22) + 0.4 * j["flex"],
    )
    bench.pair(
        "slide",
        "hip_turn",
        bench.along_skin(2.0 * blob(bench, hip, 11.0, (4, -6, 3)) * mask, FORWARD),
        lambda j: saturate(j.twist("upperleg01", "upperleg02"), 22),
    )
    thigh = bench.region("upperleg01.L", "lowerleg01.L", "upperleg02.L", names)
    bench.pair(
        "crease",
        "groin",
        0.45 * corrugation(bench, thigh, 0.08, 0.09, 4.0, -thigh.fold),
        lambda j: rise(lifted(j), 30, 95),
    )
