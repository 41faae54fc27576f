"""Displacement fields in the words of a sculptor: a ball, a push sideways, a corrugation, a turn
about an axis.

All return fields over the V vertices in rest space, of size one; the sculpts give them their
centimetres.
"""

from __future__ import annotations

import numpy as np

from understudy.rigs.human.sculpt import Bench, Region

UP = np.array([0.0, 1.0, 0.0])
FORWARD = np.array([0.0, 0.0, 1.0])
LEFT = np.array([1.0, 0.0, 0.0])


def blob(
    bench: Bench,
    centre: np.ndarray,
    radius: float,
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> np.ndarray:
    """(V,) a Gaussian ball around a landmark, or around a place `shift` cm from it (left, up,
    forward).
    """
    return np.exp(-np.sum((bench.points - centre - shift) ** 2, axis=1) / radius**2)


def sideways(bench: Bench, region: Region, ball: np.ndarray, rounds: int = 3) -> np.ndarray:
    """(V,3) flesh leaving a closing joint along its hinge, both ways, up to 1."""
    share = np.clip(
        region.radial @ region.side / max(np.quantile(region.radius[ball > 0.3], 0.8), 1e-6), -1, 1
    )
    return bench.smooth((ball * share)[:, None] * region.side, rounds)


def corrugation(
    bench: Bench, region: Region, centre: float, width: float, wave: float, facing: np.ndarray
) -> np.ndarray:
    """(V,3) folds across a limb: waves `wave` cm long under a Gaussian band, on the side that faces
    `facing`; crest to trough 2.
    """
    phase = 2 * np.pi * (region.u - centre) * region.length / wave
    return bench.outward(
        region.mask * region.band(centre, width) * region.toward(facing, 2) * -np.cos(phase), 1
    )


def around(region: Region, amount: np.ndarray) -> np.ndarray:
    """(V,3) a small turn of `amount` (V,) about the axis: axis cross radial."""
    return amount[:, None] * np.cross(region.axis, region.radial)
