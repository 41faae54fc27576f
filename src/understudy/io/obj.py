"""Wavefront OBJ: one mesh per file.

Positions, polygons of any size, texture coordinates and material names are read and written;
objects and groups are read, as `Mesh.parts`. Normals are left out: in a sequence they change with
every frame and follow from the positions. Free-form surfaces, lines and points are ignored.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from understudy.core.errors import FileError, InputError
from understudy.core.mesh import Mesh
from understudy.io.atomic_write import atomic_write
from understudy.io.mesh_clips import FrameData
from understudy.io.numbers import read_bytes, read_numbers, words_per_line


def read_obj_vertices(path: str | Path) -> FrameData:
    """Return the positions of a file, and the text of its polygons."""
    lines = _Lines(path)
    return FrameData(lines.vertices(), lines.text(lines.is_face))


def read_obj(path: str | Path) -> Mesh:
    """Return the mesh of a file; `FileError` says why there is none. Its up axis is unknown."""
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
            vertices,
            sizes,
            corners,
            corner_uvs=uvs,
            materials=names,
            polygon_material=material,
            parts=lines.parts(sizes, corners),
            up_axis="unknown",
        )
    except (ValueError, InputError) as problem:
        raise FileError(f"{path}: cannot be read as OBJ: {problem}") from problem


def write_obj(path: str | Path, mesh: Mesh, vertices: np.ndarray | None = None) -> None:
    """Write `mesh`, or one frame of it at `vertices` (V,3), whole or not at all. No parts."""
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
    """The lines of a file by kind, found on the bytes themselves.

    is_vertex, is_uv, is_face  (lines,) bool
    """

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
        """Return the chosen lines, (lines,) bool, each with its newline."""
        inside = np.zeros(len(self._data) + 1, np.int8)
        inside[self._starts[chosen]] += 1
        np.add.at(inside, self._ends[chosen] + 1, -1)
        return self._data[np.cumsum(inside[:-1], dtype=np.int8) > 0].tobytes()

    def table(self, chosen: np.ndarray, columns: int) -> np.ndarray:
        """Return the first `columns` numbers of the chosen lines, which must be of one length."""
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
        """Return the positions, (V,3) float64."""
        try:
            return self.table(self.is_vertex, 3)
        except ValueError as problem:
            raise FileError(f"{self.path}: its vertices cannot be read: {problem}") from problem

    def materials(self) -> tuple[tuple[str, ...], np.ndarray | None]:
        """Return the names in order of first use, and the index of each polygon's, (F,) or None."""
        starts, found = self._statements(b"usemtl")
        if not found:
            return (), None
        found = [name or "default" for name in found]
        names = tuple(dict.fromkeys(found))
        number = np.array([names.index(name) for name in found])
        return names, number[np.maximum(self._statement_of_polygons(starts), 0)]

    def parts(self, sizes: np.ndarray, corners: np.ndarray) -> dict[str, np.ndarray]:
        """Return the vertices of each object and group by name: sorted, each once.

        sizes    (F,) corners of each polygon
        corners  (N,) vertex of each corner
        """
        result: dict[str, list[np.ndarray]] = {}
        for keyword in (b"o", b"g"):
            starts, found = self._statements(keyword)
            statement = np.repeat(self._statement_of_polygons(starts), sizes)
            order = np.argsort(statement, kind="stable")
            ends = np.searchsorted(statement[order], np.arange(len(found) + 1))
            for k, text in enumerate(found):
                inside = corners[order[ends[k] : ends[k + 1]]]
                # A group statement may name several groups; an object's name may have spaces.
                for name in [text] if keyword == b"o" else text.split():
                    if len(inside) and name != "default":  # the name of "no group"
                        result.setdefault(name, []).append(inside)
        return {name: np.unique(np.concatenate(pieces)) for name, pieces in result.items()}

    def _statements(self, keyword: bytes) -> tuple[list[int], list[str]]:
        """Return where the lines with `keyword` start in the file, and the text after it."""
        pattern = rb"(?m)^" + keyword + rb"(?:[ \t]+([^\n]*))?\r?$"
        matches = list(re.finditer(pattern, self._data.tobytes()))
        texts = [(match[1] or b"").decode("utf-8", "replace").strip() for match in matches]
        return [match.start() for match in matches], texts

    def _statement_of_polygons(self, starts: list[int]) -> np.ndarray:
        """Return the last statement before each polygon, (F,); -1: there is none."""
        return np.searchsorted(starts, self._starts[self.is_face]) - 1


def _corners(faces: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and second number of every corner, (N,) each; a missing second is 0.

    Corners are written v, v/t, v//n or v/t/n, and a file may mix them.
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
    """Return indices from 0, of indices from 1 or, where negative, counted back from their line.

    index   (N,) as written
    before  (N,) how many entries the file has before the line of each
    count   entries in all; what: their name in errors
    """
    result = np.where(index < 0, before + index, index - 1)
    wrong = (index == 0) | (result < 0) | (result >= count)
    if wrong.any():
        raise ValueError(f"a polygon names {what} {int(index[wrong][0])}, and there are {count}")
    return result
