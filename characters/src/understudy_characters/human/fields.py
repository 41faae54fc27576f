"""Displacement fields of unit size in rest space: a ball, a bulge, folds, a rotation about an axis.

The correctives scale them to centimetres.
"""

from __future__ import annotations

import numpy as np

from understudy_characters.human.correctives import CorrectiveBuilder, Region

UP = np.array([0.0, 1.0, 0.0])
FORWARD = np.array([0.0, 0.0, 1.0])
LEFT = np.array([1.0, 0.0, 0.0])


def gaussian_ball(
    builder: CorrectiveBuilder,
    centre: np.ndarray,
    radius: float,
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> np.ndarray:
    """(V,) a Gaussian around a point.

    centre  (3,) a landmark
    radius  cm
    shift   cm to the left, up and forward of the landmark
    """
    return np.exp(-np.sum((builder.points - centre - shift) ** 2, axis=1) / radius**2)


def sideways_bulge(
    builder: CorrectiveBuilder, region: Region, ball: np.ndarray, rounds: int = 3
) -> np.ndarray:
    """(V,3) flesh pushed out of a closing joint along its hinge, to both sides, up to 1.

    ball    (V,) where, 0 to 1
    rounds  of smoothing
    """
    width = max(np.quantile(region.radius[ball > 0.3], 0.8), 1e-6)
    side = np.clip(region.radial @ region.side / width, -1, 1)
    return builder.smooth((ball * side)[:, None] * region.side, rounds)


def folds(
    builder: CorrectiveBuilder,
    region: Region,
    centre: float,
    width: float,
    wave: float,
    facing: np.ndarray,
) -> np.ndarray:
    """(V,3) folds across a limb, crest to trough 2.

    centre, width  of the Gaussian band along the region, relative to its length
    wave           cm from fold to fold
    facing         (3,) the side of the limb that has the folds
    """
    phase = 2 * np.pi * (region.u - centre) * region.length / wave
    return builder.outward(
        region.mask * region.band(centre, width) * region.toward(facing, 2) * -np.cos(phase), 1
    )


def axial_rotation(region: Region, amount: np.ndarray) -> np.ndarray:
    """(V,3) a small rotation of `amount` (V,) radians about the axis: axis cross radial."""
    return amount[:, None] * np.cross(region.axis, region.radial)
