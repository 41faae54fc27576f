"""The parts of a glTF file put together: corners, polygons, materials, blend shapes.

A morph target belongs to one mesh in glTF. Targets of several parts that have the same name and the
same weights in every animation are one blend shape, as "smile" on the face and on the teeth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.character import BlendShape
from understudy.core.coordinates import Conversion
from understudy.core.poses import unique
from understudy.io.budget import Budget
from understudy.io.gltf.binding import placed, placed_normals
from understudy.io.gltf.document import Entry, clean_text
from understudy.io.gltf.own_extras import OwnExtras
from understudy.io.gltf.surfaces import Surface, flat_normals
from understudy.io.mesh_objects import alike_across
from understudy.io.numbers import joined_values


class EditedError(Exception):
    """Another program has changed a file of ours, so what we noted in it is no longer true."""


@dataclass(frozen=True)
class Part:
    """One node with a mesh.

    name         of the part
    node, mesh   indices
    surface      its mesh
    placement    (3,4) from the mesh's space to the rest shape
    instance     (3,4) where the node shows it, in its own space
    bone_index   (n,K), and
    weight       (n,K): its skin; None without bones
    """

    name: str
    node: int
    mesh: int
    surface: Surface
    placement: np.ndarray
    instance: np.ndarray
    bone_index: np.ndarray | None = None
    weight: np.ndarray | None = None

    @property
    def is_mirrored(self) -> bool:
        """Whether its placement turns triangles around."""
        return bool(np.linalg.det(self.placement[:, :3]) < 0)


@dataclass(frozen=True)
class Corners:
    """The corners of m triangles.

    vertices   (m,3) of the character
    normals    (m,3,3): a file without shows its triangles flat
    material   (m,) index into the materials of the file; -1: none
    primitive  (m,) counted over all meshes of the file
    values     further ones by name, (m,3,n); NaN where a triangle has none
    """

    vertices: np.ndarray
    normals: np.ndarray
    material: np.ndarray
    primitive: np.ndarray
    values: dict[str, np.ndarray]


def corners_of(
    parts: list[Part], vertex_map: list[np.ndarray], first_primitive: np.ndarray, budget: Budget
) -> Corners:
    """Return the corners of all parts.

    vertex_map       for each part, the vertex of the character that each of its vertices is
    first_primitive  the number of the first primitive of each mesh of the file
    """
    turned = lambda part, array: array[:, ::-1] if part.is_mirrored else array
    join = lambda values: np.concatenate([turned(p, v) for p, v in zip(parts, values)])
    values = [
        ({name: turned(part, rows) for name, rows in _values(part).items()}, len(v))
        for part, v in ((part, part.surface.triangles) for part in parts)
    ]
    return Corners(
        join([v[part.surface.triangles] for part, v in zip(parts, vertex_map)]),
        join([_normals(part) for part in parts]),
        np.concatenate([part.surface.material for part in parts]),
        np.concatenate([p.surface.primitive + first_primitive[p.mesh] for p in parts]),
        joined_values(values, budget),
    )


def _values(part: Part) -> dict[str, np.ndarray]:
    """Return the further attributes of the corners of a part, (m,3,n) each."""
    turn = Conversion(part.placement[:, :3], np.eye(3), part.is_mirrored)
    return turn.corner_values(part.surface.corner_values)


def material_names(
    material: np.ndarray, entries: list[Entry], own: OwnExtras | None
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return names of materials, and which of them each triangle has, (m,).

    material  (m,) index into `entries`, the materials of the file; -1: none
    """
    if own is not None and not own.has_materials:
        return own.materials, np.zeros(len(material), np.int64)
    if own is not None:
        names = [entry.text("name") for entry in entries]
        place = {name: k for k, name in reversed(list(enumerate(own.materials)))}
        if material.min(initial=0) < 0 or not place.keys() >= set(names):
            raise EditedError
        slots = np.array([place[name] for name in names], np.int64)
        return own.materials, slots[material]
    used, slot = np.unique(material, return_inverse=True)
    taken: dict[str, int] = {}
    found = []
    for number in used.tolist():
        name = entries[number].text("name").strip() if number >= 0 else "default"
        found.append(unique(name or f"material_{number}", taken))
    return tuple(found), slot.reshape(-1)


def polygons_of(corners: Corners, own: OwnExtras | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners of each polygon: sizes (F,), and which of the 3m corners (N,).

    Triangles stay triangles, unless our writer noted which polygons they come from.
    """
    count = len(corners.vertices)
    if own is None:
        return np.full(count, 3), np.arange(3 * count)
    present = np.unique(corners.primitive)
    runs = own.polygons[np.isin(own.polygons[:, 0], present)]
    fans = (runs[:, 1] - 2).clip(0)
    # Numbers of Python cannot overflow.
    total = sum(int(a) * int(b) for a, b in zip(fans, runs[:, 2]))
    if total != count or (runs[:, 1] < 3).any() or (runs[:, 2] < 1).any():
        raise EditedError
    primitive, sizes = np.repeat(runs[:, 0], runs[:, 2]), np.repeat(runs[:, 1], runs[:, 2])
    # Triangles are stored by primitive; polygons of different primitives may alternate.
    order = np.argsort(primitive, kind="stable")
    start = np.empty(len(order), np.int64)
    start[order] = np.cumsum((sizes - 2)[order]) - (sizes - 2)[order]
    by_primitive = np.argsort(corners.primitive, kind="stable")
    if len(start) and (corners.primitive[by_primitive][start] != primitive).any():
        raise EditedError
    polygon = np.repeat(np.arange(len(sizes)), sizes)
    step = np.arange(len(polygon)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    triangle = by_primitive[start[polygon] + np.maximum(step - 2, 0)]
    at = 3 * triangle + np.minimum(step, 2)
    _check_fans(corners.vertices[by_primitive], start, sizes)
    if own.handedness == "left":
        at = at[turned_around(sizes)]
    return sizes, at


def turned_around(sizes: np.ndarray) -> np.ndarray:
    """Return the order of corners (N,) that turns each polygon around but keeps its first corner.

    >>> turned_around(np.array([3, 4])).tolist()
    [0, 2, 1, 3, 6, 5, 4]
    """
    starts = np.cumsum(sizes) - sizes
    polygon = np.repeat(np.arange(len(sizes)), sizes)
    step = np.arange(int(sizes.sum())) - starts[polygon]
    return starts[polygon] + np.where(step == 0, 0, sizes[polygon] - step)


def _check_fans(triangles: np.ndarray, start: np.ndarray, sizes: np.ndarray) -> None:
    """Raise unless the triangles (m,3) of each polygon are a fan around its first corner."""
    follows = np.ones(len(triangles), bool)
    follows[start] = False
    later = np.flatnonzero(follows)
    before = triangles[later - 1]
    if (triangles[later, 0] != before[:, 0]).any() or (triangles[later, 1] != before[:, 2]).any():
        raise EditedError


def _normals(part: Part) -> np.ndarray:
    """Return the normals of the corners, (m,3,3); those of the planes where the file has none."""
    surface = part.surface
    if surface.corner_normals is None:
        points = placed(part.placement, surface.positions)[surface.triangles]
        return flat_normals(points) * (-1.0 if part.is_mirrored else 1.0)
    return placed_normals(part.placement, surface.corner_normals)


@dataclass(frozen=True)
class Target:
    """One morph target of one part.

    name      in the file; "" if it has none
    part      name of the part
    vertices  (n,) of the character, increasing
    offsets   (n,3)
    curves    weights per clip, each (F,), or (1,) if they do not change; at the end that without
              animation, (1,)
    """

    name: str
    part: str
    vertices: np.ndarray
    offsets: np.ndarray
    curves: tuple[np.ndarray, ...]


def target_names(mesh: Entry, count: int) -> list[str]:
    """Return the names of the morph targets of a mesh; "" for those without one."""
    extras = mesh.data.get("extras")
    names = extras.get("targetNames") if isinstance(extras, dict) else None
    if not isinstance(names, list) or len(names) < count:
        return [""] * count
    return [clean_text(name) if isinstance(name, str) else "" for name in names[:count]]


def blend_shapes(
    targets: list[Target], order: list[str]
) -> tuple[list[BlendShape], list[tuple[np.ndarray, ...]]]:
    """Return the blend shapes of all targets, and the weight curves of each.

    order  names that come first, in this order
    """
    moving = lambda target: tuple((len(curve), curve.tobytes()) for curve in target.curves)
    keys = [((t.name, moving(t)) if t.name else n, t.part) for n, t in enumerate(targets)]
    groups: dict[str, list[Target]] = {}
    taken: dict[str, int] = {}
    for numbers in alike_across(keys):
        first = targets[numbers[0]]
        name = first.name or f"{first.part}_target_{numbers[0]}"
        name = unique(name if name not in taken else f"{first.part}_{name}", taken)
        groups[name] = [targets[number] for number in numbers]
    rank = {name: place for place, name in enumerate(order)}
    names = sorted(groups, key=lambda name: rank.get(name, len(rank)))
    return [_shape(name, groups[name]) for name in names], [groups[n][0].curves for n in names]


def _shape(name: str, group: list[Target]) -> BlendShape:
    """Return the blend shape of targets on several parts; a vertex of two parts counts once."""
    vertices = np.concatenate([target.vertices for target in group])
    offsets = np.concatenate([target.offsets for target in group])
    vertices, first = np.unique(vertices, return_index=True)
    return BlendShape(name, vertices, offsets[first])
