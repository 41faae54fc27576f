"""Arrays out of a `.npz` file that nobody vouches for: no pickles, and no more memory than it says.

A `.npz` is a zip archive of `.npy` files. The sizes it declares are checked before anything is
unpacked, so a small file cannot fill the memory (a "zip bomb").
Single values, texts, and the attributes of a mesh have one form in all of them: that of the table
in `docs/formats.md`.
"""

from __future__ import annotations

import difflib
import lzma
import math
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.mesh import Mesh
from understudy.system import checks
from understudy.system.errors import FileError, InputError

# What zipfile and NumPy raise on a file that is damaged, truncated or something else.
UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)
# Positions of an animation compress to a third; a mesh that does not move, to a hundredth.
_MAX_RATIO = 300
_ALWAYS_ALLOWED = 1 << 30  # bytes
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


def array_names(path: str | Path) -> tuple[str, ...]:
    """Return the names of the arrays in a `.npz` file; `FileError` if it is not one."""
    with _opened(path) as archive:
        return tuple(_members(archive))


def read_arrays(path: str | Path, wanted: Collection[str]) -> dict[str, np.ndarray]:
    """Return those arrays of a `.npz` file that are named in `wanted`, by name.

    Other arrays are not unpacked. Pickled objects are refused, and so is a file whose arrays are
    implausibly large for its size.
    """
    with _opened(path) as archive:
        members = {name: info for name, info in _members(archive).items() if name in wanted}
        total = sum(info.file_size for info in members.values())
        packed = sum(info.compress_size for info in members.values())
        if total > max(_ALWAYS_ALLOWED, _MAX_RATIO * packed):
            raise FileError(
                f"{path}: {packed:,} bytes claim to hold {total:,} bytes of arrays; it is damaged "
                "or made to fill the memory. Save it again with numpy.savez"
            )
        return {name: _read_array(archive, info, path, name) for name, info in members.items()}


def refuse_misspelled(path: str | Path, names: Collection[str], known: Collection[str]) -> None:
    """Raise if a name that is not known is close to one that is, and would be ignored."""
    for name in sorted(set(names) - set(known)):
        near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
        if near:
            raise FileError(f"{path}: unknown array {name!r}; did you mean {near[0]!r}?")


@contextmanager
def _opened(path: str | Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; what goes wrong inside the `with` block becomes a `FileError`."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileError:
        raise
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except UNREADABLE as problem:
        raise FileError(f"{path}: damaged, truncated or not a .npz file: {problem}") from problem


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the members of an archive by the name of their array."""
    return {info.filename.removesuffix(".npy"): info for info in archive.infolist()}


def _read_array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str | Path, name: str
) -> np.ndarray:
    """Return one array, after comparing the shape it declares with its size."""
    # NumPy would allocate whatever shape the header declares.
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f"the array {name} has the unknown format version {version}")
        if dtype.hasobject:
            raise FileError(
                f"{path}: the array {name!r} holds pickled Python objects, which are never loaded; "
                "save numbers, or names as numpy.array(names, dtype=str)"
            )
        if file.tell() + math.prod(shape) * dtype.itemsize != info.file_size:
            raise ValueError(f"the array {name} declares the shape {shape}, which does not fit it")
    with archive.open(info) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


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
