"""Correctives of arms, shoulders, legs and hips.

Muscles are MakeHuman's muscle targets, cut into single muscles by the direction a vertex faces:
the biceps towards the fold of the elbow, the triceps away from it. The joints they span drive them:
a biceps thickens as the elbow closes, more so with tension (the control `flex`), a calf as the heel
lifts. Volume correctives push flesh sideways out of a closing joint and thin a stretched limb
(s^-1.6 - 1, times `correctives.STRENGTH`: about s^-1.2, twice what constant volume asks for, as
film rigs exaggerate). Slide correctives carry skin along a limb, at first with the joint, then less
and less (tanh). Creases are short folds beyond a threshold of bending. Twist correctives
redistribute twist between the bones: an extra rotation, zero at both ends of a segment, and a
narrowing in its middle.

Every driver reads one joint, or two neighbouring ones, so that each effect can be learned locally.
`fold` is the direction that positive flexion folds to: the front of arms and the back of legs.
Sizes are in centimetres at full effect, before `correctives.STRENGTH`.
"""

from __future__ import annotations

import numpy as np

from understudy_characters.human.correctives import (
    CorrectiveBuilder,
    Region,
    saturate,
    smoothstep,
    soft_ramp,
)
from understudy_characters.human.fields import (
    FORWARD,
    LEFT,
    UP,
    axial_rotation,
    folds,
    gaussian_ball,
    sideways_bulge,
)


def add_limb_correctives(builder: CorrectiveBuilder) -> None:
    """Add the correctives of the limbs, with shoulders and hips."""
    _arms(builder)
    _shoulders(builder)
    _legs(builder)
    _hips(builder)


def _limb_common(
    builder: CorrectiveBuilder,
    name: str,
    region: Region,
    twist_of: tuple[str, ...],
    stretch_of: str,
) -> None:
    """Add what every limb segment has: thinning when stretched, and smoother twist.

    region      the segment
    twist_of    the bones whose twist drives it
    stretch_of  the bone whose stretch drives it
    """
    builder.add_pair(
        "stretch",
        f"{name}_thin",
        builder.smooth(region.mask[:, None] * region.radial, 2),
        lambda j: j.stretch(stretch_of) ** -1.6 - 1.0,
    )
    profile = region.mask * np.sin(2 * np.pi * np.clip(region.u, 0, 1))
    builder.add_pair(
        "twist",
        f"{name}_roll",
        builder.smooth(axial_rotation(region, profile), 3),
        lambda j: 0.35 * np.sin(np.deg2rad(j.twist(*twist_of))),
    )
    squeeze = region.mask * np.sin(np.pi * np.clip(region.u, 0, 1)) ** 2
    builder.add_pair(
        "twist",
        f"{name}_wring",
        builder.smooth(squeeze[:, None] * region.radial, 3),
        lambda j: -0.22 * (1 - np.cos(np.deg2rad(1.3 * j.twist(*twist_of)))),
    )


def _arms(builder: CorrectiveBuilder) -> None:
    upper = builder.region(
        "upperarm01.L", "lowerarm01.L", "upperarm02.L", ["upperarm01.L", "upperarm02.L"]
    )
    fore = builder.region(
        "lowerarm01.L", "wrist.L", "lowerarm01.L", ["lowerarm01.L", "lowerarm02.L"]
    )
    _limb_common(builder, "upperarm", upper, ("upperarm01", "upperarm02"), "upperarm02")
    _limb_common(builder, "forearm", fore, ("lowerarm01", "lowerarm02"), "lowerarm01")
    elbow = builder.head("lowerarm01.L")
    closed = lambda j: smoothstep(j.flex("lowerarm01"), -45, 95)
    muscle = "arms/l-upperarm-muscle-incr"
    builder.add_pair(
        "muscle",
        "biceps",
        builder.target(muscle, upper.toward(upper.fold, 2), 2.0),
        lambda j: closed(j) * (1.3 + 0.7 * j["flex"]) + 0.5 * j["flex"],
    )
    builder.add_pair(
        "muscle",
        "triceps",
        builder.target(muscle, upper.toward(-upper.fold, 2), 1.5),
        lambda j: (1 - closed(j)) * (0.8 + 0.8 * j["flex"]) + 0.3 * j["flex"],
    )
    builder.add_pair(
        "muscle",
        "forearm",
        builder.target("arms/l-lowerarm-muscle-incr", 1.0, 1.3),
        lambda j: 0.9 * closed(j) + 0.8 * j["flex"] + 0.5 * smoothstep(j.flex("wrist"), -10, 60),
    )
    arm = upper.mask + fore.mask
    ball = gaussian_ball(builder, elbow, 6.5) * arm
    builder.add_pair(
        "volume",
        "elbow_sides",
        1.6 * sideways_bulge(builder, upper, ball),
        lambda j: smoothstep(j.flex("lowerarm01"), -30, 110) ** 1.5,
    )
    inner = (
        gaussian_ball(builder, elbow + 4.0 * upper.fold, 6.0)
        * arm
        * (upper.toward(upper.fold) + fore.toward(fore.fold))
        / 2
    )
    builder.add_pair(
        "volume",
        "elbow_fold",
        builder.outward(1.8 * inner),
        lambda j: soft_ramp(j.flex("lowerarm01") - 25, 60),
    )
    builder.add_pair(
        "volume",
        "elbow_tip",
        builder.outward(1.1 * gaussian_ball(builder, elbow - 3.5 * upper.fold, 4.0) * arm),
        lambda j: saturate(j.flex("lowerarm01"), 50),
    )
    reach = upper.mask * np.clip(upper.u, 0, 1.2)
    builder.add_pair(
        "slide",
        "upperarm_outer",
        builder.along_skin(1.9 * reach * upper.toward(-upper.fold), upper.axis),
        lambda j: saturate(j.flex("lowerarm01"), 35),
    )
    builder.add_pair(
        "slide",
        "upperarm_inner",
        builder.along_skin(-1.4 * reach * upper.toward(upper.fold), upper.axis),
        lambda j: saturate(j.flex("lowerarm01") - 10, 45),
    )
    builder.add_pair(
        "slide",
        "forearm_outer",
        builder.along_skin(
            -1.5 * fore.mask * fore.band(0.15, 0.5) * fore.toward(-fore.fold), fore.axis
        ),
        lambda j: saturate(j.flex("lowerarm01"), 30),
    )
    builder.add_pair(
        "slide",
        "forearm_wrist",
        builder.along_skin(
            1.1 * fore.mask * fore.band(0.8, 0.4) * fore.toward(-fore.fold), fore.axis
        ),
        lambda j: saturate(j.flex("wrist"), 25),
    )
    builder.add_pair(
        "slide",
        "forearm_turn",
        builder.smooth(axial_rotation(fore, 0.35 * fore.mask * fore.band(0.35, 0.3)), 2),
        lambda j: saturate(j.twist("lowerarm01", "lowerarm02"), 45),
    )
    builder.add_pair(
        "crease",
        "elbow",
        0.5 * folds(builder, fore, 0.03, 0.14, 2.6, fore.fold),
        lambda j: smoothstep(j.flex("lowerarm01"), 15, 95),
    )


def _shoulders(builder: CorrectiveBuilder) -> None:
    names = ["upperarm01.L", "shoulder01.L", "clavicle.L", "upperarm02.L"]
    cap = builder.region("shoulder01.L", "upperarm02.L", "upperarm01.L", names)
    joint, tip = builder.head("upperarm01.L"), builder.head("shoulder01.L")
    raised = lambda j: j.side("upperarm01") + j.side("shoulder01")
    swung = lambda j: j.flex("upperarm01") + j.flex("shoulder01")
    builder.add_pair(
        "muscle",
        "deltoid",
        builder.target("arms/l-upperarm-shoulder-muscle-incr", 1.0, 1.8),
        lambda j: 1.4 * smoothstep(raised(j), -50, 80) + 0.6 * j["flex"],
    )
    front = gaussian_ball(builder, joint, 8.0, (0, 0, 6))
    builder.add_pair(
        "volume", "deltoid_front", builder.outward(1.7 * front), lambda j: saturate(swung(j), 40)
    )
    builder.add_pair(
        "volume",
        "deltoid_back",
        builder.outward(1.7 * gaussian_ball(builder, joint, 8.0, (0, 0, -6))),
        lambda j: -saturate(swung(j), 35),
    )
    left = np.clip(0.5 + builder.points[:, 0] / 8.0, 0, 1)
    left = left * left * (3 - 2 * left)
    pectoral = "torso/torso-muscle-pectoral-incr"
    builder.add_pair(
        "muscle",
        "pectoral",
        builder.target(pectoral, left, 1.9),
        lambda j: (
            0.9 * smoothstep(swung(j), -45, 75)
            - 0.6 * smoothstep(raised(j), -20, 80)
            + 0.6 * j["flex"]
        ),
    )
    builder.add_pair(
        "muscle",
        "dorsi",
        builder.target("torso/torso-muscle-dorsi-incr", left, 2.6),
        lambda j: 0.9 * smoothstep(raised(j), -45, 70) + 0.5 * j["flex"],
    )
    trunk = (
        builder.smooth(
            builder.weight(["spine01", "spine02", "breast.L", "clavicle.L", "shoulder01.L"]), 4
        )
        * left
    )
    chest = gaussian_ball(builder, joint, 10.0, (-9, -9, 9)) * trunk
    builder.add_pair(
        "slide",
        "chest_skin",
        builder.along_skin(2.4 * chest, np.array([0.6, 0.8, 0.0])),
        lambda j: saturate(raised(j), 35),
    )
    blade = gaussian_ball(builder, joint, 9.0, (-8, -7, -11)) * trunk
    builder.add_pair(
        "slide",
        "shoulder_blade",
        builder.along_skin(2.8 * blade, np.array([0.8, 0.6, 0.0])),
        lambda j: saturate(raised(j), 40) + 0.6 * saturate(swung(j), 45),
    )
    builder.add_pair(
        "volume",
        "blade_ridge",
        builder.outward(1.6 * gaussian_ball(builder, joint, 6.0, (-5, -9, -12)) * trunk),
        lambda j: -saturate(swung(j), 30) + 0.6 * saturate(raised(j), 45),
    )
    flank = gaussian_ball(builder, joint, 12.0, (-5, -17, -2)) * trunk
    builder.add_pair(
        "slide", "flank", builder.along_skin(2.2 * flank, UP), lambda j: saturate(raised(j), 40)
    )
    builder.add_pair(
        "volume",
        "armpit",
        builder.outward(-1.6 * gaussian_ball(builder, joint, 6.0, (-3, -7, 0))),
        lambda j: smoothstep(raised(j), -20, 75),
    )
    trap = gaussian_ball(builder, 0.6 * tip + 0.4 * builder.head("neck01"), 7.0, (0, 2, -2))
    builder.add_pair(
        "muscle",
        "trapezius",
        builder.outward(1.8 * trap),
        lambda j: (
            0.7 * smoothstep(raised(j), -30, 80)
            + saturate(j.side("clavicle"), 18)
            + 0.5 * j["flex"]
        ),
    )
    builder.add_pair(
        "slide",
        "shoulder_top",
        builder.along_skin(-1.7 * gaussian_ball(builder, tip, 8.0, (3, 1, 0)), LEFT),
        lambda j: saturate(raised(j), 35),
    )
    builder.add_pair(
        "slide",
        "shoulder_turn",
        builder.smooth(axial_rotation(cap, 0.3 * cap.mask * cap.band(0.6, 0.6)), 3),
        lambda j: saturate(j.twist("upperarm01", "upperarm02"), 35),
    )
    hollow = gaussian_ball(builder, builder.head("clavicle.L"), 5.0, (7, 2.5, 3))
    builder.add_pair(
        "volume",
        "collar_hollow",
        builder.outward(-1.2 * hollow),
        lambda j: saturate(j.flex("clavicle"), 14) + 0.5 * saturate(j.side("clavicle"), 14),
    )


def _legs(builder: CorrectiveBuilder) -> None:
    thigh = builder.region(
        "upperleg01.L", "lowerleg01.L", "upperleg02.L", ["upperleg01.L", "upperleg02.L"]
    )
    shin = builder.region(
        "lowerleg01.L", "foot.L", "lowerleg01.L", ["lowerleg01.L", "lowerleg02.L"]
    )
    _limb_common(builder, "thigh", thigh, ("upperleg01", "upperleg02"), "upperleg02")
    _limb_common(builder, "shin", shin, ("upperleg02",), "lowerleg01")
    knee = builder.head("lowerleg01.L")
    bent = lambda j: smoothstep(j.flex("lowerleg01"), -10, 120)
    lifted = lambda j: -j.flex("upperleg01")
    muscle = "legs/l-upperleg-muscle-incr"
    builder.add_pair(
        "muscle",
        "quadriceps",
        builder.target(muscle, thigh.toward(-thigh.fold, 1.5), 2.3),
        lambda j: 1.2 * (1 - bent(j)) + 0.8 * smoothstep(lifted(j), -30, 90) + 0.7 * j["flex"],
    )
    builder.add_pair(
        "muscle",
        "hamstrings",
        builder.target(muscle, thigh.toward(thigh.fold, 1.5), 2.2),
        lambda j: 1.5 * bent(j) + 0.6 * j["flex"],
    )
    calf = builder.target("legs/l-lowerleg-muscle-incr", shin.toward(shin.fold, 1.5), 2.2)
    builder.add_pair(
        "muscle",
        "calf",
        calf,
        lambda j: 0.8 * saturate(j.flex("foot"), 22) + 0.7 * bent(j) + 0.7 * j["flex"],
    )
    builder.add_pair(
        "muscle",
        "shin_front",
        builder.outward(0.9 * shin.mask * shin.band(0.35, 0.25) * shin.toward(-shin.fold, 2)),
        lambda j: -saturate(j.flex("foot"), 18) + 0.5 * j["flex"],
    )
    both = thigh.mask + shin.mask
    ball = gaussian_ball(builder, knee, 8.5) * both
    builder.add_pair(
        "volume",
        "knee_sides",
        1.7 * sideways_bulge(builder, thigh, ball),
        lambda j: smoothstep(j.flex("lowerleg01"), 0, 130) ** 1.3,
    )
    back = gaussian_ball(builder, knee + 5.0 * thigh.fold, 8.0) * both
    builder.add_pair(
        "volume",
        "knee_fold",
        builder.outward(2.2 * back),
        lambda j: soft_ramp(j.flex("lowerleg01") - 45, 70),
    )
    cap = gaussian_ball(builder, knee - 5.5 * thigh.fold, 5.5) * both
    builder.add_pair(
        "slide",
        "knee_cap",
        builder.along_skin(2.4 * cap, thigh.axis),
        lambda j: saturate(j.flex("lowerleg01"), 50),
    )
    builder.add_pair(
        "volume",
        "knee_cap",
        builder.outward(1.2 * cap),
        lambda j: saturate(j.flex("lowerleg01") - 20, 45),
    )
    along = np.clip(thigh.u, 0, 1.1)
    builder.add_pair(
        "slide",
        "thigh_front",
        builder.along_skin(2.6 * thigh.mask * along * thigh.toward(-thigh.fold), thigh.axis),
        lambda j: saturate(j.flex("lowerleg01"), 40),
    )
    builder.add_pair(
        "slide",
        "thigh_back",
        builder.along_skin(2.8 * thigh.mask * (1.1 - along) * thigh.toward(thigh.fold), thigh.axis),
        lambda j: saturate(lifted(j), 35),
    )
    builder.add_pair(
        "slide",
        "thigh_top",
        builder.along_skin(
            -2.2 * thigh.mask * thigh.band(0.2, 0.35) * thigh.toward(-thigh.fold), thigh.axis
        ),
        lambda j: saturate(lifted(j), 30),
    )
    builder.add_pair(
        "slide",
        "shin_front",
        builder.along_skin(
            -1.8 * shin.mask * shin.band(0.2, 0.45) * shin.toward(-shin.fold), shin.axis
        ),
        lambda j: saturate(j.flex("lowerleg01"), 35),
    )
    builder.add_pair(
        "slide",
        "calf_skin",
        builder.along_skin(
            1.6 * shin.mask * shin.band(0.6, 0.4) * shin.toward(shin.fold), shin.axis
        ),
        lambda j: -saturate(j.flex("foot"), 16),
    )
    builder.add_pair(
        "crease",
        "knee_back",
        0.5 * folds(builder, shin, 0.0, 0.1, 3.2, shin.fold),
        lambda j: smoothstep(j.flex("lowerleg01"), 35, 115),
    )


def _hips(builder: CorrectiveBuilder) -> None:
    hip = builder.head("upperleg01.L")
    left = smoothstep(builder.points[:, 0], -3.0, 6.0)
    names = ["upperleg01.L", "upperleg02.L", "pelvis.L", "root", "spine05"]
    mask = builder.smooth(builder.weight(names), 4) * left
    lifted = lambda j: -j.flex("upperleg01")
    spread = lambda j: -j.side("upperleg01")
    glute = builder.target("buttocks/buttocks-volume-incr", left, 2.4)
    builder.add_pair(
        "muscle",
        "glute",
        glute,
        lambda j: (
            0.9 * smoothstep(-lifted(j), -20, 40)
            - 0.9 * smoothstep(lifted(j), 5, 100)
            + 0.6 * j["flex"]
        ),
    )
    builder.add_pair(
        "slide",
        "glute",
        builder.along_skin(2.8 * gaussian_ball(builder, hip, 10.0, (0, -1, -10)) * mask, -UP),
        lambda j: saturate(lifted(j), 30),
    )
    groin = gaussian_ball(builder, hip, 7.0, (-1, -3, 9)) * mask
    builder.add_pair(
        "volume",
        "groin",
        builder.outward(2.2 * gaussian_ball(builder, hip, 7.0, (1, -6, 10)) * mask),
        lambda j: soft_ramp(lifted(j) - 15, 60),
    )
    builder.add_pair(
        "volume",
        "groin_fold",
        builder.outward(-1.4 * groin),
        lambda j: smoothstep(lifted(j), 0, 90),
    )
    builder.add_pair(
        "volume",
        "hip_side",
        builder.outward(2.0 * gaussian_ball(builder, hip, 8.5, (7, 2, 0)) * mask),
        lambda j: saturate(spread(j), 25) + 0.5 * saturate(lifted(j), 45),
    )
    builder.add_pair(
        "slide",
        "hip_skin",
        builder.along_skin(
            2.4 * gaussian_ball(builder, hip, 11.0, (6, 4, 2)) * mask, np.array([0, -0.5, 0.85])
        ),
        lambda j: saturate(lifted(j), 30),
    )
    builder.add_pair(
        "muscle",
        "adductor",
        builder.outward(1.8 * gaussian_ball(builder, hip, 9.0, (-6, -14, 0)) * mask),
        lambda j: -saturate(spread(j), 22) + 0.4 * j["flex"],
    )
    builder.add_pair(
        "slide",
        "hip_turn",
        builder.along_skin(2.0 * gaussian_ball(builder, hip, 11.0, (4, -6, 3)) * mask, FORWARD),
        lambda j: saturate(j.twist("upperleg01", "upperleg02"), 22),
    )
    thigh = builder.region("upperleg01.L", "lowerleg01.L", "upperleg02.L", names)
    builder.add_pair(
        "crease",
        "groin",
        0.45 * folds(builder, thigh, 0.08, 0.09, 4.0, -thigh.fold),
        lambda j: smoothstep(lifted(j), 30, 95),
    )
