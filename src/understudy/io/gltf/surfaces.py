"""Meshes of a glTF file as polygons over vertices.

glTF splits a vertex wherever UVs or normals differ, or two materials meet. `weld` joins such copies
again: vertices of one mesh with the same position, skin and morph targets move together, so they
become one. UVs and normals stay with the corners. Files of our own writer say which vertex each
copy is (`_VERTEX`), and their vertices come back in the order that they had.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from understudy.geometry.normals import unit
from understudy.io.budget import Budget
from understudy.io.gltf.accessors import Accessors, Sparse
from understudy.io.gltf.document import Entry
from understudy.io.numbers import UVS, joined_values
from understudy.system.errors import FileError

TRIANGLES, STRIP, FAN, POINTS = 4, 5, 6, 0
VERTEX_ATTRIBUTE = "_VERTEX"
_PRIMITIVE, _TARGET = 16_000, 8000  # bytes
# Attributes that are carried as they are: normals, UV sets, colours, and unknown ones.
_OTHERS = re.compile(r"NORMAL|TANGENT|TEXCOORD_(?:0|[1-9]\d*)|COLOR_\d+|_(?!VERTEX$).+")


@dataclass(frozen=True)
class Surface:
    """One mesh of a file: n vertices, m triangles.

    positions         (n,3) float64
    joints, weights   (n,K) int64 and float64: indices into the joints of the skin; or None
    targets           one per morph target: offsets of some vertices
    own_vertex        (n,) int64, the vertex in the mesh that our writer was given; or None
    triangles         (m,3) int64
    corner_normals    (m,3,3) float64, or None
    material          (m,) int64, index into the materials of the file; -1: none
    primitive         (m,) int64, which primitive of the mesh
    corner_values     further attributes by name, (m,3,n) float64; NaN where a primitive has none
    """

    positions: np.ndarray
    joints: np.ndarray | None
    weights: np.ndarray | None
    targets: tuple[Sparse, ...]
    own_vertex: np.ndarray | None
    triangles: np.ndarray
    corner_normals: np.ndarray | None
    material: np.ndarray
    primitive: np.ndarray
    corner_values: dict[str, np.ndarray]


@dataclass(frozen=True)
class _Vertices:
    """What the vertices of one primitive have, before primitives are joined."""

    positions: np.ndarray
    joints: np.ndarray | None
    weights: np.ndarray | None
    own_vertex: np.ndarray | None
    targets: tuple[Sparse, ...]
    others: dict[str, np.ndarray]


def target_count(mesh: Entry) -> int:
    """Return how many morph targets a mesh has."""
    first = mesh.entries("primitives")[:1]
    return len(first[0].entries("targets")) if first else 0


def read_surface(
    mesh: Entry, accessors: Accessors, material_count: int, use_own: bool
) -> Surface | None:
    """Return a mesh with its vertices welded; None if it has no triangles.

    material_count  materials of the file
    use_own         take vertices as our writer numbered them, instead of welding
    """
    groups: dict[str, int] = {}
    vertices: list[_Vertices] = []
    starts = [0]
    triangles, material, primitive = [], [], []
    targets = target_count(mesh)
    for number, entry in enumerate(mesh.entries("primitives")):
        mode = entry.integer("mode", TRIANGLES)
        if mode not in (TRIANGLES, STRIP, FAN) and not (use_own and mode == POINTS):
            continue  # points and lines have no surface
        key = repr((entry.data.get("attributes"), entry.data.get("targets")))
        if key not in groups:
            groups[key] = len(vertices)
            vertices.append(_read_vertices(entry, accessors, targets, use_own))
            starts.append(starts[-1] + len(vertices[-1].positions))
        group = groups[key]
        accessors.budget.take(_PRIMITIVE + 64 * len(vertices[group].positions), "primitives")
        found = _triangles(entry, accessors, mode, len(vertices[group].positions))
        triangles.append(found + starts[group])
        material.append(np.full(len(found), entry.integer("material", -1, below=material_count)))
        primitive.append(np.full(len(found), number))
    if not vertices or (not use_own and not sum(map(len, triangles))):
        return None
    width = max((v.joints.shape[1] for v in vertices if v.joints is not None), default=0)
    accessors.budget.take(32 * width * starts[-1], "skin weights")
    joined = map(np.concatenate, (triangles, material, primitive))
    return _joined(vertices, accessors.budget, *joined)


def weld(surface: Surface) -> np.ndarray:
    """Return which vertices of a surface are copies: (n,) the first copy of each."""
    count = len(surface.positions)
    label = labels(surface.positions + 0.0)
    # Only vertices that share a position can be copies; the rest need no further comparison.
    shared = np.flatnonzero(np.bincount(label, minlength=count)[label] > 1)
    if not len(shared):
        return np.arange(count)
    group = label[shared]
    for array in (surface.joints, surface.weights):
        if array is not None:
            group = _refined(group, array[shared])
    if surface.targets:
        group = _refined(group, _moved_alike(surface.targets, shared, count)[:, None])
    first = np.arange(count)
    _, where, back = np.unique(group, return_index=True, return_inverse=True)
    first[shared] = shared[where[back]]
    return first


def welded(surface: Surface) -> Surface:
    """Return a surface without copies of vertices, and without vertices that no triangle uses."""
    first = weld(surface)
    kept = np.zeros(len(first), bool)
    kept[first[surface.triangles]] = True
    new = np.cumsum(kept) - 1
    take = lambda array: None if array is None else array[kept]
    targets = []
    for rows, values in surface.targets:
        inside = kept[rows]
        targets.append(Sparse(new[rows[inside]], values[inside]))
    return replace(
        surface,
        positions=surface.positions[kept],
        joints=take(surface.joints),
        weights=take(surface.weights),
        targets=tuple(targets),
        own_vertex=take(surface.own_vertex),
        triangles=new[first][surface.triangles],
    )


def labels(rows: np.ndarray) -> np.ndarray:
    """Return for each row (n,k) the number of the group of equal rows it belongs to, (n,)."""
    if not len(rows):
        return np.zeros(0, np.int64)
    order = np.lexsort(rows.T)
    ordered = rows[order]
    starts = np.concatenate([[False], (ordered[1:] != ordered[:-1]).any(axis=1)])
    label = np.empty(len(rows), np.int64)
    label[order] = np.cumsum(starts)
    return label


def _moved_alike(targets: Sequence[Sparse], shared: np.ndarray, count: int) -> np.ndarray:
    """Return for each of some vertices the number of its group, (n,), which all targets move alike.

    shared  (n,) vertices, increasing; count: of all vertices
    """
    place = np.full(count, -1)
    place[shared] = np.arange(len(shared))
    number = np.repeat(np.arange(len(targets)), [len(target.rows) for target in targets])
    where = place[np.concatenate([target.rows for target in targets])]
    moves = np.column_stack([number, np.concatenate([target.values for target in targets]) + 0.0])
    order = np.argsort(where, kind="stable")[np.count_nonzero(where < 0) :]
    ends = np.searchsorted(where[order], np.arange(len(shared) + 1)).tolist()
    data = moves[order].tobytes()
    groups: dict[bytes, int] = {}
    # All moves of a vertex are one text: the time does not grow with vertices times targets.
    texts = (data[32 * start : 32 * end] for start, end in zip(ends, ends[1:]))
    return np.array([groups.setdefault(text, len(groups)) for text in texts])


def _refined(group: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return groups (n,) divided further, so that equal groups have equal rows (n,k)."""
    return labels(np.column_stack([group, labels(rows)]))


def _read_vertices(entry: Entry, accessors: Accessors, targets: int, use_own: bool) -> _Vertices:
    """Return what the vertices of one primitive have."""
    attributes = entry.entry("attributes")
    if attributes is None or not attributes.has("POSITION"):
        raise FileError(f"{entry.where}: has no attribute POSITION")
    positions = accessors.floats(attributes, "POSITION", "VEC3")
    if np.abs(positions).max(initial=0.0) > 1e30:
        raise FileError(f"{attributes.where}.POSITION: has numbers beyond 1e30")
    count = len(positions)

    def optional(key: str, kind: str, whole: bool = False) -> np.ndarray | None:
        if not attributes.has(key):
            return None
        read = accessors.integers if whole else accessors.floats
        found = read(attributes, key, kind)
        if len(found) != count:
            raise FileError(f"{attributes.where}.{key}: {len(found)} rows for {count} vertices")
        return found

    joints: list[np.ndarray | None] = []
    weights: list[np.ndarray | None] = []
    while attributes.has(f"JOINTS_{len(joints)}"):
        joints.append(optional(f"JOINTS_{len(joints)}", "VEC4", whole=True))
        weights.append(optional(f"WEIGHTS_{len(weights)}", "VEC4"))
    if any(w is None for w in weights):
        raise FileError(f"{attributes.where}: JOINTS_ and WEIGHTS_ do not belong together")
    found = entry.entries("targets")
    accessors.budget.take(len(found) * _TARGET, "morph targets")
    if len(found) != targets:
        raise FileError(
            f"{entry.where}.targets: {len(found)} morph targets, the first primitive has {targets}"
        )
    own = optional(VERTEX_ATTRIBUTE, "SCALAR") if use_own else None
    kind = {UVS: "VEC2", "NORMAL": "VEC3"}
    others = ((n, optional(n, kind.get(n, ""))) for n in attributes.data if _OTHERS.fullmatch(n))
    return _Vertices(
        positions,
        np.concatenate(joints, axis=1) if joints else None,  # type: ignore[arg-type]
        np.concatenate(weights, axis=1) if weights else None,  # type: ignore[arg-type]
        None if own is None else np.rint(own[:, 0]).astype(np.int64),
        tuple(_target(target, accessors, count) for target in found),
        {name: rows for name, rows in others if rows is not None and rows.shape[1] <= 4},
    )


def _target(target: Entry, accessors: Accessors, count: int) -> Sparse:
    """Return the offsets of one morph target of a primitive with `count` vertices."""
    if not target.has("POSITION"):
        return Sparse(np.zeros(0, np.int64), np.zeros((0, 3)))
    result = accessors.nonzero(target, "POSITION", "VEC3", count)
    if np.abs(result.values).max(initial=0.0) > 1e30:
        raise FileError(f"{target.where}.POSITION: has numbers beyond 1e30")
    accessors.budget.take(4 * result.values.nbytes, "morph targets")  # copies on the way
    return result


def _triangles(entry: Entry, accessors: Accessors, mode: int, count: int) -> np.ndarray:
    """Return the triangles (m,3) of a primitive with `count` vertices."""
    if entry.has("indices"):
        index = accessors.integers(entry, "indices", "SCALAR")[:, 0]
        if len(index) and index.max() >= count:
            raise FileError(
                f"{entry.where}.indices: refer to vertex {index.max()} of {count} vertices"
            )
    else:
        index = np.arange(count)
    if mode == POINTS or len(index) < 3:
        return np.zeros((0, 3), np.int64)
    if mode == TRIANGLES:
        return index[: len(index) // 3 * 3].reshape(-1, 3)
    if mode == FAN:
        return np.stack([index[1:-1], index[2:], np.broadcast_to(index[0], len(index) - 2)], axis=1)
    # Every second triangle of a strip is stored the other way around.
    odd = np.arange(len(index) - 2) % 2 == 1
    strip = np.stack([index[:-2], index[1:-1], index[2:]], axis=1)
    strip[odd, 1:] = strip[odd, 1:][:, ::-1]
    flat = (
        (strip[:, 0] == strip[:, 1]) | (strip[:, 1] == strip[:, 2]) | (strip[:, 0] == strip[:, 2])
    )
    return strip[~flat]  # triangles without area only lead the strip elsewhere


def _joined(
    vertices: Sequence[_Vertices],
    budget: Budget,
    triangles: np.ndarray,
    material: np.ndarray,
    primitive: np.ndarray,
) -> Surface:
    """Return the surface of several primitives."""
    counts = [len(part.positions) for part in vertices]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    positions = np.concatenate([part.positions for part in vertices])

    def together(name: str) -> np.ndarray | None:
        arrays = [getattr(part, name) for part in vertices]
        width = max((array.shape[1] for array in arrays if array is not None), default=0)
        if not width:
            return None
        kind = next(array for array in arrays if array is not None).dtype
        result = np.zeros((len(positions), width), kind)
        for start, array in zip(starts, arrays):
            if array is not None:
                result[start : start + len(array), : array.shape[1]] = array
        return result

    targets = tuple(
        Sparse(
            np.concatenate([part.targets[t].rows + s for part, s in zip(vertices, starts)]),
            np.concatenate([part.targets[t].values for part in vertices]),
        )
        for t in range(len(vertices[0].targets))
    )
    others = joined_values([(part.others, len(part.positions)) for part in vertices], budget)
    width = sum(rows.shape[1] for rows in others.values())
    budget.take(24 * width * len(triangles), "attributes")
    normals, own = others.pop("NORMAL", None), None
    if all(part.own_vertex is not None for part in vertices):
        own = np.concatenate([part.own_vertex for part in vertices])
    return Surface(
        positions,
        together("joints"),
        together("weights"),
        targets,
        own,
        triangles,
        None if normals is None else _with_flat(normals[triangles], positions[triangles]),
        material.astype(np.int64),
        primitive.astype(np.int64),
        {name: rows[triangles] for name, rows in others.items()},
    )


def _with_flat(normals: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return normals (m,3,3) where NaN is replaced by the normal of the triangle's plane.

    corners  (m,3,3) positions
    """
    missing = np.isnan(normals).any(axis=(1, 2))
    if missing.any():
        normals[missing] = flat_normals(corners[missing])
    return normals


def flat_normals(corners: np.ndarray) -> np.ndarray:
    """Return the unit normal of each triangle at its three corners: corners (m,3,3) positions."""
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    return np.repeat(unit(cross)[:, None], 3, axis=1)
