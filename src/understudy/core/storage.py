"""Numbers in 16 bits: half-precision floats, and whole numbers on a grid.

A grid is `low + number * step`, with numbers of 16 bits. The step is a power of two, so that sums
of such numbers are exact.
"""

from __future__ import annotations

import numpy as np

_GRID_LAST = 65535
_SMALLEST_STEP = 2.0**-126  # of a normal 32-bit float


def is_half(values: np.ndarray) -> bool:
    """Return whether 16-bit floats represent these numbers exactly."""
    with np.errstate(over="ignore"):
        return np.array_equal(values.astype(np.float16).astype(np.float32), values)


def grid_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return whole numbers and a grid that give `values` back exactly; None: there is no grid.

    values   (n,d) float32
    numbers  (n,d) uint16; grid: (2,d) float32, lows and steps

    >>> numbers, grid = grid_of(np.array([[1.5], [1.25], [2.0]], np.float32))
    >>> from_grid(numbers, grid).tolist()
    [[1.5], [1.25], [2.0]]
    """
    if not values.size:
        return None
    low = values.min(axis=0).astype(np.float64)
    step = grid_step(values.max(axis=0) - low)
    numbers = np.rint((values - low) / step).astype(np.uint16)
    grid = np.stack([low, step]).astype(np.float32)
    return (numbers, grid) if np.array_equal(from_grid(numbers, grid), values) else None


def from_grid(numbers: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return the values (n,d) float32 of numbers (n,d) uint16 on a grid (2,d) float32.

    A number times a power of two is exact. Only the sum is rounded, so every processor gives the
    same result.
    """
    # A damaged file may overflow; its values are checked afterwards.
    with np.errstate(over="ignore", invalid="ignore"):
        return grid[0] + numbers.astype(np.float32) * grid[1]


def grid_step(extent: np.ndarray, spare: int = 0) -> np.ndarray:
    """Return the smallest power of two of which 65535 - `spare` steps cover each extent."""
    mantissa, exponent = np.frexp(extent / (_GRID_LAST - spare))
    step = np.ldexp(1.0, np.where(mantissa == 0.5, exponent - 1, exponent))
    return np.where(extent > 0, np.maximum(step, _SMALLEST_STEP), _SMALLEST_STEP)
