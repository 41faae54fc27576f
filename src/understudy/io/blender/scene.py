"""A character as the arrays from which `scripts/write_scene.py` builds a Blender scene."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from understudy.core.character import Character
from understudy.core.mesh import Mesh
from understudy.core.skin import skin_weights
from understudy.geometry.transforms import compose
from understudy.io.mesh_objects import MeshObject
from understudy.system.errors import InputError

DEFAULT_RATE = 30.0  # frames per second, of a character without clips


def object_names(character: Character, objects: Sequence[MeshObject]) -> list[str]:
    """Return the names of the objects: of their parts, and of the character for what is in none."""
    rest = character.name
    while rest in character.mesh.parts:
        rest += "_rest"
    return [part.name or rest for part in objects]


def mesh_arrays(
    mesh: Mesh, objects: Sequence[MeshObject]
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return what to tell Blender about the objects of a mesh, and their arrays by name."""
    told: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    for number, part in enumerate(objects):
        materials, of_polygon = _materials(mesh, part)
        corners = np.searchsorted(part.vertices, mesh.polygon_vertices[part.corners])
        named = {
            "vertices": mesh.vertices[part.vertices],
            "polygon_sizes": mesh.polygon_sizes[part.polygons],
            "polygon_vertices": corners,
            "polygon_material": of_polygon,
            "uvs": None if mesh.corner_uvs is None else mesh.corner_uvs[part.corners],
            "normals": None if mesh.corner_normals is None else mesh.corner_normals[part.corners],
        }
        arrays |= {f"object{number}_{k}": v for k, v in named.items() if v is not None}
        told.append({"materials": materials})
    return told, arrays


def rig_arrays(character: Character, objects: Sequence[MeshObject]) -> dict[str, np.ndarray]:
    """Return bones, skin, blend shapes and clips as arrays by name."""
    arrays: dict[str, np.ndarray] = {}
    if character.skeleton is not None and character.skin is not None:
        _linear_and_positive(character)
        arrays["bone_rest"] = rigid_rest(character.skeleton.world_from_bone)
        arrays["bone_length"] = _bone_lengths(character)
        for number, part in enumerate(objects):
            index = character.skin.bone_index[part.vertices]
            weight = character.skin.weight[part.vertices]
            vertex, slot = np.nonzero(weight)
            # A bone that a vertex names twice counts with the sum of its weights.
            cells = vertex.astype(np.int64) * character.bone_count + index[vertex, slot]
            cell, at = np.unique(cells, return_inverse=True)
            arrays[f"object{number}_skin_vertices"] = cell // character.bone_count
            arrays[f"object{number}_skin_bones"] = cell % character.bone_count
            arrays[f"object{number}_skin_weights"] = np.bincount(at, weight[vertex, slot])
    for number, part in enumerate(objects):
        for shape, moves in enumerate(character.shapes):
            inside = np.isin(moves.vertices, part.vertices)
            if inside.any():
                local = np.searchsorted(part.vertices, moves.vertices[inside])
                arrays[f"object{number}_shape{shape}_vertices"] = local
                arrays[f"object{number}_shape{shape}_offsets"] = moves.offsets[inside]
    for number, clip in enumerate(character.clips):
        if character.skeleton is not None:
            motion = compose(clip.world_from_bone, character.skeleton.bone_from_world)
            arrays[f"clip{number}_motion"] = motion
        arrays[f"clip{number}_weights"] = clip.shape_weights
    return arrays


def rigid_rest(world_from_bone: np.ndarray) -> np.ndarray:
    """Return rest matrices (B,3,4) with the nearest rotation in place of scale and shear.

    Blender's bones have neither at rest. Mirrored matrices have all three axes reversed, so that
    the axes stay the lines along which the bone scales.
    """
    rest = world_from_bone.copy()
    u, _, v = np.linalg.svd(rest[:, :, :3] / np.linalg.norm(rest[:, :, :3], axis=1)[:, None])
    rest[:, :, :3] = u @ v
    rest[np.linalg.det(u @ v) < 0, :, :3] *= -1
    return rest


def frame_rate(character: Character, path: object) -> float:
    """Return the frame rate of all clips; a file has one."""
    rates = {clip.name: clip.frame_rate for clip in character.clips}
    if len(set(rates.values())) > 1:
        listed = ", ".join(f"{name} {rate:g}" for name, rate in rates.items())
        raise InputError(
            f"{path}: a file has one frame rate, the clips have several ({listed}); read them at "
            "one (--frame-rate), or write each to a file of its own"
        )
    return next(iter(rates.values()), DEFAULT_RATE)


def write_seconds(character: Character) -> float:
    """Return after how many seconds Blender, writing `character`, is taken to hang."""
    frames = sum(clip.frame_count for clip in character.clips)
    return 600.0 + frames * (1.0 + 2e-5 * character.mesh.vertex_count + 1e-3 * character.bone_count)


def right_handed(character: Character, path: object) -> None:
    """Raise for left-handed coordinates, which Blender does not have."""
    if character.mesh.handedness != "right":
        raise InputError(
            f"{path}: the mesh has left-handed coordinates, Blender writes right-handed files; "
            "mirror mesh and bones first"
        )


def _materials(mesh: Mesh, part: MeshObject) -> tuple[list[str], np.ndarray | None]:
    """Return the materials that an object uses, and which of them each of its polygons has."""
    if not mesh.materials:
        return [], None
    everywhere = np.zeros(len(mesh.polygon_sizes), np.int32)
    used = everywhere if mesh.polygon_material is None else mesh.polygon_material
    found, of_polygon = np.unique(used[part.polygons], return_inverse=True)
    return [mesh.materials[int(number)] for number in found], of_polygon


def _linear_and_positive(character: Character) -> None:
    """Raise for skins that Blender's vertex groups do not hold."""
    assert character.skin is not None  # the caller checks
    if character.skin.blend != "linear":
        raise InputError(
            f"skin: FBX holds linear skins, this one is {character.skin.blend}; fit a linear skin "
            "(method lbs), or write vertices to .abc"
        )
    low, high = float(character.skin.weight.min()), float(character.skin.weight.max())
    if low < 0 or high > 1.001:
        raise InputError(
            f"skin: weights between 0 and 1 are expected by FBX, got {low:g} to {high:g}; refit "
            "the skin with convex weights, or write vertices to .abc"
        )


def _bone_lengths(character: Character) -> np.ndarray:
    """Return how long to draw each bone, (B,): to its children, or else to its vertices.

    A bone without children ends at the middle of its vertices, measured along it, so that it ends
    inside the mesh. Blender deletes bones without length, and orients short ones less precisely:
    others have at least a twentieth of the size of the mesh.
    """
    assert character.skeleton is not None  # the caller checks
    heads = character.skeleton.world_from_bone[:, :, 3]
    parents = character.skeleton.parents
    child = np.flatnonzero(parents >= 0)
    reach = np.linalg.norm(heads[child] - heads[parents[child]], axis=1)
    total = np.bincount(parents[child], reach, character.bone_count)
    count = np.bincount(parents[child], minlength=character.bone_count)
    size = float(np.ptp(character.mesh.vertices, axis=0).max()) or 1.0
    lengths = np.maximum(total / np.maximum(count, 1), 0.05 * size)
    if character.skin is None:
        return lengths
    weights = skin_weights(character.skin, character.bone_count).power(2)
    mass = np.asarray(weights.sum(axis=0)).reshape(-1)
    end = np.flatnonzero((count == 0) & (mass > 0))
    middle = (weights.T @ character.mesh.vertices.astype(np.float64))[end] / mass[end, None]
    along = np.einsum(
        "bi,bi->b", middle - heads[end], character.skeleton.world_from_bone[end, :, 1]
    )
    lengths[end] = np.where(along > 0.02 * size, along, lengths[end])
    return lengths
