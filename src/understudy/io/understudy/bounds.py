"""The `Bounds` of a deformer in a `.understudy` file: arrays whose names start with `bounds.`, and
an entry `bounds` of the header, {"fade_end": number}. Both are optional.

They are never narrowed: they are small, and distances need 32 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.core.bounds import Bounds
from understudy.core.errors import InputError

PREFIX = "bounds."
NAMES = ("low", "high", "group", "units", "features", "scale", "centres")


def bounds_arrays(bounds: Bounds) -> dict[str, np.ndarray]:
    """Return the arrays of bounds by name."""
    return {f"{PREFIX}{name}": np.ascontiguousarray(getattr(bounds, name)) for name in NAMES}


def bounds_entry(bounds: Bounds) -> dict[str, Any]:
    """Return what the header says about bounds."""
    return {"fade_end": bounds.fade_end}


def read_bounds(arrays: dict[str, np.ndarray], about: Any) -> Bounds:
    """Return the bounds of a file; about: the header's `bounds`."""
    if not isinstance(about, dict):
        raise InputError(f"the header's bounds is a {type(about).__name__}, expected a dict")
    end = about["fade_end"]
    if type(end) not in (int, float):
        raise InputError(f"bounds fade_end: expected a number, got {end!r}")
    return Bounds(**{name: arrays[f"{PREFIX}{name}"] for name in NAMES}, fade_end=end)
