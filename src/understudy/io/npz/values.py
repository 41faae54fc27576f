"""Single values, texts and the attributes of a mesh in the arrays of a `.npz` file.

corner_uvs        (N,2)
corner_normals    (N,3)
materials         (M,) text
polygon_material  (F,)  index of each polygon's material
part_names        (P,) text
part_sizes        (P,)  vertices of each part
part_vertices     (n,)  their indices, part after part
unit, up_axis, handedness  text
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from understudy.core import checks
from understudy.core.errors import InputError
from understudy.core.mesh import Mesh

ATTRIBUTE_ARRAYS = (
    "corner_uvs",
    "corner_normals",
    "materials",
    "polygon_material",
    "part_names",
    "part_sizes",
    "part_vertices",
    "unit",
    "up_axis",
    "handedness",
)
Arrays = Mapping[str, np.ndarray]


def attribute_arrays(mesh: Mesh) -> dict[str, Any]:
    """Return the attributes of a mesh as arrays, those that it has."""
    arrays: dict[str, Any] = {"unit": mesh.unit}
    for name in ("corner_uvs", "corner_normals", "polygon_material"):
        if getattr(mesh, name) is not None:
            arrays[name] = getattr(mesh, name)
    if mesh.up_axis != "unknown":
        arrays["up_axis"] = mesh.up_axis
    if mesh.handedness != "right":
        arrays["handedness"] = mesh.handedness
    if mesh.materials:
        arrays["materials"] = np.array(mesh.materials, dtype=str)
    if mesh.parts:
        arrays["part_names"] = np.array(list(mesh.parts), dtype=str)
        arrays["part_sizes"] = np.array([len(part) for part in mesh.parts.values()])
        arrays["part_vertices"] = np.concatenate(list(mesh.parts.values()))
    return arrays


def mesh_attributes(arrays: Arrays) -> dict[str, Any]:
    """Return the attributes of a mesh, as `Mesh` takes them, from arrays of an untrusted file."""
    return {
        "corner_uvs": arrays.get("corner_uvs"),
        "corner_normals": arrays.get("corner_normals"),
        "materials": texts(arrays, "materials") or (),
        "polygon_material": arrays.get("polygon_material"),
        "parts": _parts(arrays),
        "unit": text(arrays, "unit") or "unitless",
        "up_axis": text(arrays, "up_axis") or "unknown",
        "handedness": text(arrays, "handedness") or "right",
    }


def _parts(arrays: Arrays) -> dict[str, np.ndarray]:
    """Return the parts by name."""
    wanted = ("part_names", "part_sizes", "part_vertices")
    given = [name for name in wanted if name in arrays]
    if not given:
        return {}
    if len(given) < len(wanted):
        raise InputError(f"{', '.join(wanted)} belong together: the file has only {given[0]}")
    names = texts(arrays, "part_names") or ()
    sizes = checks.index(arrays["part_sizes"], "part_sizes", 2**31, (len(names),))
    vertices = arrays["part_vertices"]
    total = int(sizes.sum(dtype=np.int64))
    checks.shape_of(vertices, "part_vertices", (total,))
    return dict(zip(names, np.split(vertices, np.cumsum(sizes)[:-1])))


def texts(arrays: Arrays, name: str, count: int | None = None) -> tuple[str, ...] | None:
    """Return an array of distinct texts, `count` if that is given; None: the file has none."""
    if name not in arrays:
        return None
    values = arrays[name]
    if values.dtype.kind not in "US":
        raise InputError(f"{name}: expected an array of text, got {values.dtype.name}")
    checks.shape_of(values, name, (count,))
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    return checks.names(values.tolist(), name, count)


def text(arrays: Arrays, name: str) -> str | None:
    """Return a single text; None: the file has none."""
    item = _single(arrays, name, "US", "text")
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else item


def number(arrays: Arrays, name: str) -> float | None:
    """Return a single number; None: the file has none."""
    item = _single(arrays, name, "iuf", "number")
    return None if item is None else float(item)


def _single(arrays: Arrays, name: str, kinds: str, what: str) -> Any:
    """Return the only value of an array whose dtype is one of `kinds`; None: the file has none."""
    if name not in arrays:
        return None
    value = arrays[name]
    if value.size != 1 or value.dtype.kind not in kinds:
        raise InputError(
            f"{name}: expected one {what}, got {value.dtype.name} of shape {value.shape}"
        )
    return value.reshape(-1)[0].item()
