"""A composed stage as a `Character`.

A joint's bind transform, a mesh's `geomBindTransform` and the transform of the skeleton in the
world give the rest shape in world space. Meshes without a skin follow a bone: the nearest animated
transform above them, or one bone for all that stand still.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pxr import Usd, UsdGeom, UsdSkel

from understudy.core.character import BlendShape, Character
from understudy.core.mesh import Mesh
from understudy.core.poses import distinct_names
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.normals import unit
from understudy.geometry.transforms import apply, compose, inverse
from understudy.io.budget import Budget
from understudy.io.format import ReadOptions
from understudy.io.numbers import of_file
from understudy.io.usd.looks import read_looks
from understudy.io.usd.merged_mesh import merged_mesh
from understudy.io.usd.prim_names import original_name
from understudy.io.usd.scene_bones import (
    Joints,
    from_rows,
    moving_ancestors,
    read_joints,
    world_transforms,
)
from understudy.io.usd.scene_meshes import Key, PartShapes, ScenePart, read_part, read_shapes
from understudy.system import checks
from understudy.system.errors import FileError

_EVERY = Usd.TraverseInstanceProxies()
EARLIEST = Usd.TimeCode.EarliestTime()


@dataclass(frozen=True, eq=False)
class Placed:
    """A mesh of the stage, and what moves it.

    part      the mesh
    vertices  (n,) int32, where its points are in the character's mesh
    rest      (3,4) from its points to the rest shape in world space
    joints    the skeleton that moves it, or None
    shapes    its blend shapes, or None
    """

    part: ScenePart
    vertices: np.ndarray
    rest: np.ndarray
    joints: Joints | None
    shapes: PartShapes | None


@dataclass(frozen=True, eq=False)
class Scene:
    """What a stage holds.

    stage      the `Usd.Stage`
    character  without clips
    placed     its meshes
    skeletons  those that the character has, in the order of its bones
    movers     prims whose transforms are its last bones; None: the bone that stands still
    bones      (B,) the character's bones among the joints of all skeletons and the movers
    shape_keys of the character's blend shapes
    """

    stage: Any
    character: Character
    placed: list[Placed]
    skeletons: list[Joints]
    movers: list[Any]
    bones: np.ndarray
    shape_keys: list[Key]


def read_scene(stage: Any, name: str, wanted: ReadOptions, budget: Budget) -> Scene:
    """Return the character of a stage without its clips, and where everything is in the stage.

    name  of the character, if the file does not say
    """
    about = dict(stage.GetRootLayer().customLayerData.get("understudy", {}))
    parts = _parts(stage, wanted)
    bindings, skeletons = _bindings(stage, parts)
    order, mesh = merged_mesh(stage, parts, budget)
    looks, notes = read_looks(stage, parts, budget)
    mesh = replace(mesh, looks=looks)
    placed, columns = [], []
    movers: list[Any] = []
    starts = np.cumsum([0, *(len(joints.tokens) for joints in skeletons)])
    for part, vertices in zip(parts, np.split(order, np.cumsum([len(p.points) for p in parts]))):
        path = str(part.prim.GetPath())
        joints, skinning = bindings.get(path, (None, None))
        skinned = skinning is not None and skinning.HasJointInfluences()
        if joints is not None and skinning is not None and skinned:
            bind = from_rows(np.array(skinning.GetGeomBindTransform()))
            rest = compose(world_transforms(joints.prim, [EARLIEST])[0], bind)
            index, weight = _influences(part, skinning, joints)
            index = index + starts[skeletons.index(joints)]
        else:
            rest = world_transforms(part.prim, [EARLIEST])[0]
            mover = next(iter(moving_ancestors(part.prim)), None)
            index = np.full((len(part.points), 1), _mover_bone(movers, mover) + starts[-1])
            weight = np.ones((len(part.points), 1))
        shapes = None
        if joints is not None and skinning is not None:
            above = str(joints.prim.GetPath())
            shapes = read_shapes(part.prim, skinning, above, len(part.points))
        placed.append(Placed(part, vertices, rest, joints if skinned else None, shapes))
        columns.append((index, weight))
    mesh = _in_world(mesh, placed)
    skeleton, skin = _skin(mesh, placed, columns, skeletons, movers)
    bones = np.arange(0 if skeleton is None else skeleton.bone_count)
    if skeleton is None:
        skeletons, movers = [], []
    elif skin is not None:
        extra = np.zeros(skeleton.bone_count, bool)
        extra[: starts[-1]] = np.concatenate([np.zeros(0, bool), *(j.is_scale for j in skeletons)])
        skeleton, skin, bones = _without(skeleton, skin, extra)
    keys, shapes_found = _shapes(stage, placed)
    character = Character(
        mesh,
        skeleton,
        skin,
        tuple(shapes_found),
        name=str(about.get("name") or name),
        notes=tuple(notes),
    )
    return Scene(stage, character, placed, skeletons, movers, bones, keys)


def _parts(stage: Any, wanted: ReadOptions) -> list[ScenePart]:
    """Return the meshes to read."""
    found, known = [], []
    for prim in Usd.PrimRange.Stage(stage, _EVERY):
        if not prim.IsA(UsdGeom.Mesh):
            continue
        name, path = original_name(prim), str(prim.GetPath())
        known.append(name)
        imageable = UsdGeom.Imageable(prim)
        hidden = (
            imageable.ComputePurpose() in (UsdGeom.Tokens.guide, UsdGeom.Tokens.proxy)
            or imageable.ComputeVisibility(EARLIEST) == UsdGeom.Tokens.invisible
        )
        chosen = bool({name, path, prim.GetName()} & set(wanted.meshes))
        if not chosen if wanted.meshes else hidden:
            continue
        part = read_part(prim)
        if part is not None:
            found.append(part)
    for name in wanted.meshes:
        if not any(name in (p.name, p.prim.GetName(), str(p.prim.GetPath())) for p in found):
            raise FileError(f"has no mesh called {name!r}; it has: {', '.join(known) or 'none'}")
    if not found:
        raise FileError("has no mesh that is visible" if known else "has no mesh")
    return found


def _bindings(
    stage: Any, parts: list[ScenePart]
) -> tuple[dict[str, tuple[Joints, Any]], list[Joints]]:
    """Return skeleton and `UsdSkel.SkinningQuery` of each skinned mesh by path, and the skeletons.

    If no mesh has a skin, all skeletons of the stage are returned: meshes may be point caches.
    """
    cache = UsdSkel.Cache()
    wanted = {str(part.prim.GetPath()) for part in parts}
    result: dict[str, tuple[Joints, Any]] = {}
    read: dict[str, Joints] = {}
    unused = []
    for prim in Usd.PrimRange.Stage(stage, _EVERY):
        if not prim.IsA(UsdSkel.Root):
            continue
        root = UsdSkel.Root(prim)
        cache.Populate(root, _EVERY)
        for binding in cache.ComputeSkelBindings(root, _EVERY):
            skeleton = binding.GetSkeleton()
            path = str(skeleton.GetPrim().GetPath())
            for skinning in binding.GetSkinningTargets():
                mesh = str(skinning.GetPrim().GetPath())
                if mesh not in wanted or mesh in result:
                    continue
                if path not in read:
                    read[path] = _joints_of(cache, skeleton)
                result[mesh] = read[path], skinning
        below = Usd.PrimRange(prim, _EVERY)
        unused += [UsdSkel.Skeleton(child) for child in below if child.IsA(UsdSkel.Skeleton)]
    if not read:
        for skeleton in unused:
            path = str(skeleton.GetPrim().GetPath())
            if path not in read:
                read[path] = _joints_of(cache, skeleton)
    return result, list(read.values())


def _joints_of(cache: Any, skeleton: Any) -> Joints:
    """Return a skeleton, checked."""
    query = cache.GetSkelQuery(skeleton)
    if not query:
        raise FileError(f"skeleton {skeleton.GetPrim().GetPath()}: its joints are not valid")
    return read_joints(query)


def _mover_bone(movers: list[Any], mover: Any) -> int:
    """Return the number of the bone of a mover, adding it and its moving ancestors if needed."""
    for prim in [None] if mover is None else reversed(moving_ancestors(mover)):
        if prim not in movers:
            movers.append(prim)
    return movers.index(mover)


def _influences(part: ScenePart, skinning: Any, joints: Joints) -> tuple[np.ndarray, np.ndarray]:
    """Return joints and weights of each point, (n,K) each."""
    where = f"mesh {part.prim.GetPath()}"
    count = len(part.points)
    found = skinning.ComputeVaryingJointInfluences(count)
    width = skinning.GetNumInfluencesPerComponent()
    if not found or len(found[0]) != count * width or len(found[1]) != count * width:
        raise FileError(
            f"{where}: its joint indices and weights do not fit {count} points with {width} "
            "influences each"
        )
    index = np.array(found[0], np.int64).reshape(count, width)
    weight = np.array(found[1], np.float64).reshape(count, width)
    own = skinning.GetJointOrder()
    order = joints.tokens if own is None else tuple(str(token) for token in own)
    with of_file(where):
        index = checks.index(index, "joint indices", len(order), index.shape)
        checks.finite(weight, "joint weights")
    place = {token: k for k, token in enumerate(joints.tokens)}
    missing = [token for token in order if token not in place]
    used = np.unique(index[weight != 0]).tolist()
    if missing and any(order[k] in missing for k in used):
        raise FileError(f"{where}: is bound to the joint {missing[0]!r}, which does not exist")
    index = np.array([place.get(token, 0) for token in order], np.int64)[index]
    total = weight.sum(axis=1, keepdims=True)
    weight[total[:, 0] == 0, 0] = 1.0  # no weights: it follows its first joint
    total[total == 0] = 1.0
    return index, np.where(np.abs(total - 1) > 1e-4, weight / total, weight)


def _in_world(mesh: Mesh, placed: list[Placed]) -> Mesh:
    """Return the mesh with each part at its rest transform."""
    vertices = mesh.vertices.astype(np.float64)
    linear = np.empty((len(vertices), 3, 3))
    for one in placed:
        vertices[one.vertices] = apply(one.rest, one.part.points)
        if np.linalg.det(one.rest[:, :3]) == 0:
            raise FileError(f"mesh {one.part.prim.GetPath()}: is scaled to nothing")
        linear[one.vertices] = inverse(one.rest)[:, :3].T
    normals = mesh.corner_normals
    if normals is not None:
        normals = unit(np.einsum("cij,cj->ci", linear[mesh.polygon_vertices], normals))
    return replace(mesh, vertices=vertices, corner_normals=normals)


def _skin(
    mesh: Mesh,
    placed: list[Placed],
    columns: list[tuple[np.ndarray, np.ndarray]],
    skeletons: list[Joints],
    movers: list[Any],
) -> tuple[Skeleton | None, Skin | None]:
    """Return skeleton and skin; None and None if nothing can move."""
    added = all(joints.prim.GetCustomDataByKey("understudy:added") for joints in skeletons)
    if added and all(mover is None for mover in movers):
        return None, None
    names: list[str] = []
    parents: list[int] = []
    worlds = []
    for joints in skeletons:
        start = len(names)
        taken = set(names) & set(joints.names)
        prefix = f"{joints.prim.GetPath()}/" if taken else ""
        names += [f"{prefix}{name}" for name in joints.names]
        parents += [parent if parent < 0 else parent + start for parent in joints.parents.tolist()]
        worlds.append(compose(world_transforms(joints.prim, [EARLIEST]), joints.bind))
    start = len(names)
    for mover in movers:
        above = moving_ancestors(mover)[1:2] if mover is not None else []
        parents.append(start + _mover_bone(movers, above[0]) if above else -1)
        name = "static" if mover is None else original_name(mover)
        names.append(name if name not in names else f"{name}_{len(names)}")
        identity = np.eye(3, 4)[None]
        worlds.append(identity if mover is None else world_transforms(mover, [EARLIEST]))
    width = max(index.shape[1] for index, _ in columns)
    bone_index = np.zeros((mesh.vertex_count, width), np.int32)
    weight = np.zeros((mesh.vertex_count, width))
    for one, (index, share) in zip(placed, columns):
        bone_index[one.vertices, : index.shape[1]] = index
        weight[one.vertices, : index.shape[1]] = share
    skeleton = Skeleton(tuple(names), np.array(parents), np.concatenate(worlds))
    return skeleton, Skin(bone_index, weight, _blend(placed, columns))


def _without(
    skeleton: Skeleton, skin: Skin, extra: np.ndarray
) -> tuple[Skeleton, Skin, np.ndarray]:
    """Return skeleton and skin without some bones, and the bones that are left.

    extra  (B,) bool, the bones to remove; those that move vertices or are alone stay
    """
    extra = extra.copy()
    extra[skin.bone_index[skin.weight != 0]] = False
    bones = np.flatnonzero(~extra)
    if not extra.any() or not len(bones):
        return skeleton, skin, np.arange(skeleton.bone_count)
    above = skeleton.parents.copy()
    for bone, parent in enumerate(above.tolist()):  # parents come first
        if parent >= 0 and extra[parent]:
            above[bone] = above[parent]
    place = np.full(skeleton.bone_count + 1, -1, np.int32)  # the last one is for no parent
    place[bones] = np.arange(len(bones))
    left = Skeleton(
        tuple(skeleton.names[bone] for bone in bones),
        place[above[bones]],
        skeleton.world_from_bone[bones],
    )
    index = np.where(skin.weight != 0, place[skin.bone_index], 0)
    return left, Skin(index, skin.weight, skin.blend), bones


def _blend(placed: list[Placed], columns: list[tuple[np.ndarray, np.ndarray]]) -> str:
    """Return how bones blend; meshes whose points follow one bone each do not matter."""
    methods = set()
    for one, (_, weight) in zip(placed, columns):
        if one.joints is not None and ((weight != 0).sum(axis=1) > 1).any():
            attribute = UsdSkel.BindingAPI(one.part.prim).GetSkinningMethodAttr()
            methods.add(str(attribute.Get() or UsdSkel.Tokens.classicLinear))
    if len(methods) > 1:
        raise FileError(
            "has meshes with linear and meshes with dual quaternion skinning; read them one by one"
        )
    return "dual_quaternion" if methods == {UsdSkel.Tokens.dualQuaternion} else "linear"


def _shapes(stage: Any, placed: list[Placed]) -> tuple[list[Key], list[BlendShape]]:
    """Return the keys of the character's blend shapes, and the shapes, in the stage's order."""
    pieces: dict[Key, list[tuple[np.ndarray, np.ndarray]]] = {}
    names: dict[Key, str] = {}
    for one in placed:
        if one.shapes is None:
            continue
        for key, name, points, offsets in one.shapes.found:
            moved = one.vertices[points], offsets @ one.rest[:, :3].T
            pieces.setdefault(key, []).append(moved)
            names.setdefault(key, name)
    rank = {token: k for k, token in enumerate(_token_order(stage, placed))}
    keys = sorted(pieces, key=lambda key: rank.get(key[1], len(rank)))
    result: list[BlendShape] = []
    for key, name in zip(keys, distinct_names([names[key] for key in keys])):
        vertices = np.concatenate([piece[0] for piece in pieces[key]])
        offsets = np.concatenate([piece[1] for piece in pieces[key]])
        vertices, inside = np.unique(vertices, return_inverse=True)
        total = np.zeros((len(vertices), 3))
        np.add.at(total, inside, offsets)
        moved = np.abs(total).max(axis=1, initial=0) > 0
        result.append(BlendShape(name, vertices[moved], total[moved]))
    return keys, result


def _token_order(stage: Any, placed: list[Placed]) -> Iterator[str]:
    """Give the names of blend shapes in the order they were written, or that an animation has."""
    seen = []
    for prim in Usd.PrimRange.Stage(stage, _EVERY):
        kept = prim.GetCustomDataByKey("understudy:shapes")
        if isinstance(kept, str):
            seen += kept.split("/")
        if prim.IsA(UsdSkel.Animation):
            seen += [str(t) for t in UsdSkel.Animation(prim).GetBlendShapesAttr().Get() or ()]
    yield from dict.fromkeys(seen)
