"""The cases of `bench outside`: poses that leave the training range of a rig on purpose."""

from __future__ import annotations

import numpy as np

from understudy.core.poses import Poses
from understudy.rigs.base import Rig

COUNT = 60
KINDS = ("inside", "three-times", "corners", "rotations", "rotations-alone")


def outside_values(rig: Rig, count: int = COUNT, seed: int = 5) -> dict[str, np.ndarray]:
    """Kind -> control values (count,C) within the limits of the rig.

    inside           anywhere in the training ranges, for comparison
    three-times      the same, three times as far from the middle of the range
    corners          every control at an end of three times its range
    rotations        every rotation anywhere in the full circle, other controls inside
    rotations-alone  the same with all other controls at rest
    """
    random, spec = np.random.default_rng(seed), rig.controls
    middle, half = (spec.low + spec.high) / 2, (spec.high - spec.low) / 2
    inside = middle + random.uniform(-1, 1, (count, spec.count)) * half
    turns = np.array([unit == "deg" for unit in spec.units])
    anywhere = random.uniform(-180, 180, (count, spec.count))
    rest = np.broadcast_to(spec.rest, inside.shape)
    values = {
        "inside": inside,
        "three-times": middle + 3 * (inside - middle),
        "corners": middle + 3 * half * random.choice([-1.0, 1.0], inside.shape),
        "rotations": np.where(turns, anywhere, inside),
        "rotations-alone": np.where(turns, anywhere, rest),
    }
    return {kind: np.clip(given, spec.limit_low, spec.limit_high) for kind, given in values.items()}


def outside_poses(rig: Rig, count: int = COUNT) -> dict[str, Poses]:
    """Kind -> the poses of `outside_values`."""
    return {kind: rig.evaluate(values) for kind, values in outside_values(rig, count).items()}
