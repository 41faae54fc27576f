"""PLY: one mesh per file, read in ASCII or binary of either byte order, written in binary.

Positions, polygons of any size, normals of vertices, texture coordinates (the list `texcoord` of a
polygon), materials (`material_index`) and objects (`object_index` of a vertex) are read and
written; everything else is ignored. Comments name materials and objects: `comment material 0 skin`.

Polygons of mixed sizes have no fixed stride. For every byte (in ASCII: every number) of the polygon
part, the reader computes where a record that starts there would end. It follows those jumps by
doubling (`record_starts`), so there is no loop over faces.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from understudy.core.mesh import Mesh
from understudy.io.atomic_write import atomic_write
from understudy.io.mesh_clips import FrameData
from understudy.io.mesh_objects import mesh_objects
from understudy.io.numbers import ragged, read_bytes, read_numbers, record_starts
from understudy.system.errors import FileError, InputError

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2",
    "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
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
    """A file with its header read; the body stays bytes until it is used."""

    def __init__(self, path: str | Path):
        self.path = path
        data = read_bytes(path)
        if not data.startswith((b"ply\n", b"ply\r")):
            raise FileError(f"{path}: not a PLY file")
        end = data.find(b"end_header")
        line_end = data.find(b"\n", end)
        if end < 0 or line_end < 0:
            raise FileError(f"{path}: truncated: the file ends inside its own header")
        self.order, self.elements = self.guarded(lambda: _header(data[:end]))
        self.head, self.body = data[:end], data[line_end + 1 :]
        self._numbers: np.ndarray | None = None
        self._face_lists: dict[str, tuple[np.ndarray, np.ndarray]] | None = None

    def guarded(self, work: Callable[[], _Result]) -> _Result:
        """Return what `work` returns; what it raises becomes a `FileError`."""
        try:
            return work()
        except FileError:
            raise
        except (ValueError, IndexError, KeyError, OverflowError, InputError) as problem:
            raise FileError(f"{self.path}: cannot be read as PLY: {problem}") from problem

    def mesh(self) -> Mesh:
        """Return the whole mesh."""
        sizes, corners = self.polygons()
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
        names = [p.name for p in element.properties]
        columns = [names.index(name) if name in names else -1 for name in wanted]
        if -1 in columns:
            return None
        if self.order == "":
            table = self._ascii_numbers()[start : start + element.count * len(names)]
            if len(table) < element.count * len(names):
                raise ValueError("it ends before its last vertex")
            return table.reshape(element.count, len(names))[:, columns]
        record = self._record(element)
        if start + record.itemsize * element.count > len(self.body):
            raise ValueError("it ends before its last vertex")
        rows = np.frombuffer(self.body, record, element.count, start)
        return np.stack([rows[f"p{column}"] for column in columns], axis=1).astype(np.float64)

    def after_vertices(self) -> bytes:
        """Return the bytes that describe the polygons; the header has the number of vertices."""
        _, _, end = self._find("vertex")
        if self.order == "":
            return self.head + np.ascontiguousarray(self._ascii_numbers()[end:]).tobytes()
        return self.head + self.body[end:]

    def polygons(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the polygons' sizes (F,) and the vertex of each corner (N,)."""
        element, _, _ = self._find("face")
        lists = [p.name for p in element.properties if p.count_kind]
        name = next((n for n in _INDEX_NAMES if n in lists), None)
        if name is None or not element.count:
            raise ValueError("it has no polygons (no faces with vertex_indices)")
        sizes, corners = self._face_values(name)
        return sizes, corners.astype(np.int64)

    def _face_values(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return a property of the polygons: its number of entries (F,), and all entries."""
        element, start, _ = self._find("face")
        if self._face_lists is None:
            self._face_lists = self._lists(element, start)
        sizes, places = self._face_lists[name]
        if self.order == "":
            return sizes, self._ascii_numbers()[ragged(places, sizes)]
        kind = np.dtype(self.order + next(p.kind for p in element.properties if p.name == name))
        taken = np.frombuffer(self.body, np.uint8)[ragged(places, sizes * kind.itemsize)]
        return sizes, np.frombuffer(taken.tobytes(), kind)

    def _texture_coordinates(self, sizes: np.ndarray) -> np.ndarray | None:
        """Return the UVs of the corners, (N,2); None: there are none for every corner."""
        element, _, _ = self._find("face")
        if not any(p.name == "texcoord" and p.count_kind for p in element.properties):
            return None
        counts, values = self._face_values("texcoord")
        return values.reshape(-1, 2) if np.array_equal(counts, 2 * sizes) else None

    def _materials(self) -> tuple[tuple[str, ...], np.ndarray | None]:
        """Return the materials that comments name, and each polygon's number, (F,) or None."""
        element, _, _ = self._find("face")
        names = self._comments("material")
        if not names or not any(p.name == "material_index" for p in element.properties):
            return (), None
        return names, self._face_values("material_index")[1].astype(np.int64)

    def _objects(self) -> dict[str, np.ndarray]:
        """Return the vertices of each object that a comment names."""
        index = self._vertex_columns(("object_index",))
        names = self._comments("object") if index is not None else ()
        found = {name: np.flatnonzero(index == k) for k, name in enumerate(names)}
        return {name: vertices for name, vertices in found.items() if len(vertices)}

    def _comments(self, keyword: str) -> tuple[str, ...]:
        """Return the names in comments such as "comment material 0 skin", if they are in order."""
        pattern = rb"(?m)^comment " + keyword.encode() + rb" (\d+) ([^\r\n]+)\r?$"
        found = re.findall(pattern, self.head)
        in_order = [int(number) for number, _ in found] == list(range(len(found)))
        return tuple(name.decode("utf-8", "replace") for _, name in found) if in_order else ()

    def _ascii_numbers(self) -> np.ndarray:
        if self._numbers is None:
            self._numbers = read_numbers(self.body)
        return self._numbers

    def _step(self, kind: str) -> int:
        """Return how much of the body one value takes: bytes or, in ASCII, one number."""
        return 1 if self.order == "" else np.dtype(kind).itemsize

    def _record(self, element: _Element) -> np.dtype:
        return np.dtype([(f"p{k}", self.order + p.kind) for k, p in enumerate(element.properties)])

    def _find(self, name: str) -> tuple[_Element, int, int]:
        """Return an element, and its start and end in the body: in bytes or, in ASCII, numbers."""
        at = 0
        for element in self.elements:
            if element.fixed:
                end = at + sum(self._step(p.kind) for p in element.properties) * element.count
            elif element.name == name:
                end = at  # not used for polygons
            else:
                end = self._end_of(element, at)
            if element.name == name:
                return element, at, end
            at = end
        raise ValueError(f"it has no {name} element")

    def _end_of(self, element: _Element, start: int) -> int:
        following, _ = self._follow(element, start)
        starts = record_starts(following, element.count)
        return start + (int(following[starts[-1]]) if element.count else 0)

    def _lists(self, element: _Element, start: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return, by name of each property, its numbers of entries and where they start."""
        following, lists = self._follow(element, start)
        starts = record_starts(following, element.count)
        return {
            name: (count[starts], start + place[starts]) for name, (count, place) in lists.items()
        }

    def _follow(
        self, element: _Element, start: int
    ) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
        """Return where a record would end for every place after `start` that it may start at.

        The second result has, by name of each property, its size and place in such a record.
        """
        length = (len(self._ascii_numbers()) if self.order == "" else len(self.body)) - start
        if length < 1:
            raise ValueError("it ends before its first polygon")
        at = np.arange(length + 1)
        lists = {}
        for p in element.properties:
            if p.count_kind is None:
                if p.name in _FACE_NAMES:
                    lists[p.name] = (np.ones_like(at), at)
                at = at + self._step(p.kind)
                continue
            count = self._counts(p.count_kind, start, length)[np.minimum(at, length)]
            at = at + self._step(p.count_kind)
            if p.name in _FACE_NAMES:  # the arrays are long: only those that are used
                lists[p.name] = (count, at)
            at = np.minimum(at + count * self._step(p.kind), 2**40)
        return at, lists

    def _counts(self, kind: str, start: int, length: int) -> np.ndarray:
        """Return what would be read as a list's size at each place, (length+1,); 0 at the end."""
        result = np.zeros(length + 1, np.int64)
        if self.order == "":
            numbers = self._ascii_numbers()[start:]
            # Only whole positive numbers can be sizes; no record starts at any other.
            result[:-1] = np.where(
                (numbers >= 0) & (numbers < 2**31) & (numbers == np.floor(numbers)), numbers, 0
            ).astype(np.int64)
        else:
            dtype = np.dtype(self.order + kind)
            fits = max(0, length - dtype.itemsize + 1)
            result[:fits] = np.ndarray((fits,), dtype, self.body, start, (1,))
        return np.maximum(result, 0)


def _header(text: bytes) -> tuple[str, list[_Element]]:
    """Return the byte order ("" in ASCII) and the elements that a header declares."""
    order: str | None = None
    elements: list[_Element] = []
    for line in text.decode("ascii", "replace").splitlines()[1:]:
        words = line.split()
        if not words or words[0] in ("comment", "obj_info"):
            continue
        if words[0] == "format" and len(words) > 1 and words[1] in _ORDERS:
            order = _ORDERS[words[1]]
        elif words[0] == "element" and len(words) == 3 and words[2].isdigit():
            elements.append(_Element(words[1], int(words[2]), []))
        elif words[0] == "property" and elements and len(words) in (3, 5):
            is_list = words[1] == "list" and len(words) == 5
            kind, count_kind = (words[3], _TYPES[words[2]]) if is_list else (words[1], None)
            elements[-1].properties.append(_Property(words[-1], _TYPES[kind], count_kind))
        else:
            raise ValueError(f"unexpected line in its header: {line[:60]!r}")
    if order is None:
        raise ValueError("its header names no format")
    return order, elements
