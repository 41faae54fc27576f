"""PLY: one mesh per file, read in ASCII or binary of either byte order, written in binary.

Positions, polygons of any size, normals of vertices, texture coordinates (the list `texcoord` of a
polygon), materials (`material_index`) and objects (`object_index` of a vertex) are read and
written; everything else is ignored. Comments name materials and objects: `comment material 0 skin`.

Polygons of one size are records of one stride, and read without a loop. Those of mixed sizes are
followed from one record to the next, which takes time in proportion to the bytes of the file: no
count is believed before the bytes for it are there.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from understudy.core.mesh import Mesh
from understudy.io.atomic_write import atomic_write
from understudy.io.mesh_clips import FrameData
from understudy.io.mesh_objects import mesh_objects
from understudy.io.numbers import ragged, read_bytes, read_numbers, whole
from understudy.system import checks
from understudy.system.errors import FileError, InputError

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2",
    "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_ORDERS = {"ascii": "=", "binary_little_endian": "<", "binary_big_endian": ">"}
# What reads the size of a list, by byte order and type; in ASCII it is "=f8".
_SIZES = {
    o + k: struct.Struct(o + np.dtype(k).char) for o in _ORDERS.values() for k in _TYPES.values()
}
_INDEX = "vertex_indices"
_INDEX_NAMES = (_INDEX, "vertex_index")
_FACE_NAMES = (*_INDEX_NAMES, "texcoord", "material_index")
_Result = TypeVar("_Result")


class _Property(NamedTuple):
    name: str
    kind: str
    count_kind: str | None  # type of the length before a list; None: not a list


@dataclass
class _Element:
    name: str
    count: int
    properties: list[_Property]

    @property
    def fixed(self) -> bool:
        return all(p.count_kind is None for p in self.properties)


def read_ply_vertices(path: str | Path) -> FrameData:
    """Return the positions of a file, and the bytes of its header and everything after them."""
    file = _File(path)
    return file.guarded(lambda: FrameData(file.vertices(), file.after_vertices()))


def read_ply(path: str | Path) -> Mesh:
    """Return the mesh of a file; `FileError` says why there is none. Its up axis is unknown."""
    file = _File(path)
    return file.guarded(file.mesh)


def write_ply(
    path: str | Path,
    mesh: Mesh,
    vertices: np.ndarray | None = None,
    normals: np.ndarray | None = None,
) -> None:
    """Write `mesh`, or one frame of it at `vertices` (V,3), in binary, whole or not at all.

    normals  (V,3) of the vertices, or None: none are written

    Of parts that overlap, the first is kept (see `understudy.io.mesh_objects`).
    """
    points = mesh.vertices if vertices is None else vertices
    columns: list[np.ndarray] = [np.asarray(points, np.float32)]
    sizes = mesh.polygon_sizes.astype(np.int64)
    wide = "uint" if len(sizes) and 2 * sizes.max() > 255 else "uchar"
    comments, vertex, face = [], ["float x", "float y", "float z"], [f"list {wide} int {_INDEX}"]
    if normals is not None:
        vertex += ["float nx", "float ny", "float nz"]
        columns.append(np.asarray(normals, np.float32))
    if mesh.parts:
        objects = mesh_objects(mesh)
        index = np.full(mesh.vertex_count, -1, np.int32)
        for number, found in enumerate(objects):
            index[found.vertices] = number if found.name else -1
        comments += [f"object {k} {_word(o.name)}" for k, o in enumerate(objects) if o.name]
        vertex.append("int object_index")
        columns.append(index)
    fields: list[_Field] = [(wide, "int", mesh.polygon_vertices)]
    if mesh.corner_uvs is not None:
        face.append(f"list {wide} float texcoord")
        fields.append((wide, "float", mesh.corner_uvs.reshape(-1)))
    if mesh.materials and mesh.polygon_material is not None:
        comments += [f"material {k} {_word(name)}" for k, name in enumerate(mesh.materials)]
        face.append("int material_index")
        fields.append((None, "int", mesh.polygon_material))
    header = ["ply", "format binary_little_endian 1.0", *(f"comment {text}" for text in comments)]
    header += [f"element vertex {len(points)}", *(f"property {text}" for text in vertex)]
    header += [f"element face {len(sizes)}", *(f"property {text}" for text in face), "end_header"]
    with atomic_write(path) as part:
        text = "".join(f"{line}\n" for line in header)
        part.write_bytes(text.encode() + _body(columns, fields, sizes))


_Field = tuple[str | None, str, np.ndarray]  # type of the length (None: no list), type, values


def _body(columns: list[np.ndarray], fields: list[_Field], sizes: np.ndarray) -> bytes:
    """Return vertices and polygons as bytes.

    columns  of the vertices, (V,) or (V,n) each
    fields   of the polygons; a list has a multiple of `sizes` entries for each
    """
    rows = [c.astype("<" + c.dtype.str[1:]).reshape(len(c), -1) for c in columns]
    table = np.concatenate([r.view(np.uint8).reshape(len(r), -1) for r in rows], axis=1)
    pieces: list[tuple[np.ndarray, np.ndarray]] = []  # bytes, and how many for each polygon
    for count_kind, kind, values in fields:
        dtype = np.dtype("<" + _TYPES[kind])
        per = sizes * (len(values) // max(int(sizes.sum()), 1)) if count_kind else sizes * 0 + 1
        if count_kind:
            count = per.astype("<" + _TYPES[count_kind])
            pieces.append((count.view(np.uint8), np.full(len(sizes), count.dtype.itemsize)))
        pieces.append((values.astype(dtype).view(np.uint8), per * dtype.itemsize))
    total = np.sum([length for _, length in pieces], axis=0, dtype=np.int64)
    at = np.cumsum(total) - total
    body = np.empty(int(total.sum()), np.uint8)
    for data, length in pieces:
        body[ragged(at, length)] = data
        at = at + length
    return table.tobytes() + body.tobytes()


def _word(name: str) -> str:
    """Return a name without line breaks."""
    return " ".join(name.split())


class _File:
    """A file with its header read. Numbers in ASCII are made binary, so that all forms are one."""

    def __init__(self, path: str | Path):
        self.path = path
        data = read_bytes(path)
        if not data.startswith((b"ply\n", b"ply\r")):
            raise FileError(f"{path}: not a PLY file")
        end = data.find(b"\nend_header")
        line_end = data.find(b"\n", end + 1)
        if end < 0 or line_end < 0:
            raise FileError(f"{path}: truncated: the file ends inside its own header")
        self.order, self.elements = self.guarded(lambda: _header(data[:end]))
        self.head, self.body = data[:end], data[line_end + 1 :]
        if self.order == "=":
            self.body = self.guarded(lambda: read_numbers(self.body).tobytes())
        self._places: dict[str, tuple[int, int]] = {}  # of the elements, in bytes of the body
        self._lists: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # of the polygons

    def guarded(self, work: Callable[[], _Result]) -> _Result:
        """Return what `work` returns; what it raises becomes a `FileError`."""
        try:
            with np.errstate(all="ignore"):  # NaN and infinity are found in what is made of them
                return work()
        except FileError:
            raise
        except (ValueError, IndexError, KeyError, OverflowError, InputError) as problem:
            raise FileError(f"{self.path}: cannot be read as PLY: {problem}") from problem

    def mesh(self) -> Mesh:
        """Return the whole mesh."""
        sizes, corners = self.polygons()
        if self.body[self._find(self.elements[-1].name)[2] :].strip():
            raise ValueError("it has more data than its header describes")
        normals = self._vertex_columns(("nx", "ny", "nz"))
        uvs = self._texture_coordinates(sizes)
        materials, material = self._materials()
        return Mesh(
            self.vertices(),
            sizes,
            corners,
            uvs,
            None if normals is None else normals[corners],
            materials,
            material,
            self._objects(),
            up_axis="unknown",
        )

    def vertices(self) -> np.ndarray:
        """Return the positions, (V,3) float64."""
        columns = self._vertex_columns(("x", "y", "z"))
        if columns is None:
            raise ValueError("its vertices have no x, y and z")
        return columns

    def _vertex_columns(self, wanted: tuple[str, ...]) -> np.ndarray | None:
        """Return some properties of the vertices, (V,n) float64; None: one is missing."""
        element, start, _ = self._find("vertex")
        if not element.fixed:
            raise ValueError("a vertex has a list property")
        ends = np.cumsum([np.dtype(p.kind).itemsize for p in element.properties])
        columns = {p.name: (p.kind, end) for p, end in zip(element.properties, ends.tolist())}
        if not columns.keys() >= set(wanted):
            return None
        rows = []
        for kind, end in map(columns.__getitem__, wanted):
            at = start + end - np.dtype(kind).itemsize
            rows.append(self._column(kind, at, (element.count,), (int(ends[-1]),)))
        return np.stack(rows, axis=1).astype(np.float64)

    def after_vertices(self) -> bytes:
        """Return the bytes that describe the polygons; the header has the number of vertices."""
        return self.head + self.body[self._find("vertex")[2] :]

    def polygons(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the polygons' sizes (F,) and the vertex of each corner (N,)."""
        element, _, _ = self._find("face")
        lists = [p.name for p in element.properties if p.count_kind]
        name = next((n for n in _INDEX_NAMES if n in lists), None)
        if name is None or not element.count:
            raise ValueError("it has no polygons (no faces with vertex_indices)")
        sizes, corners = self._lists[name]
        return sizes, whole(corners, "corners of polygons")

    def _texture_coordinates(self, sizes: np.ndarray) -> np.ndarray | None:
        """Return the UVs of the corners, (N,2); None: there are none for every corner."""
        if "texcoord" not in self._lists:
            return None
        counts, values = self._lists["texcoord"]
        return values.reshape(-1, 2) if np.array_equal(counts, 2 * sizes) else None

    def _materials(self) -> tuple[tuple[str, ...], np.ndarray | None]:
        """Return the materials that comments name, and each polygon's number, (F,) or None."""
        names = self._comments("material")
        if not names or "material_index" not in self._lists:
            return (), None
        return names, whole(self._lists["material_index"][1], "material_index")

    def _objects(self) -> dict[str, np.ndarray]:
        """Return the vertices of each object that a comment names."""
        index = self._vertex_columns(("object_index",))
        names = checks.names(self._comments("object"), "objects")
        if index is None or not names:
            return {}
        order = np.argsort(index[:, 0], kind="stable")
        ends = np.searchsorted(index[order, 0], np.arange(len(names) + 1))
        found = zip(names, ends[:-1].tolist(), ends[1:].tolist())
        return {name: order[first:last] for name, first, last in found if last > first}

    def _comments(self, keyword: str) -> tuple[str, ...]:
        """Return the names in comments such as "comment material 0 skin", if they are in order."""
        pattern = rb"(?m)^comment " + keyword.encode() + rb" (\d+) ([^\r\n]+)\r?$"
        found = re.findall(pattern, self.head)
        in_order = [int(number) for number, _ in found] == list(range(len(found)))
        return tuple(name.decode("utf-8", "replace") for _, name in found) if in_order else ()

    def _find(self, name: str) -> tuple[_Element, int, int]:
        """Return an element, and its start and end; the lists of polygons are read on the way."""
        end = 0
        for element in self.elements:
            start = end
            if element.name not in self._places:
                stride = sum(np.dtype(p.kind).itemsize for p in element.properties)
                is_fixed = element.fixed or not element.count
                end = start + stride * element.count if is_fixed else self._read(element, start)
                if end > len(self.body):
                    raise ValueError(f"it ends before its last {element.name}")
                self._places[element.name] = start, end
            start, end = self._places[element.name]
            if element.name == name:
                return element, start, end
        raise ValueError(f"it has no {name} element")

    def _read(self, element: _Element, start: int) -> int:
        """Read the lists of an element with some; return where it ends."""
        at, places = start, []
        for p in element.properties:
            count = 1 if p.count_kind is None else self._size(p.count_kind, at)
            at += np.dtype(p.count_kind).itemsize if p.count_kind else 0
            places.append((p, at, count))
            at += count * np.dtype(p.kind).itemsize
        stride = at - start
        if start + stride * element.count > len(self.body):
            return self._read_uneven(element, start)
        shape, steps = (element.count,), (stride,)
        for p, at, count in places:
            if p.count_kind is not None:
                before = at - np.dtype(p.count_kind).itemsize
                if (self._column(p.count_kind, before, shape, steps) != count).any():
                    return self._read_uneven(element, start)
        for p, at, count in places:
            if element.name == "face" and p.name in _FACE_NAMES:
                each = (*steps, np.dtype(p.kind).itemsize)
                values = self._column(p.kind, at, (*shape, count), each).reshape(-1)
                self._lists[p.name] = np.full(element.count, count), values
        return start + stride * element.count

    def _read_uneven(self, element: _Element, start: int) -> int:
        """Read records whose lists differ in length, one by one; return where they end."""
        plan = []
        for p in element.properties:
            width = np.dtype(p.count_kind).itemsize if p.count_kind else 0
            plan.append((p, width, np.dtype(p.kind).itemsize, array("q"), array("q")))
        at, end = start, len(self.body)
        for _ in range(element.count):
            for p, width, step, sizes, places in plan:
                size = 1 if p.count_kind is None else self._size(p.count_kind, at)
                at += width
                sizes.append(size)
                places.append(at)
                at += size * step
            if at > end:
                break
        for p, _, step, sizes, places in plan if element.name == "face" and at <= end else ():
            if p.name in _FACE_NAMES:
                count, place = np.frombuffer(sizes, np.int64), np.frombuffer(places, np.int64)
                unit = 1 if (place % step).any() else step  # in ASCII all numbers are aligned
                data = np.frombuffer(self.body, f"V{unit}", end // unit)
                inside = ragged(place // unit, count * (step // unit))
                self._lists[p.name] = count, data[inside].view(self.order + p.kind)
        return at

    def _size(self, kind: str, at: int) -> int:
        """Return the size of a list, at a place of the body."""
        try:
            size = _SIZES[self.order + kind].unpack_from(self.body, at)[0]
        except struct.error:
            raise ValueError("it ends before its last list") from None
        if not 0 <= size < 2**31 or size != int(size):
            raise ValueError(f"a list claims {size} entries")
        return int(size)

    def _column(
        self, kind: str, start: int, shape: tuple[int, ...], steps: tuple[int, ...]
    ) -> np.ndarray:
        """Return values at even distances in the body, which has all of them."""
        return np.ndarray(shape, self.order + kind, self.body, start, steps)


def _header(text: bytes) -> tuple[str, list[_Element]]:
    """Return the byte order and the elements that a header declares.

    In ASCII, whose numbers become binary, the order is "=" and every type "f8".
    """
    order: str | None = None
    elements: list[_Element] = []
    for line in text.decode("ascii", "replace").splitlines()[1:]:
        words = line.split()
        if not words or words[0] in ("comment", "obj_info"):
            continue
        if words[0] == "format" and order is None and len(words) > 1 and words[1] in _ORDERS:
            order = _ORDERS[words[1]]
        elif words[0] == "element" and order and len(words) == 3 and words[2].isdecimal():
            elements.append(_Element(words[1], int(words[2]), []))
        elif words[0] == "property" and elements and len(words) in (3, 5):
            is_list = words[1] == "list" and len(words) == 5
            kind, count_kind = (words[3], _TYPES[words[2]]) if is_list else (words[1], None)
            if count_kind in ("f4", "f8"):
                raise ValueError(f"the size of a list is no {words[2]}")
            known = ("f8", count_kind and "f8") if order == "=" else (_TYPES[kind], count_kind)
            elements[-1].properties.append(_Property(words[-1], *known))
        else:
            raise ValueError(f"unexpected line in its header: {line[:60]!r}")
    if order is None:
        raise ValueError("its header names no format")
    checks.names((e.name for e in elements), "elements")
    for element in elements:
        checks.names((p.name for p in element.properties), f"properties of {element.name}")
    return order, elements
