"""PLY: one mesh per file, ASCII or binary of either byte order.

Positions and polygons of any size are read and written; everything else is ignored.

Polygons of mixed sizes have no fixed stride. For every byte (in ASCII: every number) of the polygon
part, the reader computes where a record that starts there would end. It follows those jumps by
doubling (`record_starts`), so there is no loop over faces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from understudy.core.errors import FileError, InputError
from understudy.core.mesh import Mesh
from understudy.io.atomic_write import atomic_write
from understudy.io.mesh_clips import FrameData
from understudy.io.numbers import ragged, read_bytes, read_numbers, record_starts

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2",
    "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4", "float": "f4", "float32": "f4",
    "double": "f8", "float64": "f8",
}  # fmt: skip
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_INDEX_NAMES = ("vertex_indices", "vertex_index")
FORMATS = tuple(_ORDERS)
_Result = TypeVar("_Result")


class _Property(NamedTuple):
    name: str
    kind: str
    count_kind: str | None  # type of the length before a list; None: not a list


@dataclass(frozen=True)
class _Element:
    name: str
    count: int
    properties: tuple[_Property, ...]

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
    return file.guarded(lambda: Mesh(file.vertices(), *file.polygons(), up_axis="unknown"))


def write_ply(
    path: str | Path,
    mesh: Mesh,
    vertices: np.ndarray | None = None,
    form: str = "binary_little_endian",
) -> None:
    """Write `mesh`, or one frame of it at `vertices` (V,3), whole or not at all.

    form  one of `FORMATS`
    """
    if form not in _ORDERS:
        raise InputError(f"form: expected one of {', '.join(FORMATS)}, got {form!r}")
    points = np.asarray(mesh.vertices if vertices is None else vertices, np.float32)
    sizes, corners = mesh.polygon_sizes.astype(np.int64), mesh.polygon_vertices
    wide = len(sizes) and sizes.max() > 255
    header = (
        f"ply\nformat {form} 1.0\nelement vertex {len(points)}\nproperty float x\nproperty float "
        f"y\nproperty float z\n"
        f"element face {len(sizes)}\nproperty list {'uint' if wide else 'uchar'} int "
        f"vertex_indices\nend_header\n"
    )
    if form == "ascii":
        lines = ("%.9g %.9g %.9g\n" * len(points)) % tuple(points.reshape(-1).tolist())
        starts = np.cumsum(sizes + 1) - (sizes + 1)
        flat = np.empty(len(corners) + len(sizes), np.int64)
        flat[starts] = sizes
        flat[ragged(starts + 1, sizes)] = corners
        body = (
            lines
            + "".join("%d" + " %d" * size + "\n" for size in sizes.tolist()) % tuple(flat.tolist())
        ).encode()
    else:
        order, count_type = _ORDERS[form], np.dtype(_ORDERS[form] + ("u4" if wide else "u1"))
        lengths = count_type.itemsize + 4 * sizes
        starts = np.cumsum(lengths) - lengths
        faces = np.empty(int(lengths.sum()), np.uint8)
        head = ragged(starts, np.full(len(sizes), count_type.itemsize))
        faces[head] = np.frombuffer(sizes.astype(count_type).tobytes(), np.uint8)
        faces[ragged(starts + count_type.itemsize, 4 * sizes)] = np.frombuffer(
            corners.astype(order + "i4").tobytes(), np.uint8
        )
        body = points.astype(order + "f4").tobytes() + faces.tobytes()
    with atomic_write(path) as part:
        part.write_bytes(header.encode() + body)


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

    def guarded(self, work: Callable[[], _Result]) -> _Result:
        """Return what `work` returns; what it raises becomes a `FileError`."""
        try:
            return work()
        except FileError:
            raise
        except (ValueError, IndexError, KeyError, OverflowError, InputError) as problem:
            raise FileError(f"{self.path}: cannot be read as PLY: {problem}") from problem

    def vertices(self) -> np.ndarray:
        """Return the positions, (V,3) float64."""
        element, start, _ = self._find("vertex")
        if not element.fixed:
            raise ValueError("a vertex has a list property")
        names = [p.name for p in element.properties]
        columns = [names.index(axis) if axis in names else -1 for axis in "xyz"]
        if -1 in columns:
            raise ValueError("its vertices have no x, y and z")
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
        element, start, _ = self._find("face")
        lists = [p.name for p in element.properties if p.count_kind]
        name = next((n for n in _INDEX_NAMES if n in lists), None)
        if name is None or not element.count:
            raise ValueError("it has no polygons (no faces with vertex_indices)")
        sizes, places = self._lists(element, start)[name]
        if self.order == "":
            return sizes, self._ascii_numbers()[ragged(places, sizes)].astype(np.int64)
        kind = np.dtype(self.order + next(p.kind for p in element.properties if p.name == name))
        taken = np.frombuffer(self.body, np.uint8)[ragged(places, sizes * kind.itemsize)]
        return sizes, np.frombuffer(taken.tobytes(), kind).astype(np.int64)

    def _ascii_numbers(self) -> np.ndarray:
        if self._numbers is None:
            self._numbers = read_numbers(self.body)
        return self._numbers

    def _record(self, element: _Element) -> np.dtype:
        return np.dtype([(f"p{k}", self.order + p.kind) for k, p in enumerate(element.properties)])

    def _find(self, name: str) -> tuple[_Element, int, int]:
        """Return an element, and its start and end in the body: in bytes or, in ASCII, numbers."""
        at = 0
        for element in self.elements:
            if element.fixed:
                size = (
                    len(element.properties) if self.order == "" else self._record(element).itemsize
                )
                end = at + size * element.count
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
        """Return, by name of each list of an element, its sizes and where its entries start."""
        following, lists = self._follow(element, start)
        starts = record_starts(following, element.count)
        return {
            name: (count[starts], start + place[starts]) for name, (count, place) in lists.items()
        }

    def _follow(
        self, element: _Element, start: int
    ) -> tuple[np.ndarray, dict[str, tuple[np.ndarray, np.ndarray]]]:
        """Return where a record would end for every place after `start` that it may start at.

        The second result has, by name of each list, its size and place in such a record.
        """
        length = (len(self._ascii_numbers()) if self.order == "" else len(self.body)) - start
        if length < 1:
            raise ValueError("it ends before its first polygon")
        at = np.arange(length + 1)
        lists = {}
        for p in element.properties:
            if p.count_kind is None:
                at = at + (1 if self.order == "" else np.dtype(p.kind).itemsize)
                continue
            count = self._counts(p.count_kind, start, length)[np.minimum(at, length)]
            at = at + (1 if self.order == "" else np.dtype(p.count_kind).itemsize)
            lists[p.name] = (count, at)
            at = np.minimum(
                at + count * (1 if self.order == "" else np.dtype(p.kind).itemsize), 2**40
            )
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
            elements.append(_Element(words[1], int(words[2]), ()))
        elif words[0] == "property" and elements and len(words) in (3, 5):
            kind, count_kind = (
                (words[3], words[2]) if words[1] == "list" and len(words) == 5 else (words[1], None)
            )
            entry = _Property(words[-1], _TYPES[kind], _TYPES[count_kind] if count_kind else None)
            elements[-1] = replace(elements[-1], properties=(*elements[-1].properties, entry))
        else:
            raise ValueError(f"unexpected line in its header: {line[:60]!r}")
    if order is None:
        raise ValueError("its header names no format")
    return order, elements
