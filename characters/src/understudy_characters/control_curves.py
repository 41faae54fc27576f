"""Building blocks of authored control curves."""

from __future__ import annotations

import numpy as np


def drift(t: np.ndarray, seed: float, period: float = 3.0) -> np.ndarray:
    """A slow drift between -1 and 1: the sum of three sines of unrelated periods.

    t       (T,) seconds
    seed    any number; it chooses the phases
    period  seconds, of the main sine
    """
    w = 2 * np.pi / period
    return (
        np.sin(w * t + seed)
        + 0.6 * np.sin(1.618 * w * t + 2.3 * seed)
        + 0.4 * np.sin(0.414 * w * t + 3.7 * seed)
    ) / 2.0
