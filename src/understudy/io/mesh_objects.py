"""A mesh as objects: formats that hold one mesh per object get one for each part.

A part becomes an object if it shares no vertex with another one and no polygon crosses its border.
Vertices are never duplicated, so objects put together give the same mesh, vertex by vertex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from understudy.core.mesh import Mesh


@dataclass(frozen=True, eq=False)
class MeshObject:
    """Some vertices of a mesh and all polygons between them.

    name      of the part; "" for the vertices that are in no such part
    vertices  (n,) int32, increasing
    polygons  (f,) int32, increasing
    corners   (c,) int32, the corners of those polygons
    """

    name: str
    vertices: np.ndarray
    polygons: np.ndarray
    corners: np.ndarray


def mesh_objects(mesh: Mesh) -> list[MeshObject]:
    """Return the objects of a mesh; each vertex is in exactly one.

    Parts that overlap an earlier one or that a polygon crosses are no objects: their vertices are
    in the others.

    >>> square = Mesh.from_faces(np.eye(6, 3), [[0, 1, 2], [3, 4, 5]], parts={"a": [3, 4, 5]})
    >>> [(found.name, found.vertices.tolist()) for found in mesh_objects(square)]
    [('a', [3, 4, 5]), ('', [0, 1, 2])]
    """
    polygon = np.repeat(np.arange(len(mesh.polygon_sizes)), mesh.polygon_sizes)
    owner = np.full(mesh.vertex_count, -1)
    names: list[str] = []
    for name, vertices in mesh.parts.items():
        inside = np.zeros(mesh.vertex_count, bool)
        inside[vertices] = True
        count = np.bincount(
            polygon[inside[mesh.polygon_vertices]], minlength=len(mesh.polygon_sizes)
        )
        crossed = (count > 0) & (count < mesh.polygon_sizes)
        if not inside.any() or crossed.any() or (owner[inside] >= 0).any():
            continue
        owner[inside] = len(names)
        names.append(name)
    if (owner < 0).any():
        owner[owner < 0] = len(names)
        names.append("")
    starts = np.cumsum(mesh.polygon_sizes) - mesh.polygon_sizes
    polygon_owner = owner[mesh.polygon_vertices[starts]] if len(starts) else np.zeros(0, int)
    corner_owner = polygon_owner[polygon]
    at = lambda owners, number: np.flatnonzero(owners == number).astype(np.int32)
    return [
        MeshObject(name, at(owner, k), at(polygon_owner, k), at(corner_owner, k))
        for k, name in enumerate(names)
    ]


def alike_across(keys: Iterable[tuple[Hashable, Hashable]]) -> list[list[int]]:
    """Return the numbers of things that are one across several objects, such as "smile" on two.

    keys  for each thing: what is equal if they are one, and its object, which has one of each

    >>> alike_across([("smile", "face"), ("smile", "teeth"), ("smile", "face")])
    [[0, 1], [2]]
    """
    groups: dict[Hashable, list[int]] = {}
    before: Counter[Hashable] = Counter()
    for number, key in enumerate(keys):
        groups.setdefault((key[0], before[key]), []).append(number)
        before[key] += 1
    return list(groups.values())
