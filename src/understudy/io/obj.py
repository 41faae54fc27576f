"""Wavefront OBJ: one mesh per file. Positions, polygons of any size, texture coordinates and
material names are read and written.

Normals are left out: in a sequence they change with every frame and follow from the positions.
Free-form surfaces, lines and points are ignored.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from understudy.core.errors import FileError, InputError
from understudy.core.mesh import Mesh
from understudy.io.atomic_write import atomic_write
from understudy.io.numbers import read_bytes, read_numbers, words_per_line


class ObjText(NamedTuple):
    """A file cut into its kinds of lines.

    vertices  (V,3) float64
    faces     the text of the polygon lines: the same text is the same topology
    """

    vertices: np.ndarray
    faces: bytes


def read_obj_vertices(path: str | Path) -> ObjText:
    """The positions of a file and the text of its polygons: what a sequence needs of every frame
    but the first.
    """
    lines = _Lines(path)
    return ObjText(lines.vertices(), lines.text(lines.is_face))


def read_obj(path: str | Path) -> Mesh:
    """A file as a mesh; `FileError` where it is not one."""
    lines = _Lines(path)
    vertices = lines.vertices()
    faces = lines.text(lines.is_face)
    if not faces:
        raise FileError(f"{path}: has no polygons (no line starts with f)")
    try:
        sizes = words_per_line(faces) - 1
        first, second = _corners(faces)
        before = np.cumsum(lines.is_vertex)[lines.is_face]
        corners = _absolute(first, np.repeat(before, sizes), len(vertices), "vertex")
        uvs = None
        if (second != 0).all() and lines.is_uv.any():
            table = lines.table(lines.is_uv, 2)
            before = np.cumsum(lines.is_uv)[lines.is_face]
            uvs = table[
                _absolute(second, np.repeat(before, sizes), len(table), "texture coordinate")
            ]
        names, material = lines.materials()
        return Mesh(
            vertices, sizes, corners, corner_uvs=uvs, materials=names, polygon_material=material
        )
    except (ValueError, InputError) as problem:
        raise FileError(f"{path}: cannot be read as OBJ: {problem}") from problem


def write_obj(path: str | Path, mesh: Mesh, vertices: np.ndarray | None = None) -> None:
    """Write `mesh`, or one frame of it at `vertices` (V,3), whole or not at all."""
    points = np.asarray(mesh.vertices if vertices is None else vertices, np.float32)
    text = [("v %.9g %.9g %.9g\n" * len(points)) % tuple(points.reshape(-1).tolist())]
    corners = mesh.polygon_vertices.astype(np.int64) + 1
    corner_text, numbers = " %d", corners
    if mesh.corner_uvs is not None:
        text.append(("vt %.9g %.9g\n" * len(corners)) % tuple(mesh.corner_uvs.reshape(-1).tolist()))
        corner_text, numbers = " %d/%d", np.stack([corners, np.arange(1, len(corners) + 1)], axis=1)
    material = (
        np.zeros(len(mesh.polygon_sizes), int)
        if mesh.polygon_material is None
        else mesh.polygon_material
    )
    lines, before = [], None
    for size, number in zip(mesh.polygon_sizes.tolist(), material.tolist()):
        if mesh.materials and number != before:
            lines.append(f"usemtl {mesh.materials[number]}\n".replace("%", "%%"))
            before = number
        lines.append("f" + corner_text * size + "\n")
    text.append("".join(lines) % tuple(numbers.reshape(-1).tolist()))
    with atomic_write(path) as part:
        part.write_text("".join(text), encoding="utf-8")


class _Lines:
    """The lines of a file by kind, found on the bytes themselves."""

    def __init__(self, path: str | Path):
        self.path = path
        data = read_bytes(path)
        if b"\0" in data[:4096]:
            raise FileError(f"{path}: not an OBJ file (it is not text)")
        data = data.replace(b"\\\r\n", b" ").replace(b"\\\n", b" ")
        if b"\n" not in data:
            data = data.replace(b"\r", b"\n")
        if b"#" in data:
            data = re.sub(rb"#[^\n]*", b"", data)
        self._data = np.frombuffer(data + b"\n\n", np.uint8)
        ends = np.flatnonzero(self._data == 10)
        starts = np.concatenate([[0], ends[:-1] + 1])
        if np.isin(self._data[starts], (32, 9)).any():
            self._data = np.frombuffer(re.sub(rb"(?m)^[ \t]+", b"", data) + b"\n\n", np.uint8)
            ends = np.flatnonzero(self._data == 10)
            starts = np.concatenate([[0], ends[:-1] + 1])
        self._starts, self._ends = starts, ends
        at = lambda step: self._data[np.minimum(starts + step, len(self._data) - 1)]
        gap = lambda letters: (letters == 32) | (letters == 9)
        self.is_vertex = (at(0) == ord("v")) & gap(at(1))
        self.is_uv = (at(0) == ord("v")) & (at(1) == ord("t")) & gap(at(2))
        self.is_face = (at(0) == ord("f")) & gap(at(1))
        if not self.is_vertex.any():
            raise FileError(f"{path}: not an OBJ file with a mesh (no line starts with v)")

    def text(self, chosen: np.ndarray) -> bytes:
        """The chosen lines, each with its newline."""
        inside = np.zeros(len(self._data) + 1, np.int8)
        inside[self._starts[chosen]] += 1
        np.add.at(inside, self._ends[chosen] + 1, -1)
        return self._data[np.cumsum(inside[:-1], dtype=np.int8) > 0].tobytes()

    def table(self, chosen: np.ndarray, columns: int) -> np.ndarray:
        """The chosen lines' numbers without the keyword, cut to `columns`; every line must have as
        many.
        """
        text = self.text(chosen)
        words = words_per_line(text) - 1
        if (words != words[0]).any() or words[0] < columns:
            odd = int(np.flatnonzero((words != words[0]) | (words < columns))[0])
            raise ValueError(
                f"entry {odd} has {int(words[odd])} numbers, expected "
                f"{max(int(words[0]), columns)}; the file may be cut off"
            )
        keyword = text[: text.find(b" ")] if b" " in text[:3] else text[: text.find(b"\t")]
        return read_numbers(text.replace(keyword, b"")).reshape(len(words), -1)[:, :columns]

    def vertices(self) -> np.ndarray:
        try:
            return self.table(self.is_vertex, 3)
        except ValueError as problem:
            raise FileError(f"{self.path}: its vertices cannot be read: {problem}") from problem

    def materials(self) -> tuple[tuple[str, ...], np.ndarray | None]:
        """Names in order of first use, and the number of each polygon's; none where the file has
        none.
        """
        data = self._data.tobytes()
        found = [
            (match.start(), match[1].decode("utf-8", "replace").strip())
            for match in re.finditer(rb"(?m)^usemtl[ \t]+(\S[^\n]*)", data)
        ]
        if not found:
            return (), None
        names = tuple(dict.fromkeys(name for _, name in found))
        number = np.array([names.index(name) for _, name in found])
        place = np.searchsorted([start for start, _ in found], self._starts[self.is_face]) - 1
        return names, number[np.maximum(place, 0)]


def _corners(faces: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The first and second number of every corner (v, v/t, v//n, v/t/n, mixed as they like); a
    missing second is 0.
    """
    text = faces.replace(b"f", b"").replace(b"//", b"/0/")
    data = np.frombuffer(text, np.uint8)
    blank = data <= 32
    starts = ~blank & np.concatenate([[True], blank[:-1]])
    corner = np.cumsum(starts) - 1
    counts = 1 + np.bincount(corner[data == ord("/")], minlength=int(starts.sum()))
    numbers = read_numbers(text.replace(b"/", b" "))
    if len(numbers) != counts.sum() or (counts > 3).any():
        raise ValueError("a polygon's corner is incomplete; the file may be cut off")
    at = np.cumsum(counts) - counts
    whole = numbers.astype(np.int64)
    if (whole != numbers).any():
        raise ValueError("a polygon's corner is not a whole number")
    second = np.where(counts > 1, whole[np.minimum(at + 1, len(whole) - 1)], 0)
    return whole[at], second


def _absolute(index: np.ndarray, before: np.ndarray, count: int, what: str) -> np.ndarray:
    """1-based, or counted back from the line's own place, to 0-based."""
    result = np.where(index < 0, before + index, index - 1)
    wrong = (index == 0) | (result < 0) | (result >= count)
    if wrong.any():
        raise ValueError(f"a polygon names {what} {int(index[wrong][0])}, and there are {count}")
    return result
