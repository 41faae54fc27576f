"""Sculpts of torso and neck: belly and flanks roll, skin slides over ribs and spine, the chest
breathes, cords rise on a turned neck.

The torso bends at the waist (three spine bones) and at the chest (two); every driver sums the
angles of one of these joints, so it reads one bend, not five. Sideways bending and twist are odd in
the mirror: their fields are either paired (each flank rolls when bent to its side) or made
antisymmetric (skin that turns about the body's axis). Breath is numeric: ribs widen and lift at
once, the belly follows late (a square), the shoulders ride along (tanh). Sizes are centimetres at
full effect, before the dial of sculpt.py.
"""

from __future__ import annotations

import numpy as np

from understudy.rigs.human.sculpt import Bench, above, rise, saturate
from understudy.rigs.human.shapes import FORWARD, LEFT, UP, around, corrugation


def sculpt_trunk(bench: Bench) -> None:
    """Add the sculpts of torso and neck to the bench."""
    _torso(bench)
    _neck(bench)


def _torso(bench: Bench) -> None:
    names = [n for n in bench.bones if n.startswith(("spine", "breast", "pelvis", "root"))]
    torso = bench.region("spine05", "neck01", "spine03", names)
    waist, chest = ("spine05", "spine04", "spine03"), ("spine02", "spine01")
    front, back = torso.toward(FORWARD), torso.toward(-FORWARD)
    left = torso.toward(LEFT)
    bench.middle(
        "stretch",
        "torso_thin",
        bench.smooth((torso.mask * torso.band(0.4, 0.5))[:, None] * torso.radial, 3),
        lambda j: j.stretch("spine04") ** -1.6 - 1.0,
    )
    belly, ribs = torso.mask * torso.band(0.16, 0.16), torso.mask * torso.band(0.7, 0.24)
    bench.middle(
        "muscle",
        "abdominals",
        bench.target("stomach/stomach-tone-incr", 1.0, 1.6),
        lambda j: saturate(j.flex(*waist), 20) + 0.9 * j["flex"],
    )
    bench.middle(
        "volume",
        "belly_roll",
        bench.outward(2.6 * belly * front),
        lambda j: above(j.flex(*waist), 25),
    )
    bench.middle(
        "volume",
        "belly_hollow",
        bench.outward(-1.5 * torso.mask * torso.band(0.32, 0.16) * front),
        lambda j: saturate(-j.flex(*waist) - 0.5 * j.flex(*chest), 18),
    )
    bench.pair(
        "volume",
        "flank_roll",
        bench.outward(2.3 * torso.mask * torso.band(0.22, 0.15) * left**2),
        lambda j: saturate(-j.side(*waist), 14) + 0.4 * above(-j.side(*waist), 20),
    )
    bench.pair(
        "volume",
        "back_column",
        bench.outward(1.5 * torso.mask * torso.band(0.25, 0.25) * back * left),
        lambda j: (
            -saturate(j.flex(*waist), 16) + 0.5 * saturate(j.side(*waist), 14) + 0.3 * j["flex"]
        ),
    )
    slide = torso.mask * torso.band(0.3, 0.3)
    bench.middle(
        "slide",
        "back_skin",
        bench.along_skin(2.6 * slide * back, UP),
        lambda j: saturate(j.flex(*waist), 18),
    )
    bench.middle(
        "slide",
        "front_skin",
        bench.along_skin(-2.2 * slide * front, UP),
        lambda j: saturate(j.flex(*waist), 18),
    )
    bench.pair(
        "slide",
        "flank_skin",
        bench.along_skin(2.0 * slide * left**2, UP),
        lambda j: saturate(j.side(*waist), 13),
    )
    bench.odd(
        "slide",
        "waist_turn",
        bench.smooth(around(torso, 0.17 * torso.mask * torso.band(0.15, 0.18)), 3),
        lambda j: saturate(j.twist(*waist), 14),
    )
    bench.odd(
        "slide",
        "chest_turn",
        bench.smooth(around(torso, 0.15 * torso.mask * torso.band(0.6, 0.2)), 3),
        lambda j: saturate(j.twist(*chest), 12),
    )
    bench.pair(
        "volume",
        "twist_flank",
        bench.outward(1.5 * torso.mask * torso.band(0.3, 0.2) * left**2),
        lambda j: saturate(j.twist(*waist), 16),
    )
    bench.middle(
        "slide",
        "chest_front",
        bench.along_skin(-2.0 * torso.mask * torso.band(0.65, 0.2) * front, UP),
        lambda j: saturate(j.flex(*chest), 14),
    )
    bench.middle(
        "slide",
        "chest_back",
        bench.along_skin(2.0 * torso.mask * torso.band(0.65, 0.22) * back, UP),
        lambda j: saturate(j.flex(*chest), 14),
    )
    bench.pair(
        "volume",
        "ribs",
        bench.outward(1.3 * torso.mask * torso.band(0.5, 0.15) * left**2),
        lambda j: saturate(j.side(*chest), 10),
    )
    bench.middle(
        "crease",
        "belly",
        0.6 * corrugation(bench, torso, 0.17, 0.13, 5.5, FORWARD),
        lambda j: rise(j.flex(*waist), 8, 45),
    )
    bench.pair(
        "crease",
        "flank",
        0.5 * corrugation(bench, torso, 0.24, 0.1, 4.5, LEFT),
        lambda j: rise(-j.side(*waist), 6, 26),
    )
    # breath: ribs widen and lift at once, the belly follows late (square), the shoulders ride along
    # (root)
    lift = bench.smooth(
        (ribs * (0.35 + 0.65 * front))[:, None] * (0.75 * bench.normals + 0.45 * UP), 3
    )
    bench.middle("breath", "ribs", 2.1 * lift, lambda j: j["breath"] * (1.35 - 0.35 * j["breath"]))
    bench.middle(
        "breath",
        "belly",
        bench.outward(2.2 * torso.mask * torso.band(0.2, 0.22) * front),
        lambda j: j["breath"] ** 2 - 0.45 * j["breath"],
    )
    top = bench.smooth(
        bench.weight(["clavicle.L", "clavicle.R", "shoulder01.L", "shoulder01.R", "spine01"]), 4
    )
    bench.middle(
        "breath",
        "shoulders",
        bench.smooth((1.3 * top)[:, None] * UP, 2),
        lambda j: np.tanh(1.5 * j["breath"]),
    )


def _neck(bench: Bench) -> None:
    names = ["neck01", "neck02", "neck03"]
    neck = bench.region("neck01", "head", "neck02", names)
    turn = ("neck01", "neck02", "neck03", "head")
    wide = neck.mask
    bench.middle(
        "stretch",
        "neck_thin",
        bench.smooth(wide[:, None] * neck.radial, 3),
        lambda j: j.stretch("neck02") ** -1.6 - 1.0,
    )
    cord = wide * neck.toward(np.array([0.75, 0.0, 0.66]), 4)
    bench.pair(
        "muscle",
        "neck_cord",
        bench.outward(1.5 * cord),
        lambda j: -saturate(j.twist(*turn), 22) + 0.7 * j["flex"],
    )
    bench.odd(
        "slide",
        "neck_turn",
        bench.smooth(around(neck, 0.26 * wide), 3),
        lambda j: saturate(j.twist(*turn), 20),
    )
    bench.middle(
        "volume",
        "nape",
        bench.outward(1.6 * wide * neck.toward(-FORWARD)),
        lambda j: -saturate(j.flex(*turn), 20),
    )
    bench.middle(
        "volume",
        "throat",
        bench.outward(1.5 * wide * neck.toward(FORWARD)),
        lambda j: saturate(j.flex(*turn), 18),
    )
    bench.pair(
        "volume",
        "neck_side",
        bench.outward(1.5 * wide * neck.toward(LEFT, 2)),
        lambda j: -saturate(j.side(*turn), 15),
    )
    bench.middle(
        "slide",
        "throat_skin",
        bench.along_skin(-1.8 * wide * neck.toward(FORWARD), UP),
        lambda j: saturate(j.flex(*turn), 16),
    )
    bench.middle(
        "slide",
        "nape_skin",
        bench.along_skin(1.8 * wide * neck.toward(-FORWARD), UP),
        lambda j: saturate(j.flex(*turn), 16),
    )
    bench.middle(
        "muscle",
        "double_chin",
        bench.target("neck/neck-double-incr", 1.0, 1.6),
        lambda j: above(j.flex("head", "neck03") - 4, 18) + 0.5 * rise(j.flex("jaw"), 0, 26),
    )
    bench.middle(
        "crease",
        "neck",
        0.35 * corrugation(bench, neck, 0.45, 0.4, 2.6, FORWARD),
        lambda j: rise(j.flex(*turn), 8, 45),
    )
    bench.pair(
        "crease",
        "neck_side",
        0.3 * corrugation(bench, neck, 0.5, 0.4, 2.6, LEFT),
        lambda j: rise(-j.side(*turn), 6, 32),
    )
    bench.middle(
        "breath",
        "throat",
        bench.outward(0.7 * wide * neck.toward(FORWARD)),
        lambda j: -(j["breath"] ** 2),
    )
