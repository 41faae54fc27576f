"""Arrays of a 16-bit file in the narrow type that `form.Entry.narrow` gives them.

    half       16-bit floats; in a 16-bit file always
    whole      8 or 16 bits, or differences of neighbours (`NAME.steps`), where all numbers fit
    grid       16-bit whole numbers with the grid beside them (`NAME.grid`), where that is exact:
               see `understudy.core.storage`

Other arrays, and those that would not be exact, stay as they are.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from understudy.core.form import entry_of
from understudy.core.storage import from_grid, grid_of
from understudy.system import checks
from understudy.system.errors import InputError


def narrowed(entries: dict[str, Any]) -> dict[str, Any]:
    """Return entries by name, their arrays in the narrowest types that represent them exactly."""
    result: dict[str, Any] = {}
    for name, array in entries.items():
        narrow = getattr(entry_of(name), "narrow", "")
        found = None
        if narrow.endswith("grid"):
            found = grid_of(array if narrow == "grid" else array.reshape(-1, 1))
        if found is not None:
            result |= {name: found[0].reshape(array.shape), f"{name}.grid": found[1]}
        elif narrow == "whole":
            result |= _narrow_integers(name, array)
        else:
            result[name] = array.astype(np.float16) if narrow == "half" else array
    return result


def widened(arrays: dict[str, np.ndarray], half: bool) -> dict[str, np.ndarray]:
    """Return the arrays that were given to `narrowed`; what cannot be one is an `InputError`.

    half  whether the file is in 16 bits: then entries that are narrowed to "half" are in them
    """
    result: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        of, _, what = name.rpartition(".")
        if what == "steps":
            if of in arrays:
                raise InputError(f"{of}: stored twice, as numbers and as steps")
            _need_narrow(of, "whole", name)
            checks.one_of(array.dtype.name, f"type of {name}", ("int8", "int16"))
            numbers = np.cumsum(array, dtype=np.int64).reshape(array.shape)
            result[of] = checks.within(numbers, name, np.int32)
        elif what == "grid":
            _need_narrow(of, "grid", name)
            if of not in arrays or arrays[of].dtype != np.uint16:
                raise InputError(f"{name}: there is no array {of} of uint16")
        else:
            result[name] = _widened(name, array, arrays.get(f"{name}.grid"), half)
    return result


def _widened(name: str, array: np.ndarray, grid: np.ndarray | None, half: bool) -> np.ndarray:
    """Return one array, which is not stored as steps, in the type of its entry."""
    narrow = getattr(entry_of(name), "narrow", "")
    if grid is not None:
        checks.one_of(grid.dtype.name, f"type of {name}.grid", ("float32",))
        grid = checks.array(grid, f"{name}.grid", (2, None))
        widths = (1, *array.shape[-1:])
        if array.dtype != np.uint16 or not array.ndim or grid.shape[1] not in widths:
            raise InputError(f"{name}.grid: does not fit {name}")
        return from_grid(array, grid)
    if narrow == "whole" and array.dtype in (np.uint8, np.uint16):
        return array.astype(np.int32)
    if narrow == "half" and half:
        checks.one_of(array.dtype.name, f"type of array {name}", ("float16",))
        return array.astype(np.float32)
    if array.dtype == bool and array.view(np.uint8).max(initial=0) > 1:
        raise InputError(f"{name}: a truth value is neither 0 nor 1")
    return array


def base_of(name: str) -> str:
    """Return the name of the array that an array of a file belongs to.

    >>> base_of("mean.grid")
    'mean'
    """
    return re.sub(r"\.(steps|grid)$", "", name)


def _need_narrow(of: str, narrow: str, name: str) -> None:
    """Raise unless the entry `of` may be stored so; name: of the array that says it is."""
    if not getattr(entry_of(of), "narrow", "").endswith(narrow):
        raise InputError(f"{name}: no array {of} is stored so")


def _narrow_integers(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return whole numbers, or their differences, in 8 or 16 bits if they fit."""
    flat = values.reshape(-1).astype(np.int64)
    steps = np.diff(flat, prepend=0)
    for bits in (8, 16):
        for numbers, kind, to in (
            (flat, f"uint{bits}", name),
            (steps, f"int{bits}", f"{name}.steps"),
        ):
            limits = np.iinfo(kind)
            if not numbers.size or (numbers.min() >= limits.min and numbers.max() <= limits.max):
                return {to: numbers.astype(kind).reshape(values.shape)}
    return {name: values}
