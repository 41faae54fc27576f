"""What our writer notes in a file's `extras`, so that the same character is read back.

Other programs ignore it. A reader may do without it: then the mesh is in metres and Y up, made of
triangles, and its vertices are in the order of the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.core.mesh import HANDEDNESS, UNITS, UP_AXES, Mesh
from understudy.io.budget import Budget
from understudy.io.gltf.document import Entry
from understudy.io.numbers import ragged
from understudy.system.errors import FileError

VERSION = 1
KEY = "understudy"


@dataclass(frozen=True)
class OwnExtras:
    """What `extras` has.

    name           of the character
    unit, up_axis, handedness  of its mesh
    origin         (3,) where the origin of the stored positions is, in glTF's coordinates
    vertex_count   V
    has_normals    whether the mesh has normals; those in the file are computed otherwise
    has_materials  whether materials are stored by name; otherwise there is none, or one unused
    materials      names, in the order of the mesh
    shapes         names of the blend shapes, in their order
    part_order     names of the parts
    parts          name -> (n,) vertices, of the parts that differ from the vertices of their node
    not_parts      names of nodes that hold what no part has
    polygons       (n,3) runs: primitive (counted over all meshes), corners, number of polygons
    """

    name: str
    unit: str
    up_axis: str
    handedness: str
    origin: np.ndarray
    vertex_count: int
    has_normals: bool
    has_materials: bool
    materials: tuple[str, ...]
    shapes: tuple[str, ...]
    part_order: tuple[str, ...]
    parts: dict[str, np.ndarray]
    not_parts: frozenset[str]
    polygons: np.ndarray

    def json(self) -> dict[str, Any]:
        """Return it as the value of `extras`."""
        converted = {
            "origin": self.origin.tolist(),
            "parts": {name: runs_of(rows) for name, rows in self.parts.items()},
            "not_parts": sorted(self.not_parts),
            "polygons": self.polygons.tolist(),
        }
        return {KEY: {"version": VERSION, **vars(self), **converted}}


def own_extras(root: Entry, budget: Budget) -> OwnExtras | None:
    """Return what our writer noted in a file; None if there is nothing that can be used."""
    extras = root.data.get("extras")
    if not isinstance(extras, dict) or not isinstance(extras.get(KEY), dict):
        return None
    entry = Entry(extras[KEY], f"{root.where}: extras.{KEY}")
    try:
        return _parsed(entry, budget)
    except FileError:
        return None


def runs_of(rows: np.ndarray) -> list[list[int]]:
    """Return increasing numbers as runs: [[first, count], ...].

    >>> runs_of(np.array([2, 3, 4, 9]))
    [[2, 3], [9, 1]]
    """
    if not len(rows):
        return []
    starts = np.flatnonzero(np.concatenate([[True], np.diff(rows) != 1]))
    counts = np.diff(np.concatenate([starts, [len(rows)]]))
    return np.stack([rows[starts], counts], axis=1).tolist()


def polygon_runs(mesh: Mesh, primitive: np.ndarray) -> np.ndarray:
    """Return the polygons of a mesh as runs (n,3): primitive (F,), corners, number of polygons."""
    rows = np.stack([primitive, mesh.polygon_sizes], axis=1).astype(np.int64)
    if not len(rows):
        return np.zeros((0, 3), np.int64)
    starts = np.flatnonzero(np.concatenate([[True], (rows[1:] != rows[:-1]).any(axis=1)]))
    counts = np.diff(np.concatenate([starts, [len(rows)]]))
    return np.column_stack([rows[starts], counts])


def _parsed(entry: Entry, budget: Budget) -> OwnExtras | None:
    if entry.integer("version") != VERSION:
        return None
    origin = entry.numbers("origin", 3)
    count = entry.integer("vertex_count", below=2**24 + 1)
    parts = entry.entry("parts")
    choices = (("unit", UNITS), ("up_axis", (*UP_AXES, "unknown")), ("handedness", HANDEDNESS))
    if any(entry.text(key) not in known for key, known in choices):
        return None
    if origin is None or np.abs(origin).max() > 1e30 or parts is None:
        return None
    flag = lambda key: entry.data.get(key) is True
    return OwnExtras(
        entry.text("name"),
        entry.text("unit"),
        entry.text("up_axis"),
        entry.text("handedness"),
        origin,
        count,
        flag("has_normals"),
        flag("has_materials"),
        tuple(entry.texts("materials")),
        tuple(entry.texts("shapes")),
        tuple(entry.texts("part_order")),
        {name: _rows(parts, name, count, budget) for name in parts.data},
        frozenset(entry.texts("not_parts")),
        entry.rows("polygons", 3),
    )


def _rows(entry: Entry, key: str, count: int, budget: Budget) -> np.ndarray:
    """Return the numbers below `count` that runs stand for."""
    runs = entry.rows(key, 2)
    if len(runs) and ((runs > count).any() or runs[:, 1].sum() > count):
        raise entry.wrong(key, "more vertices than the mesh has")
    budget.take(int(runs[:, 1].sum()) * 32, "parts")
    rows = ragged(*runs.T)
    if len(rows) and rows.max() >= count:
        raise entry.wrong(key, "more vertices than the mesh has")
    return rows
