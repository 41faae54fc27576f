"""Parts of a character (body, eyes, clothes): some vertices of a mesh, of poses, and back together.

A part is a named set of vertices, `Mesh.parts`. `take_part` and `without_parts` cut poses down to
fewer vertices; `join_deformers` makes one deformer of those that were fitted to such cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from understudy.core.bounds import join_bounds
from understudy.core.deformer import Deformer
from understudy.core.features import Features
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses, VertexSource
from understudy.core.skin import Skin
from understudy.system import checks
from understudy.system.errors import InputError


class VertexSubset:
    """Some vertices of a `VertexSource`, read when they are asked for.

    source  all vertices
    kept    (n,) the vertices of `source` that this one has, in this order
    shape   (T, n, 3)
    """

    def __init__(self, source: VertexSource, kept: np.ndarray):
        self.source, self.kept = source, np.asarray(kept)
        self.shape = (source.shape[0], len(self.kept), 3)

    def read_poses(self, start: int, stop: int) -> np.ndarray:
        """Return all kept vertices of some poses, (stop-start, n, 3) float32."""
        return self.source.read(start, stop, self.kept)

    def read(self, start: int, stop: int, vertices: np.ndarray) -> np.ndarray:
        """Return some vertices of some poses, (stop-start, len(vertices), 3) float32."""
        return self.source.read(start, stop, self.kept[vertices])


def submesh(mesh: Mesh, kept: np.ndarray) -> Mesh:
    """Return the mesh of some vertices, with the polygons that lie within them.

    kept  (n,) vertices, each once; their order is that of the result

    >>> square = Mesh(np.eye(5, 3), [3, 3], [0, 1, 2, 2, 3, 4])
    >>> submesh(square, [2, 3, 4]).polygon_vertices.tolist()
    [0, 1, 2]
    """
    kept = checks.index(kept, "vertices to keep", mesh.vertex_count)
    number = np.full(mesh.vertex_count, -1, np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    polygon = np.repeat(np.arange(len(mesh.polygon_sizes)), mesh.polygon_sizes)
    corners = number[mesh.polygon_vertices]
    inside = np.ones(len(mesh.polygon_sizes), bool)
    inside[polygon[corners < 0]] = False
    kept_corner = inside[polygon]
    cut = lambda array, rows: None if array is None else array[rows]
    parts = {name: number[vertices] for name, vertices in mesh.parts.items()}
    return replace(
        mesh,
        vertices=mesh.vertices[kept],
        polygon_sizes=mesh.polygon_sizes[inside],
        polygon_vertices=corners[kept_corner],
        corner_uvs=cut(mesh.corner_uvs, kept_corner),
        corner_normals=cut(mesh.corner_normals, kept_corner),
        polygon_material=cut(mesh.polygon_material, inside),
        corner_values={name: rows[kept_corner] for name, rows in mesh.corner_values.items()},
        parts={name: at[at >= 0] for name, at in parts.items() if (at >= 0).any()},
    )


def take_vertices(poses: Poses, kept: np.ndarray) -> Poses:
    """Return the same poses with some of the vertices, (n,) indices; nothing is read from disk."""
    skin = poses.skin
    if skin is not None:
        skin = replace(skin, bone_index=skin.bone_index[kept], weight=skin.weight[kept])
    vertices: np.ndarray | VertexSource
    if isinstance(poses.vertices, np.ndarray):
        vertices = poses.vertices[:, kept]
    else:
        vertices = VertexSubset(poses.vertices, kept)
    return replace(poses, mesh=submesh(poses.mesh, kept), vertices=vertices, skin=skin)


def part_vertices(mesh: Mesh, names: Sequence[str]) -> np.ndarray:
    """Return the vertices of some parts together, in increasing order.

    >>> mesh = Mesh(np.eye(4, 3), [], [], parts={"body": [0, 1], "eyes": [3]})
    >>> part_vertices(mesh, ["eyes", "body"]).tolist()
    [0, 1, 3]
    """
    if names and not mesh.parts:
        raise InputError(f"part {names[0]!r}: the mesh has no named parts")
    for name in names:
        checks.one_of(name, "part", tuple(mesh.parts))
    chosen = [mesh.parts[name] for name in names]
    return np.unique(np.concatenate([np.zeros(0, np.int32), *chosen])).astype(np.int32)


def without_parts(poses: Poses, names: Sequence[str]) -> Poses:
    """Return the poses without the vertices of some parts."""
    if not names:
        return poses
    left = np.setdiff1d(np.arange(poses.vertex_count), part_vertices(poses.mesh, names))
    if not len(left):
        raise InputError(f"without {', '.join(names)} no vertex is left; keep one part at least")
    return take_vertices(poses, left)


def join_deformers(mesh: Mesh, fitted: Mapping[str, tuple[np.ndarray, Deformer]]) -> Deformer:
    """Return one deformer of several that move different vertices of `mesh`.

    fitted  name -> (vertices (n,) of `mesh`, their deformer). Every vertex of `mesh` belongs to
            exactly one. All have the same bones, controls and blend; the first one's method,
            training figures and provenance are kept
    """
    fitted = {name: (rows, deformer.folded) for name, (rows, deformer) in fitted.items()}
    first = next(iter(fitted.values()))[1]
    rows = [vertices for vertices, _ in fitted.values()]
    counted = np.bincount(np.concatenate(rows), minlength=mesh.vertex_count)
    if len(counted) != mesh.vertex_count or (counted != 1).any():
        raise InputError("parts: every vertex must belong to exactly one part")
    for _, deformer in fitted.values():
        if deformer.clips or (deformer.skin and deformer.skin.virtual_index is not None):
            raise InputError(f"parts: {deformer.method} cannot be fitted part by part")
    nets: list[Net] = []
    bases: list[Basis] = []
    features: list[Features] = []
    mean = np.zeros((mesh.vertex_count, 3), np.float32)
    feature, coefficient = 0, 0
    for vertices, deformer in fitted.values():
        nets += [
            replace(net, inputs=net.inputs + feature, outputs=net.outputs + coefficient)
            for net in deformer.nets
        ]
        bases += [
            replace(
                basis,
                vertices=vertices[basis.vertices],
                coefficients=basis.coefficients + coefficient,
            )
            for basis in deformer.bases
        ]
        if deformer.mean is not None:
            mean[vertices] = deformer.mean
        features.append(deformer.features)
        feature += deformer.features.count
        coefficient += deformer.coefficient_count
    joined = lambda name: np.concatenate([getattr(f, name) for f in features])
    bounds = [(d.bounds, d.features.count, d.coefficient_count) for _, d in fitted.values()]
    return replace(
        first,
        mesh=mesh,
        bounds=join_bounds(bounds),
        held_out_error=_join_errors(mesh.vertex_count, fitted),
        skin=_join_skins(mesh.vertex_count, fitted),
        features=Features(joined("columns"), joined("low"), joined("high")),
        nets=tuple(nets),
        bases=tuple(bases),
        mean=mean if mean.any() else None,
    )


def _join_errors(
    vertex_count: int, fitted: Mapping[str, tuple[np.ndarray, Deformer]]
) -> np.ndarray | None:
    """Return the held-out errors of the parts as one array; None if one of them has none."""
    result = np.zeros(vertex_count, np.float32)
    for vertices, deformer in fitted.values():
        if deformer.held_out_error is None:
            return None
        result[vertices] = deformer.held_out_error
    return result


def _join_skins(
    vertex_count: int, fitted: Mapping[str, tuple[np.ndarray, Deformer]]
) -> Skin | None:
    """Return the skins of the parts as one, with as many influences as the widest has."""
    skins = [(vertices, deformer.skin) for vertices, deformer in fitted.values()]
    present = [(vertices, skin) for vertices, skin in skins if skin is not None]
    if not present:
        return None
    if len(present) < len(skins) or len({skin.blend for _, skin in present}) > 1:
        raise InputError("parts: all of them need a skin of the same blend")
    influences = max(skin.influences for _, skin in present)
    index = np.zeros((vertex_count, influences), np.int32)
    weight = np.zeros((vertex_count, influences), np.float32)
    for vertices, skin in present:
        index[vertices, : skin.influences] = skin.bone_index
        weight[vertices, : skin.influences] = skin.weight
    return Skin(index, weight, present[0][1].blend)
