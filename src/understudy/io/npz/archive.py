"""Arrays out of a `.npz` file that nobody vouches for: no pickles, and no more memory than it says.

A `.npz` is a zip archive of `.npy` files. The sizes it declares are checked before anything is
unpacked, so a small file cannot fill the memory (a "zip bomb").
Single values, texts, and the attributes of a mesh have one form in all of them: that of the table
in `docs/formats.md`.
"""

from __future__ import annotations

import ast
import difflib
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from understudy.core.mesh import Mesh
from understudy.io.budget import Budget
from understudy.system import checks
from understudy.system.errors import FileError, InputError

# What zipfile raises on a file that is damaged, truncated or something else.
UNREADABLE = (
    *(OSError, ValueError, EOFError, LookupError, OverflowError, RuntimeError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)
# Positions of an animation compress to a third; a mesh that does not move, to a hundredth.
_PER_BYTE = 300 * 8
# What an array takes on its way to a noun: a few copies in float64 of each number, of each text a
# Python object; of a frame, the checks of it.
_OF_NUMBER, _OF_TEXT, _OF_FRAME = 8 * 8, 400, 2000
_MOST_ARRAYS = 1000
_MOST_HEADER = 1000  # bytes; arrays have at most 64 axes
_PACKED_AS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)
_MOST_WINDOW = 64 << 20  # bytes that an array packed by LZMA may ask for beside its own
_TYPE = re.compile(r"[<>|=]?[biufUS]\d{1,9}")
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
        budget = Budget(path, Path(path).stat().st_size, _PER_BYTE)
        members, wanted = _members(archive), set(wanted)
        return {
            name: _read_array(archive, info, name, budget)
            for name, info in members.items()
            if name in wanted
        }


def refuse_misspelled(path: str | Path, names: Collection[str], known: Collection[str]) -> None:
    """Raise if a name that is not known is close to one that is, and would be ignored."""
    if len(names) > _MOST_ARRAYS:
        raise FileError(f"{path}: has {len(names):,} arrays, expected at most {_MOST_ARRAYS:,}")
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
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in found:
            raise ValueError(f"it has the array {name!r} twice")
        found[name] = info
    return found


def _read_array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, budget: Budget
) -> np.ndarray:
    """Return one array, read-only; nothing of it is unpacked before its header is checked.

    NumPy evaluates the header as Python, and allocates whatever shape it declares.
    """
    if info.compress_type not in _PACKED_AS:
        raise ValueError(f"the array {name} is packed in a way that is not read")
    if info.compress_type == zipfile.ZIP_LZMA and _window(archive, info) > _MOST_WINDOW:
        raise ValueError(f"the array {name} asks for too much memory to be unpacked")
    with archive.open(info) as file:
        start = file.read(8)
        width = {b"\x01\0": 2, b"\x02\0": 4, b"\x03\0": 4}.get(start[6:])
        if start[:6] != b"\x93NUMPY" or width is None:
            raise ValueError(f"{name} is not an array of a known version")
        length = int.from_bytes(file.read(width), "little")
        dtype, shape, order = _described(file.read(min(length, _MOST_HEADER)), budget.where, name)
        count = math.prod(shape)
        size = count * dtype.itemsize
        if 8 + width + length + size != info.file_size or (count and not size):
            raise ValueError(f"the array {name} declares the shape {shape}, which does not fit it")
        each = _OF_TEXT if dtype.kind in "US" else _OF_NUMBER
        frames = shape[0] if len(shape) > 2 else 0
        budget.take(max(count * each, 8 * size) + frames * _OF_FRAME, f"the array {name}")
        data = file.read(size + 1)
    return np.frombuffer(data, dtype, count).reshape(shape, order=order)


def _window(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Return the bytes that unpacking a member by LZMA allocates, which its first bytes claim."""
    assert archive.fp is not None
    place = archive.fp.tell()
    archive.fp.seek(info.header_offset)
    head = archive.fp.read(30)
    names = sum(struct.unpack("<HH", head[26:30])) if len(head) == 30 else 0
    archive.fp.seek(names, 1)
    packed = archive.fp.read(9)  # version, length of what follows, properties, window
    archive.fp.seek(place)
    return int.from_bytes(packed[5:9], "little")


def _described(
    header: bytes, path: object, name: str
) -> tuple[np.dtype, tuple[int, ...], Literal["C", "F"]]:
    """Return the type, the shape and the order of the numbers that an array's header states."""
    try:
        about = ast.literal_eval(header.decode("latin-1"))
        kind, shape, fortran = (about[key] for key in ("descr", "shape", "fortran_order"))
        if kind in ("|O", "O"):
            raise FileError(
                f"{path}: the array {name!r} holds pickled Python objects, which are never "
                "loaded; save numbers, or names as numpy.array(names, dtype=str)"
            )
        whole = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
        if len(about) == 3 and whole and type(fortran) is bool and _TYPE.fullmatch(kind):
            return np.dtype(kind), shape, "F" if fortran else "C"
    except (SyntaxError, TypeError, LookupError, MemoryError, RecursionError, OverflowError):
        pass
    raise ValueError(f"the array {name!r} holds neither numbers nor texts: {header[:80]!r}")


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
    return checks.names(_plain(values, name), name, count)


def text(arrays: Arrays, name: str) -> str | None:
    """Return a single text; None: the file has none."""
    return _single(arrays, name, "US", "text")


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
    return _plain(value.reshape(-1), name)[0]


def _plain(values: np.ndarray, name: str) -> list[Any]:
    """Return numbers or texts as Python has them."""
    wrong = InputError(f"{name}: has text that is not Unicode")
    if values.dtype.kind == "U":
        letters = np.ascontiguousarray(values).view(values.dtype.str[0] + "u4")
        if ((letters > 0x10FFFF) | (letters >> 11 == 0x1B)).any():  # none, or half of a pair
            raise wrong
    try:
        return (np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values).tolist()
    except UnicodeDecodeError:
        raise wrong from None
