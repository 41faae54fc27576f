"""A mesh as glTF primitives: one per part and material, vertices split where corners differ.

Morph targets change normals too:

    normal shown = unit(rest normal + sum over shapes s of  w_s change_s)

The normal of a deformed surface is not linear in the weights. For each shape alone, at weight one,
the change is exact; for the weights in the clips it is then corrected by least squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.character import Character
from understudy.core.coordinates import Conversion
from understudy.core.mesh import Mesh
from understudy.core.poses import evenly
from understudy.geometry.adjacency import fans
from understudy.geometry.normals import CornerNormals, vertex_normals
from understudy.io.gltf.assembly import turned_around
from understudy.io.gltf.surfaces import labels
from understudy.io.numbers import UVS

_MOST_FRAMES = 96  # that the changes are fitted to
_RIDGE = 1e-3  # holds shapes that the clips hardly use at their own change
# A smaller change of a normal is not stored; in radians, at the largest weight in the clips.
_SMALLEST = 3e-3


@dataclass(frozen=True)
class Primitive:
    """The polygons of one part and material, as triangles.

    material   index into the materials of the mesh
    vertices   (n,) the vertex of the mesh that each split vertex is
    corners    (n,) a corner of the mesh that it is; -1: it has no polygon
    normals    (n,3) float32, of length one
    triangles  (m,3) indices of split vertices
    values     further attributes by name, (n,w) float32
    """

    material: int
    vertices: np.ndarray
    corners: np.ndarray
    normals: np.ndarray
    triangles: np.ndarray
    values: dict[str, np.ndarray]


@dataclass(frozen=True)
class MeshNode:
    """One part as primitives.

    name      of the part
    vertices  (n,) of the mesh, those in its primitives, increasing
    """

    name: str
    primitives: tuple[Primitive, ...]
    vertices: np.ndarray


def mesh_nodes(mesh: Mesh, rest_name: str) -> tuple[list[MeshNode], np.ndarray]:
    """Return the parts of a mesh as primitives, and the primitive of each polygon, (F,).

    rest_name  of the node that holds what no part has

    A polygon belongs to the first part that has all its vertices, else to that of its first corner.
    """
    names, part_of_vertex, part_of_polygon = _owners(mesh, rest_name)
    material = mesh.polygon_material
    material = np.zeros(len(mesh.polygon_sizes), int) if material is None else material
    corners = _Corners(mesh)
    primitive = np.full(len(mesh.polygon_sizes), -1)
    used = np.zeros(mesh.vertex_count, bool)
    used[mesh.polygon_vertices] = True
    nodes, count = [], 0
    for part, name in enumerate(names):
        inside = part_of_polygon == part
        loose = np.flatnonzero((part_of_vertex == part) & ~used)
        found = []
        for slot in np.unique(material[inside]).tolist() or ([0] if len(loose) else []):
            chosen = inside & (material == slot)
            found.append(corners.primitive(slot, chosen, loose))
            primitive[chosen] = count
            count += 1
            loose = loose[:0]
        if found:
            vertices = np.unique(np.concatenate([p.vertices for p in found]))
            nodes.append(MeshNode(name, tuple(found), vertices))
    return nodes, primitive


def _owners(mesh: Mesh, rest_name: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return names, and which of them each vertex (V,) and each polygon (F,) belongs to."""
    names = list(mesh.parts)
    vertex = np.full(mesh.vertex_count, len(names))
    for number in reversed(range(len(names))):
        vertex[mesh.parts[names[number]]] = number
    starts = np.cumsum(mesh.polygon_sizes) - mesh.polygon_sizes
    polygon = vertex[mesh.polygon_vertices[starts]] if len(starts) else np.zeros(0, np.int64)
    if len(starts):
        divided = np.flatnonzero(
            np.maximum.reduceat(vertex[mesh.polygon_vertices], starts)
            != np.minimum.reduceat(vertex[mesh.polygon_vertices], starts)
        )
        # Parts may overlap: look for one that has the polygon whole.
        for number in reversed(range(len(names))) if len(divided) else ():
            inside = np.zeros(mesh.vertex_count, bool)
            inside[mesh.parts[names[number]]] = True
            whole = np.minimum.reduceat(inside[mesh.polygon_vertices], starts)
            polygon[divided[whole[divided]]] = number
    return [*names, rest_name], vertex, polygon


class _Corners:
    """The corners of a mesh in glTF's coordinates, and which of them are the same."""

    def __init__(self, mesh: Mesh):
        self.sizes = mesh.polygon_sizes.astype(np.int64)
        self.vertices = mesh.polygon_vertices.astype(np.int64)
        self.values = {}
        uvs = {} if mesh.corner_uvs is None else {UVS: mesh.corner_uvs.astype(np.float64)}
        given = {**uvs, **mesh.corner_values}
        for name, rows in Conversion.mesh_to_gltf(mesh).corner_values(given).items():
            flip = name.startswith("TEXCOORD_")
            turned = np.stack([rows[:, 0], 1 - rows[:, 1]], axis=1) if flip else rows
            self.values[name] = turned.astype(np.float32) + np.float32(0)
        self.normals = _normals(mesh)
        self.corner = np.arange(len(self.vertices))
        self.polygon = np.repeat(np.arange(len(self.sizes)), self.sizes)
        if Conversion.mesh_to_gltf(mesh).mirrored:
            turn = turned_around(self.sizes)
            self.vertices, self.normals = self.vertices[turn], self.normals[turn]
            self.corner = self.corner[turn]
            self.values = {name: rows[turn] for name, rows in self.values.items()}

    def primitive(self, material: int, chosen: np.ndarray, loose: np.ndarray) -> Primitive:
        """Return the primitive of the polygons `chosen` (F,) and of vertices without polygons."""
        corner = np.flatnonzero(chosen[self.polygon])
        keys: list[np.ndarray] = [self.vertices[corner, None], self.normals[corner].view(np.int32)]
        values = {name: rows[corner] for name, rows in self.values.items()}
        values = {name: rows for name, rows in values.items() if np.isfinite(rows).all()}
        keys += [rows.view(np.int32) for rows in values.values()]
        first, copy = _distinct(np.concatenate(keys, axis=1))
        triangles = copy[fans(self.sizes[chosen])]
        blank = ((0, len(loose)), (0, 0))
        values = {n: np.pad(r[first], blank) for n, r in values.items() if len(corner)}
        up = np.tile(np.array([0, 1, 0], np.float32), (len(loose), 1))
        return Primitive(
            material,
            np.concatenate([self.vertices[corner[first]], loose]),
            np.concatenate([self.corner[corner[first]], np.full(len(loose), -1)]),
            np.concatenate([self.normals[corner[first]], up]),
            triangles,
            values,
        )


def corner_normals(mesh: Mesh) -> np.ndarray:
    """Return unit normals of the corners (N,3) float64: the mesh's own, else smooth ones."""
    if mesh.corner_normals is not None:
        normals = mesh.corner_normals.astype(np.float64)
    else:
        # Computed about a point near the mesh: 32 bits lose the surface far from the origin.
        centred = mesh.vertices.astype(np.float64) - mesh.vertices.mean(axis=0, dtype=np.float64)
        smooth = vertex_normals(centred, mesh.triangles, np.float64)
        normals = smooth[mesh.polygon_vertices]
    return normals


def _normals(mesh: Mesh) -> np.ndarray:
    """Return unit normals of the corners (N,3) float32 in glTF's coordinates, without -0."""
    normals = Conversion.mesh_to_gltf(mesh).normals(corner_normals(mesh))
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    unit = np.divide(normals, length, out=np.zeros_like(normals), where=length > 1e-12)
    unit[length[:, 0] <= 1e-12] = [0.0, 1.0, 0.0]
    return unit.astype(np.float32) + np.float32(0)


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of each set of equal rows, and the set of each row.

    Sets are in the order of their first column, then of their occurrence.
    """
    label = labels(rows)
    first = np.unique(label, return_index=True)[1]
    sort = np.lexsort([first, rows[first, 0]])
    place = np.empty(len(sort), np.int64)
    place[sort] = np.arange(len(sort))
    return first[sort], place[label]


def morph_normals(character: Character, normals: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Return the change of some normals by each blend shape, (S,n,3) float32.

    normals  (N,3) unit normals of the corners of the mesh
    corners  (n,) those to return; -1: a vertex without polygons, which does not change
    """
    mesh, count = character.mesh, len(character.shapes)
    used = corners >= 0
    result = np.zeros((count, len(corners), 3), np.float32)
    if not used.any():
        return result
    # About a point near the mesh: products of lengths lose the surface far from the origin.
    vertices = mesh.vertices - mesh.vertices.mean(axis=0, dtype=np.float64)
    carried = CornerNormals(vertices, mesh.polygon_sizes, mesh.polygon_vertices, normals)
    rest = np.asarray(normals, np.float32)[corners[used]]

    def change(weights: np.ndarray) -> np.ndarray:
        moved = vertices + character.shape_offsets(weights[None])[0]
        return carried.at(moved)[corners[used]] - rest

    own = np.stack([change(row) for row in np.eye(count)]).reshape(count, -1)
    weights = np.concatenate(
        [np.zeros((0, count)), *(clip.shape_weights for clip in character.clips)]
    ).astype(np.float64)
    weights = weights[weights.any(axis=1)]
    frames = weights[evenly(len(weights), _MOST_FRAMES)] if len(weights) else weights
    product = np.zeros_like(own)
    for row in frames:
        missing = change(row).reshape(-1) - row.astype(np.float32) @ own
        product += row.astype(np.float32)[:, None] * missing
    gram = frames.T @ frames
    ridge = _RIDGE * max(float(np.trace(gram)) / count, 1e-6) * np.eye(count)
    own += (np.linalg.inv(gram + ridge) @ product).astype(np.float32)
    largest = np.abs(weights).max(axis=0, initial=1.0)
    found = own.reshape(count, -1, 3)
    small = np.abs(found).max(axis=2) * largest[:, None] < _SMALLEST
    found[small] = 0.0
    result[:, used] = found
    return result
