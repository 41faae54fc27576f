"""A `Character` out of the arrays of an FBX file.

The skin of an FBX object maps its own points to the world by clusters:

    v = sum over clusters k of  w_k  world_from_node_k(t) @ node_from_geometry_k  (p, 1)

A `Character` has one rest space for all objects. Each object gets a constant transform
`rest_from_geometry` A, its place in the bind pose; then the rest transform of a bone is
A @ inverse(node_from_geometry). Objects that were bound at different times can disagree about a
bone; it is then two bones of one motion. A vertex without weights, and an object without a skin,
follow the object's own node.

Point caches that the file refers to are looked for beside it and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from understudy.core.character import BlendShape, Character, CharacterClip
from understudy.core.mesh import Mesh
from understudy.core.poses import distinct_names
from understudy.geometry.normals import unit
from understudy.geometry.transforms import apply, compose, inverse
from understudy.io.fbx.beside import find_beside
from understudy.io.fbx.bones import Bones
from understudy.io.fbx.looks import read_looks
from understudy.io.fbx.scene import FbxScene, Part, Take
from understudy.io.mesh_objects import alike_across
from understudy.io.numbers import joined_values, of_file, uvs_of
from understudy.io.vertex_cache import VertexCache
from understudy.io.vertex_caches import (
    CACHE_SUFFIXES,
    MAYA_SUFFIXES,
    read_maya_cache,
    read_vertex_cache,
)
from understudy.system import checks
from understudy.system.errors import FileError

_SHAPE = 8000  # bytes
_UNITS = {1.0: "m", 0.01: "cm", 0.001: "mm", 0.0254: "in", 0.3048: "ft"}


def make_character(scene: FbxScene, path: Path, meshes: Sequence[str]) -> Character:
    """Return the character of a scene.

    scene   the arrays of the file
    path    of the file: its name, and the folder in which point caches are looked for
    meshes  names of the objects to take; empty: all
    """
    with of_file(path):
        parts = _chosen(scene.parts(), meshes, path)
        return _assembled(scene, parts, path)


def _chosen(parts: list[Part], names: Sequence[str], path: Path) -> list[Part]:
    """Return the parts of these names; all if there are none."""
    if not parts:
        raise FileError(f"{path}: has no mesh that an object shows")
    known = [part.name for part in parts]
    for name in names:
        checks.one_of(name, "mesh", known)
    return [part for part in parts if not names or part.name in names]


def _assembled(scene: FbxScene, parts: list[Part], path: Path) -> Character:
    """Return the character of some parts."""
    rigid = not any(part.skin or scene.moves[part.node] for part in parts)
    bones = Bones(scene, parts)
    uv_sets = max((part.uv_sets for part in parts), key=len)
    looks, left_out = read_looks(scene, path, uv_sets)
    mesh = replace(_mesh(scene, parts, bones), looks=looks)
    shapes, columns = _shapes(scene, parts, bones)
    skeleton = skin = None
    if not rigid:
        skeleton, skin = bones.skeleton(), bones.skin()
    notes = (*bones.notes, *left_out, *scene.header["notes"])
    character = Character(mesh, skeleton, skin, tuple(shapes), name=path.stem, notes=notes)
    clips = [_clip(take, bones, columns, rigid) for take in scene.takes]
    if not scene.takes:
        clips = _pose(scene, character, bones, columns)
    character = character.with_clips(clips)
    return _with_vertices(scene, parts, bones, character, path)


def _clip(take: Take, bones: Bones, columns: np.ndarray, rigid: bool) -> CharacterClip:
    """Return the frames of a take: columns (S,), the shapes in use."""
    moved = bones.motion(take.node_to_world)
    return CharacterClip(
        take.name,
        moved[:, :0] if rigid else moved,
        take.shape_weight[:, columns],
        take.frame_rate,
        take.start_frame,
    )


def _pose(
    scene: FbxScene, character: Character, bones: Bones, columns: np.ndarray
) -> list[CharacterClip]:
    """Return the pose that a file without takes shows as a clip, unless it is the rest pose."""
    clip = _clip(scene.still(), bones, columns, character.skeleton is None)
    shown = character.evaluate_clip(clip)[0]
    size = np.ptp(character.mesh.vertices, axis=0).max()
    same = np.abs(shown - character.mesh.vertices).max() <= 1e-6 * size
    return [] if same else [clip]


def _mesh(scene: FbxScene, parts: list[Part], bones: Bones) -> Mesh:
    """Return all parts as one mesh in the rest space."""
    starts = np.cumsum([0, *(part.vertex_count for part in parts)])
    labels = list(dict.fromkeys(name for part in parts for name in part.materials))
    place = {name: number for number, name in enumerate(labels)}
    material = [
        np.array([place[name] for name in part.materials] or [0])[
            np.minimum(part.polygon_material, max(len(part.materials) - 1, 0))
        ]
        for part in parts
    ]
    join = np.concatenate
    normals = [
        _turned(place_, part.corner_normals)
        for part, place_ in zip(parts, bones.rest_from_geometry)
        if part.corner_normals is not None
    ]
    given = [(part.corner_values, len(part.corners)) for part in parts]
    values = joined_values(given, scene.budget)
    up, handedness = scene.axes()
    meters = scene.header["unit_meters"]
    return Mesh(
        join([apply(a, part.vertices) for a, part in zip(bones.rest_from_geometry, parts)]),
        join([part.polygon_sizes for part in parts]),
        join([part.corners + start for part, start in zip(parts, starts)]),
        corner_uvs=uvs_of(values),
        corner_normals=join(normals) if len(normals) == len(parts) else None,
        materials=tuple(labels),
        polygon_material=join(material) if labels else None,
        parts={
            part.name: np.arange(start, start + part.vertex_count)
            for part, start in zip(parts, starts)
        },
        unit=next(
            (name for size, name in _UNITS.items() if np.isclose(size, meters, 1e-6)),
            "unitless",
        ),
        up_axis=up,
        handedness=handedness,
        corner_values=values,
    )


def _turned(a: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Return unit normals (n,3) of a surface moved by `a` (3,4)."""
    return unit(normals @ inverse(a)[:, :3])  # the inverse transpose, applied from the left


def _shapes(
    scene: FbxScene, parts: list[Part], bones: Bones
) -> tuple[list[BlendShape], np.ndarray]:
    """Return the blend shapes of the parts, and which shapes (S,) of the file they are."""
    starts = np.cumsum([0, *(part.vertex_count for part in parts)])
    count = int(starts[-1])
    always = np.concatenate([take.shape_weight for take in (*scene.takes, scene.still())])
    users: dict[int, list[int]] = {}  # of each mesh
    for user, part in enumerate(parts):
        users.setdefault(part.mesh, []).append(user)
    used = [(n, shape) for n, shape in enumerate(scene.shapes()) if shape.mesh in users]
    # Shapes of several objects with the same name and weights are one.
    keys = [((shape.name, always[:, n].tobytes()), shape.mesh) for n, shape in used]
    columns, names, found = [], [], []
    for numbers in alike_across(keys):
        scene.budget.take(48 * count, "blend shapes")
        columns.append(used[numbers[0]][0])
        names.append(used[numbers[0]][1].name)
        offsets = np.zeros((count, 3))
        for shape, user in ((used[k][1], u) for k in numbers for u in users[used[k][1].mesh]):
            scene.budget.take(_SHAPE, "blend shapes")
            if shape.vertices.size and shape.vertices.max() >= parts[user].vertex_count:
                raise FileError(f"blend shape {shape.name!r} moves vertices that do not exist")
            turned = shape.offsets @ bones.rest_from_geometry[user][:, :3].T
            np.add.at(offsets, starts[user] + shape.vertices, turned)
        found.append(offsets)
    shapes = map(BlendShape.from_dense, distinct_names(names), found)
    return list(shapes), np.array(columns, np.int64)


def _with_vertices(
    scene: FbxScene, parts: list[Part], bones: Bones, character: Character, path: Path
) -> Character:
    """Return the character with clips whose vertices are stored where skin and shapes cannot say.

    This is so for point caches, and for skins that blend linear and dual quaternion skinning
    vertex by vertex.
    """
    mixed = bones.mixed_blend
    takes = scene.takes or [scene.still()]
    caches = cached_parts(scene, parts, path)
    if mixed is None and not caches:
        return character
    clips = []
    starts = np.cumsum([0, *(part.vertex_count for part in parts)])
    for clip, take in zip(character.clips, takes):
        vertices = character.evaluate_clip(clip)
        if mixed is not None:
            vertices = _mixed(character, clip, vertices, mixed)
        for part, cache in caches.items():
            node = parts[part].node
            world = compose(take.node_to_world[:, node], scene.geometry_to_node[node])
            seconds = (take.start_frame + np.arange(clip.frame_count)) / take.frame_rate
            local = cache.at(seconds, scene.frame_rate)
            count, name = parts[part].vertex_count, f"the object {parts[part].name!r}"
            checks.same_count(local.shape[1], count, "vertices", "its point cache", name)
            vertices[:, starts[part] : starts[part + 1]] = apply(world[:, None], local)
        clips.append(replace(clip, vertices=vertices))
    return character.with_clips(clips)


def _mixed(
    character: Character, clip: CharacterClip, linear: np.ndarray, share: np.ndarray
) -> np.ndarray:
    """Return a clip (F,V,3) of which `share` (V,) is dual quaternion skinning."""
    assert character.skin is not None  # its bones blend
    skin = replace(character.skin, blend="dual_quaternion")
    dual = replace(character, skin=skin, clips=())
    turned = dual.evaluate(clip.world_from_bone, clip.shape_weights)
    return linear + share[:, None].astype(np.float32) * (turned - linear)


def cached_parts(scene: FbxScene, parts: list[Part], path: Path) -> dict[int, VertexCache]:
    """Return the point cache of each part that has one, by the number of the part."""
    found: dict[int, VertexCache] = {}
    for entry in scene.header["caches"]:
        for number, part in enumerate(parts):
            if part.mesh != entry["mesh"] or number in found:
                continue
            names = (entry["relative"], entry["absolute"])
            file = find_beside(path, CACHE_SUFFIXES, *names)
            if file is None:
                raise FileError(
                    f"{path}: its point cache {names[0]!r} is missing; put it beside the file, in "
                    f"the folder {path.stem}_fpc, or leave that object out"
                )
            if file.suffix.lower() in MAYA_SUFFIXES:
                found[number] = read_maya_cache(file, entry["channel"] or None)
            else:
                found[number] = read_vertex_cache(file)
    return found
