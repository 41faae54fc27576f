"""Wavefront OBJ: one mesh per file.

Positions, polygons of any size, texture coordinates, normals, material names, objects and groups
are read and written; objects and groups are `Mesh.parts`. Free-form surfaces, lines and points are
ignored.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from understudy.core.mesh import Mesh
from understudy.io.atomic_write import atomic_write
from understudy.io.budget import Budget
from understudy.io.mesh_clips import FrameData
from understudy.io.mesh_objects import mesh_objects
from understudy.io.numbers import ragged, read_bytes, read_numbers, whole, words_per_line
from understudy.system.errors import FileError, InputError

_IN_PART, _PART = 100, 2000  # bytes for each corner of a part and for each part, with copies


def read_obj_vertices(path: str | Path) -> FrameData:
    """Return the positions of a file, and the text of its polygons."""
    lines = _Lines(path)
    return FrameData(lines.vertices(), lines.text(lines.is_face))


def read_obj(path: str | Path) -> Mesh:
    """Return the mesh of a file; `FileError` says why there is none. Its up axis is unknown."""
    lines = _Lines(path)
    vertices = lines.vertices()
    faces = lines.text(lines.is_face, 1)
    if not faces:
        raise FileError(f"{path}: has no polygons (no line starts with f)")
    try:
        sizes = words_per_line(faces)
        first, second, third = _corners(faces)
        before = np.cumsum(lines.is_vertex)[lines.is_face]
        corners = _absolute(first, np.repeat(before, sizes), len(vertices), "vertex")

        def on_corners(index: np.ndarray, chosen: np.ndarray, columns: int, what: str):
            """Return entries of a table at the corners, (N,columns); None: not all have one."""
            if not (index != 0).all() or not chosen.any():
                return None
            table = lines.table(chosen, columns)
            before = np.repeat(np.cumsum(chosen)[lines.is_face], sizes)
            return table[_absolute(index, before, len(table), what)]

        uvs = on_corners(second, lines.is_uv, 2, "texture coordinate")
        normals = on_corners(third, lines.is_normal, 3, "normal")
        names, material = lines.materials()
        return Mesh(
            vertices,
            sizes,
            corners,
            corner_uvs=uvs,
            corner_normals=normals,
            materials=names,
            polygon_material=material,
            parts=lines.parts(sizes, corners),
            up_axis="unknown",
        )
    except FileError:
        raise
    except (ValueError, InputError) as problem:
        raise FileError(f"{path}: cannot be read as OBJ: {problem}") from problem


def write_obj(
    path: str | Path,
    mesh: Mesh,
    vertices: np.ndarray | None = None,
    normals: np.ndarray | None = None,
) -> None:
    """Write `mesh`, or one frame of it at `vertices` (V,3), whole or not at all.

    normals  (N,3) of the corners, or None: none are written
    """
    points = mesh.vertices if vertices is None else vertices
    ObjText(mesh, normals is not None).write(path, points, normals)


class ObjText:
    """The text of one mesh in many frames: all but positions and normals is made once.

    mesh              polygons, UVs, materials and parts
    has_normals       whether every frame comes with normals
    material_library  name of a `.mtl` file beside it; "": none
    """

    def __init__(self, mesh: Mesh, has_normals: bool, material_library: str = ""):
        self._head = f"mtllib {material_library}\n" if material_library else ""
        corners = mesh.polygon_vertices.astype(np.int64) + 1
        numbers, corner = [corners], " %d"
        text = []
        along = np.arange(1, len(corners) + 1)
        if mesh.corner_uvs is not None:
            uvs = tuple(mesh.corner_uvs.reshape(-1).tolist())
            text.append(("vt %.9g %.9g\n" * len(corners)) % uvs)
            numbers.append(along)
            corner = " %d/%d"
        if has_normals:
            numbers.append(along)
            corner += "/%d" if mesh.corner_uvs is not None else "//%d"
        lines = []
        statements = _statements(mesh)
        for polygon, size in enumerate(mesh.polygon_sizes.tolist()):
            lines.append(statements.get(polygon, "").replace("%", "%%"))
            lines.append("f" + corner * size + "\n")
        flat = np.stack(numbers, axis=1).reshape(-1)
        self._tail = "".join(text) + "".join(lines) % tuple(flat.tolist())

    def write(self, path: str | Path, vertices: np.ndarray, normals: np.ndarray | None) -> None:
        """Write one frame: vertices (V,3), normals (N,3) of the corners or None."""
        text = [self._head, _rows("v", vertices)]
        if normals is not None:
            text.append(_rows("vn", normals))
        with atomic_write(path) as part:
            part.write_text("".join([*text, self._tail]), encoding="utf-8")


def _rows(keyword: str, values: np.ndarray) -> str:
    """Return one line per row of an array (n,3)."""
    flat = np.asarray(values, np.float32).reshape(-1)
    return (f"{keyword} %.9g %.9g %.9g\n" * len(values)) % tuple(flat.tolist())


def _statements(mesh: Mesh) -> dict[int, str]:
    """Return the lines to put before some polygons: where object, groups or material change.

    Parts that share no vertex are objects. Another part is a group if it consists of polygons.
    """
    count = len(mesh.polygon_sizes)
    objects = mesh_objects(mesh)
    object_of = np.zeros(count, int)
    for number, found in enumerate(objects):
        object_of[found.polygons] = number
    polygon = np.repeat(np.arange(count), mesh.polygon_sizes)
    groups = {}
    for name, vertices in mesh.parts.items():
        if any(found.name == name for found in objects):
            continue
        inside = np.zeros(mesh.vertex_count, bool)
        inside[vertices] = True
        whole = np.bincount(polygon, inside[mesh.polygon_vertices], count) == mesh.polygon_sizes
        reached = np.unique(mesh.polygon_vertices[whole[polygon]])
        if np.array_equal(reached, np.unique(vertices)):
            groups["_".join(name.split())] = whole
    material = np.zeros(count, int) if mesh.polygon_material is None else mesh.polygon_material
    table = np.column_stack([object_of, material, *groups.values()]).astype(np.int64)
    changed = np.ones_like(table, bool)
    changed[1:] = table[1:] != table[:-1]
    result: dict[int, str] = {}
    for at in np.flatnonzero(changed.any(axis=1)).tolist():
        lines = []
        name = " ".join(objects[object_of[at]].name.split()) if objects else ""
        if mesh.parts and changed[at, 0]:
            lines.append(f"o {name or 'default'}\n")
        if groups and changed[at, [0, *range(2, table.shape[1])]].any():
            here = [name for name, whole in groups.items() if whole[at]]
            lines.append(f"g {' '.join(here) or 'default'}\n")
        if mesh.materials and changed[at, 1]:
            lines.append(f"usemtl {' '.join(mesh.materials[material[at]].split())}\n")
        result[at] = "".join(lines)
    return result


class _Lines:
    """The lines of a file by kind, found on the bytes themselves.

    is_vertex, is_uv, is_normal, is_face  (lines,) bool
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
        if data[:1] in (b" ", b"\t") or b"\n " in data or b"\n\t" in data:
            data = re.sub(rb"(?m)^[ \t]+", b"", data)
        self._data = np.frombuffer(data + b"\n\n", np.uint8)
        self._ends = np.flatnonzero(self._data == 10)
        starts = self._starts = np.concatenate([[0], self._ends[:-1] + 1])
        at = lambda step: self._data[np.minimum(starts + step, len(self._data) - 1)]
        gap = lambda letters: (letters == 32) | (letters == 9)
        self.is_vertex = (at(0) == ord("v")) & gap(at(1))
        self.is_uv = (at(0) == ord("v")) & (at(1) == ord("t")) & gap(at(2))
        self.is_normal = (at(0) == ord("v")) & (at(1) == ord("n")) & gap(at(2))
        self.is_face = (at(0) == ord("f")) & gap(at(1))
        if not self.is_vertex.any():
            raise FileError(f"{path}: not an OBJ file with a mesh (no line starts with v)")

    def text(self, chosen: np.ndarray, skipped: int = 0) -> bytes:
        """Return the chosen lines, (lines,) bool, each with its newline.

        skipped  letters at the start of each line that are left out
        """
        inside = np.zeros(len(self._data) + 1, np.int8)
        inside[self._starts[chosen] + skipped] += 1
        np.add.at(inside, self._ends[chosen] + 1, -1)
        return self._data[np.cumsum(inside[:-1], dtype=np.int8) > 0].tobytes()

    def table(self, chosen: np.ndarray, columns: int) -> np.ndarray:
        """Return the first `columns` numbers of the chosen lines, which must be of one length."""
        text = self.text(chosen, 1 if chosen is self.is_vertex else 2)  # without v, vt or vn
        words = words_per_line(text)
        if (words != words[0]).any() or words[0] < columns:
            odd = int(np.flatnonzero((words != words[0]) | (words < columns))[0])
            raise ValueError(
                f"entry {odd} has {int(words[odd])} numbers, expected "
                f"{max(int(words[0]), columns)}; the file may be cut off"
            )
        return read_numbers(text).reshape(len(words), -1)[:, :columns]

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
        names = {name: k for k, name in enumerate(dict.fromkeys(found))}
        number = np.array([names[name] for name in found])
        return tuple(names), number[np.maximum(self._statement_of_polygons(starts), 0)]

    def parts(self, sizes: np.ndarray, corners: np.ndarray) -> dict[str, np.ndarray]:
        """Return the vertices of each object and group by name: sorted, each once.

        sizes, corners  of all polygons, as in `Mesh`
        """
        numbers: dict[str, int] = {}  # of the parts, by name
        pieces: list[np.ndarray] = []  # (n,2) part and vertex
        budget = Budget(self.path, len(self._data))
        for keyword in (b"o", b"g"):
            starts, found = self._statements(keyword)
            statement = np.repeat(self._statement_of_polygons(starts), sizes)
            order = np.argsort(statement, kind="stable")
            ends = np.searchsorted(statement[order], np.arange(len(found) + 1))
            used = np.flatnonzero(np.diff(ends)).tolist()
            # A group statement may name several groups; an object's name may have spaces.
            named = [
                (numbers.setdefault(name, len(numbers)), k)
                for k in used
                for name in ([found[k]] if keyword == b"o" else found[k].split())
                if name != "default"  # the name of "no group"
            ]
            part, k = np.array(named, np.int64).reshape(-1, 2).T
            counts = ends[k + 1] - ends[k]
            budget.take(int(counts.sum()) * _IN_PART + len(named) * _PART, "groups")
            inside = corners[order[ragged(ends[k], counts)]]
            pieces.append(np.stack([np.repeat(part, counts), inside], axis=1))
        part, vertex = np.concatenate(pieces).T
        count = int(corners.max()) + 1
        part, vertex = np.divmod(np.unique(part * count + vertex), count)
        each = np.split(vertex, np.searchsorted(part, np.arange(1, len(numbers))))
        return dict(zip(numbers, each))

    def _statements(self, keyword: bytes) -> tuple[list[int], list[str]]:
        """Return where the lines with `keyword` start in the file, and the text after it."""
        pattern = rb"(?m)^" + keyword + rb"(?:[ \t]+([^\n]*))?\r?$"
        matches = list(re.finditer(pattern, self._data.tobytes()))
        texts = [(match[1] or b"").decode("utf-8", "replace").strip() for match in matches]
        return [match.start() for match in matches], texts

    def _statement_of_polygons(self, starts: list[int]) -> np.ndarray:
        """Return the last statement before each polygon, (F,); -1: there is none."""
        return np.searchsorted(starts, self._starts[self.is_face]) - 1


def _corners(faces: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the three numbers of every corner, (N,) each; a missing one is 0.

    Corners are written v, v/t, v//n or v/t/n, and a file may mix them.
    """
    text = faces.replace(b"//", b"/0/")
    data = np.frombuffer(text, np.uint8)
    blank = data <= 32
    starts = ~blank & np.concatenate([[True], blank[:-1]])
    corner = np.cumsum(starts) - 1
    counts = 1 + np.bincount(corner[data == ord("/")], minlength=int(starts.sum()))
    numbers = read_numbers(text.replace(b"/", b" "))
    if len(numbers) != counts.sum() or (counts > 3).any():
        raise ValueError("a polygon's corner is incomplete; the file may be cut off")
    at = np.cumsum(counts) - counts
    index = whole(numbers, "corners of polygons")
    other = lambda step: np.where(counts > step, index[np.minimum(at + step, len(index) - 1)], 0)
    return index[at], other(1), other(2)


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
