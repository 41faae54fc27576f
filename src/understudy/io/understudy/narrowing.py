"""Arrays of a 16-bit file in the narrowest type that represents them exactly.

Indices have 8 or 16 bits, or are stored as differences (`NAME.steps`). Numbers on a grid (see
`understudy.core.storage`) have 16 bits, with the grid beside them (`NAME.grid`). Other arrays stay
as they are.
"""

from __future__ import annotations

import numpy as np

from understudy.core.storage import from_grid, grid_of
from understudy.system import checks
from understudy.system.errors import InputError

_ON_GRIDS = ("mesh.vertices", "mesh.corner_uvs", "mesh.corner_normals", "mean", "skin.weight")


def _on_grid(name: str) -> bool:
    """Return whether the numbers of an array may be on a grid."""
    return name in _ON_GRIDS or (name.startswith("clip.") and name.endswith(".values"))


def narrowed(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays by name in the narrowest types that represent them exactly."""
    result: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        found = None
        if _on_grid(name):
            found = grid_of(array.reshape(-1, 1) if name == "skin.weight" else array)
        if found is not None:
            result |= {name: found[0].reshape(array.shape), f"{name}.grid": found[1]}
        elif array.dtype == np.int32:
            result |= _narrow_integers(name, array)
        else:
            result[name] = array
    return result


def widened(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays that were given to `narrowed`; what cannot be one is an `InputError`."""
    result = dict(arrays)
    for name in sorted(arrays):
        of, _, what = name.rpartition(".")
        if what == "steps":
            if of in arrays:
                raise InputError(f"{of}: stored twice, as numbers and as steps")
            steps = result.pop(name)
            checks.one_of(steps.dtype.name, f"type of {name}", ("int8", "int16"))
            numbers = np.cumsum(steps, dtype=np.int64).reshape(steps.shape)
            result[of] = checks.within(numbers, name, np.int32)
        elif what == "grid":
            if of not in arrays:
                raise InputError(f"{name}: there is no array {of}")
            numbers, grid = arrays[of], result.pop(name)
            checks.one_of(grid.dtype.name, f"type of {name}", ("float32",))
            grid = checks.array(grid, name, (2, None))
            widths = (1, *numbers.shape[-1:])
            if numbers.dtype != np.uint16 or not numbers.ndim or grid.shape[1] not in widths:
                raise InputError(f"{name}: does not fit {of}")
            result[of] = from_grid(numbers, grid)
    for name in filter(result.__contains__, _ON_GRIDS):
        checks.kind_of(result[name], name, "f")  # whole numbers here have lost their grid
    return result


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
