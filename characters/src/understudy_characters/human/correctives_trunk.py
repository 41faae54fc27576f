"""Correctives of torso and neck: rolls of belly and flanks, sliding skin, breath, neck tendons.

The torso bends at the waist (three spine bones) and at the chest (two). Every driver sums the
angles of one of these joints, so it reads one bend instead of several. Sideways bending and twist
change sign in the mirror: their fields are either paired (each flank rolls when bent to its side)
or antisymmetric (skin that rotates about the axis of the body). Breath is numeric: the ribs widen
and lift at once, the belly follows late (a square), the shoulders move along (tanh). Sizes are in
centimetres at full effect, before `correctives.STRENGTH`.
"""

from __future__ import annotations

import numpy as np

from understudy_characters.human.correctives import (
    CorrectiveBuilder,
    saturate,
    smoothstep,
    soft_ramp,
)
from understudy_characters.human.fields import FORWARD, LEFT, UP, axial_rotation, folds


def add_trunk_correctives(builder: CorrectiveBuilder) -> None:
    """Add the correctives of torso and neck."""
    _torso(builder)
    _neck(builder)


def _torso(builder: CorrectiveBuilder) -> None:
    names = [n for n in builder.bones if n.startswith(("spine", "breast", "pelvis", "root"))]
    torso = builder.region("spine05", "neck01", "spine03", names)
    waist, chest = ("spine05", "spine04", "spine03"), ("spine02", "spine01")
    front, back = torso.toward(FORWARD), torso.toward(-FORWARD)
    left = torso.toward(LEFT)
    builder.add_symmetric(
        "stretch",
        "torso_thin",
        builder.smooth((torso.mask * torso.band(0.4, 0.5))[:, None] * torso.radial, 3),
        lambda j: j.stretch("spine04") ** -1.6 - 1.0,
    )
    belly, ribs = torso.mask * torso.band(0.16, 0.16), torso.mask * torso.band(0.7, 0.24)
    builder.add_symmetric(
        "muscle",
        "abdominals",
        builder.target("stomach/stomach-tone-incr", 1.0, 1.6),
        lambda j: saturate(j.flex(*waist), 20) + 0.9 * j["flex"],
    )
    builder.add_symmetric(
        "volume",
        "belly_roll",
        builder.outward(2.6 * belly * front),
        lambda j: soft_ramp(j.flex(*waist), 25),
    )
    builder.add_symmetric(
        "volume",
        "belly_hollow",
        builder.outward(-1.5 * torso.mask * torso.band(0.32, 0.16) * front),
        lambda j: saturate(-j.flex(*waist) - 0.5 * j.flex(*chest), 18),
    )
    builder.add_pair(
        "volume",
        "flank_roll",
        builder.outward(2.3 * torso.mask * torso.band(0.22, 0.15) * left**2),
        lambda j: saturate(-j.side(*waist), 14) + 0.4 * soft_ramp(-j.side(*waist), 20),
    )
    builder.add_pair(
        "volume",
        "back_column",
        builder.outward(1.5 * torso.mask * torso.band(0.25, 0.25) * back * left),
        lambda j: (
            -saturate(j.flex(*waist), 16) + 0.5 * saturate(j.side(*waist), 14) + 0.3 * j["flex"]
        ),
    )
    slide = torso.mask * torso.band(0.3, 0.3)
    builder.add_symmetric(
        "slide",
        "back_skin",
        builder.along_skin(2.6 * slide * back, UP),
        lambda j: saturate(j.flex(*waist), 18),
    )
    builder.add_symmetric(
        "slide",
        "front_skin",
        builder.along_skin(-2.2 * slide * front, UP),
        lambda j: saturate(j.flex(*waist), 18),
    )
    builder.add_pair(
        "slide",
        "flank_skin",
        builder.along_skin(2.0 * slide * left**2, UP),
        lambda j: saturate(j.side(*waist), 13),
    )
    builder.add_antisymmetric(
        "slide",
        "waist_turn",
        builder.smooth(axial_rotation(torso, 0.17 * torso.mask * torso.band(0.15, 0.18)), 3),
        lambda j: saturate(j.twist(*waist), 14),
    )
    builder.add_antisymmetric(
        "slide",
        "chest_turn",
        builder.smooth(axial_rotation(torso, 0.15 * torso.mask * torso.band(0.6, 0.2)), 3),
        lambda j: saturate(j.twist(*chest), 12),
    )
    builder.add_pair(
        "volume",
        "twist_flank",
        builder.outward(1.5 * torso.mask * torso.band(0.3, 0.2) * left**2),
        lambda j: saturate(j.twist(*waist), 16),
    )
    builder.add_symmetric(
        "slide",
        "chest_front",
        builder.along_skin(-2.0 * torso.mask * torso.band(0.65, 0.2) * front, UP),
        lambda j: saturate(j.flex(*chest), 14),
    )
    builder.add_symmetric(
        "slide",
        "chest_back",
        builder.along_skin(2.0 * torso.mask * torso.band(0.65, 0.22) * back, UP),
        lambda j: saturate(j.flex(*chest), 14),
    )
    builder.add_pair(
        "volume",
        "ribs",
        builder.outward(1.3 * torso.mask * torso.band(0.5, 0.15) * left**2),
        lambda j: saturate(j.side(*chest), 10),
    )
    builder.add_symmetric(
        "crease",
        "belly",
        0.6 * folds(builder, torso, 0.17, 0.13, 5.5, FORWARD),
        lambda j: smoothstep(j.flex(*waist), 8, 45),
    )
    builder.add_pair(
        "crease",
        "flank",
        0.5 * folds(builder, torso, 0.24, 0.1, 4.5, LEFT),
        lambda j: smoothstep(-j.side(*waist), 6, 26),
    )
    # breath: ribs widen and lift at once, the belly follows late (square), the shoulders ride along
    # (root)
    lift = builder.smooth(
        (ribs * (0.35 + 0.65 * front))[:, None] * (0.75 * builder.normals + 0.45 * UP), 3
    )
    builder.add_symmetric(
        "breath", "ribs", 2.1 * lift, lambda j: j["breath"] * (1.35 - 0.35 * j["breath"])
    )
    builder.add_symmetric(
        "breath",
        "belly",
        builder.outward(2.2 * torso.mask * torso.band(0.2, 0.22) * front),
        lambda j: j["breath"] ** 2 - 0.45 * j["breath"],
    )
    top = builder.smooth(
        builder.weight(["clavicle.L", "clavicle.R", "shoulder01.L", "shoulder01.R", "spine01"]), 4
    )
    builder.add_symmetric(
        "breath",
        "shoulders",
        builder.smooth((1.3 * top)[:, None] * UP, 2),
        lambda j: np.tanh(1.5 * j["breath"]),
    )


def _neck(builder: CorrectiveBuilder) -> None:
    names = ["neck01", "neck02", "neck03"]
    neck = builder.region("neck01", "head", "neck02", names)
    turn = ("neck01", "neck02", "neck03", "head")
    wide = neck.mask
    builder.add_symmetric(
        "stretch",
        "neck_thin",
        builder.smooth(wide[:, None] * neck.radial, 3),
        lambda j: j.stretch("neck02") ** -1.6 - 1.0,
    )
    cord = wide * neck.toward(np.array([0.75, 0.0, 0.66]), 4)
    builder.add_pair(
        "muscle",
        "neck_cord",
        builder.outward(1.5 * cord),
        lambda j: -saturate(j.twist(*turn), 22) + 0.7 * j["flex"],
    )
    builder.add_antisymmetric(
        "slide",
        "neck_turn",
        builder.smooth(axial_rotation(neck, 0.26 * wide), 3),
        lambda j: saturate(j.twist(*turn), 20),
    )
    builder.add_symmetric(
        "volume",
        "nape",
        builder.outward(1.6 * wide * neck.toward(-FORWARD)),
        lambda j: -saturate(j.flex(*turn), 20),
    )
    builder.add_symmetric(
        "volume",
        "throat",
        builder.outward(1.5 * wide * neck.toward(FORWARD)),
        lambda j: saturate(j.flex(*turn), 18),
    )
    builder.add_pair(
        "volume",
        "neck_side",
        builder.outward(1.5 * wide * neck.toward(LEFT, 2)),
        lambda j: -saturate(j.side(*turn), 15),
    )
    builder.add_symmetric(
        "slide",
        "throat_skin",
        builder.along_skin(-1.8 * wide * neck.toward(FORWARD), UP),
        lambda j: saturate(j.flex(*turn), 16),
    )
    builder.add_symmetric(
        "slide",
        "nape_skin",
        builder.along_skin(1.8 * wide * neck.toward(-FORWARD), UP),
        lambda j: saturate(j.flex(*turn), 16),
    )
    builder.add_symmetric(
        "muscle",
        "double_chin",
        builder.target("neck/neck-double-incr", 1.0, 1.6),
        lambda j: (
            soft_ramp(j.flex("head", "neck03") - 4, 18) + 0.5 * smoothstep(j.flex("jaw"), 0, 26)
        ),
    )
    builder.add_symmetric(
        "crease",
        "neck",
        0.35 * folds(builder, neck, 0.45, 0.4, 2.6, FORWARD),
        lambda j: smoothstep(j.flex(*turn), 8, 45),
    )
    builder.add_pair(
        "crease",
        "neck_side",
        0.3 * folds(builder, neck, 0.5, 0.4, 2.6, LEFT),
        lambda j: smoothstep(-j.side(*turn), 6, 32),
    )
    builder.add_symmetric(
        "breath",
        "throat",
        builder.outward(0.7 * wide * neck.toward(FORWARD)),
        lambda j: -(j["breath"] ** 2),
    )
