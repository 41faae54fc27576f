"""The animations of a stage, sampled at every frame.

The first clip is what the stage plays: the animations bound to its skeletons, animated transforms
and time samples of points. Each `SkelAnimation` that is not bound becomes another clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pxr import Usd, UsdGeom, UsdSkel

from understudy.core.character import Character, CharacterClip
from understudy.core.coordinates import Conversion
from understudy.core.poses import distinct_names
from understudy.geometry.transforms import apply
from understudy.io.budget import Budget
from understudy.io.format import ReadOptions
from understudy.io.usd.merged_mesh import unit_of
from understudy.io.usd.prim_names import original_name
from understudy.io.usd.scene import EARLIEST, Scene, read_scene
from understudy.io.usd.scene_bones import transform_times, world_transforms
from understudy.io.usd.scene_meshes import numbers
from understudy.system.errors import FileError

_MOST_FRAMES = 200_000
_BLOCK = 32  # frames evaluated at a time


def read_stage(stage: Any, name: str, wanted: ReadOptions, budget: Budget) -> Character:
    """Return the character of a stage.

    name  of the character, if the file does not say
    """
    scene = read_scene(stage, name, wanted, budget)
    character = scene.character
    plans = _plans(scene, name, wanted)
    _take(scene, plans, budget)
    character = character.with_clips([_clip(scene, plan) for plan in plans])
    meters = UsdGeom.GetStageMetersPerUnit(stage)
    if unit_of(meters) or meters == 1.0:
        return character
    return Conversion.scale(meters).character(character)


@dataclass(frozen=True, eq=False)
class _Plan:
    """How a clip is read.

    name        of the clip
    rate        frames per second
    start       number of the first frame
    times       time code of each frame
    animations  one `UsdSkel.AnimQuery` or None per skeleton
    is_stage    whether transforms and points move too
    shapes      the `UsdSkel.AnimQuery` of blend shapes whose skeleton was left out; None: the bound
    """

    name: str
    rate: float
    start: int
    times: list[float]
    animations: list[Any]
    is_stage: bool
    shapes: Any = None


def _plans(scene: Scene, name: str, wanted: ReadOptions) -> list[_Plan]:
    """Return the clips to read; a clip that is asked for and does not exist is a `FileError`."""
    plans = _stage_plan(scene, name, wanted)
    playing = [j.bound for j in scene.skeletons if j.bound is not None] + _shape_animations(scene)
    bound = {str(query.GetPrim().GetPath()) for query in playing}
    cache = UsdSkel.Cache()
    for prim in Usd.PrimRange.Stage(scene.stage, Usd.TraverseInstanceProxies()):
        if not prim.IsA(UsdSkel.Animation) or str(prim.GetPath()) in bound:
            continue
        query = cache.GetAnimQuery(UsdSkel.Animation(prim))
        if not query:
            continue
        joints = {str(token) for token in query.GetJointOrder()}
        # It plays on the first skeleton that has all its joints.
        fits = [joints <= set(skeleton.tokens) for skeleton in scene.skeletons]
        shapes = None if any(fits) else _driven_shapes(scene, query)
        if not any(fits) and shapes is None:
            continue
        chosen = fits.index(True) if any(fits) else -1
        animations = [query if k == chosen else None for k in range(len(fits))]
        times = [*query.GetJointTransformTimeSamples(), *query.GetBlendShapeWeightTimeSamples()]
        plan = _plan(scene.stage, prim, sorted(times) or [0.0], wanted)
        plans.append(replace(plan, animations=animations, shapes=shapes))
    names = distinct_names([plan.name for plan in plans])
    plans = [replace(plan, name=name) for plan, name in zip(plans, names)]
    for asked in wanted.clips:
        if asked not in names:
            known = ", ".join(names) or "none"
            raise FileError(f"has no animation called {asked!r}; it has: {known}")
    return [plan for plan in plans if not wanted.clips or plan.name in wanted.clips]


def _stage_plan(scene: Scene, name: str, wanted: ReadOptions) -> list[_Plan]:
    """Return the clip that the stage plays, in a list; empty: nothing is animated."""
    bound = [joints.bound for joints in scene.skeletons]
    times: list[float] = []
    for joints in scene.skeletons:
        times += transform_times(joints.prim)
        if joints.bound is not None:
            times += joints.bound.GetJointTransformTimeSamples()
            times += joints.bound.GetBlendShapeWeightTimeSamples()
    for one in scene.placed:
        times += one.part.points_attribute.GetTimeSamples()
        if one.joints is None:
            times += transform_times(one.part.prim)
    playing = [query for query in bound if query is not None]
    for query in _shape_animations(scene):
        times += query.GetBlendShapeWeightTimeSamples()
        playing.append(query)
    if not times and not playing:
        return []
    times = times or [float(scene.stage.GetStartTimeCode())]
    low, high = min(times), max(times)
    layer = scene.stage.GetRootLayer()
    if layer.HasStartTimeCode() and layer.HasEndTimeCode():
        start = max(low, scene.stage.GetStartTimeCode())
        end = min(high, scene.stage.GetEndTimeCode())
        low, high = (start, end) if start <= end else (low, high)
    prims = {str(query.GetPrim().GetPath()): query.GetPrim() for query in playing}
    prim = next(iter(prims.values())) if len(prims) == 1 else None
    plan = _plan(scene.stage, prim, [low, high], wanted)
    if prim is None:
        root = scene.stage.GetDefaultPrim()
        kept = root.GetCustomDataByKey("understudy:clip") if root else None
        plan = replace(plan, name=kept or name)
    return [replace(plan, animations=bound, is_stage=True)]


def _plan(stage: Any, prim: Any, times: Sequence[float], wanted: ReadOptions) -> _Plan:
    """Return the frames between the first and the last of `times`.

    prim  the animation, which may say its frame rate; or None
    """
    per_second = stage.GetTimeCodesPerSecond()
    layer = stage.GetRootLayer()
    rate = stage.GetFramesPerSecond() if layer.HasFramesPerSecond() else per_second
    if prim is not None:
        rate = prim.GetCustomDataByKey("understudy:frameRate") or rate
    rate = float(wanted.frame_rate or rate)
    if not (np.isfinite(per_second) and per_second > 0 and np.isfinite(rate) and rate > 0):
        raise FileError(f"expected a positive frame rate, got {rate} and {per_second} time codes")
    step = per_second / rate
    first, last = times[0] / step, times[-1] / step
    if not np.isfinite([first, last]).all() or max(abs(first), abs(last)) > 2**31:
        raise FileError(f"its animation is at the time codes {times[0]:g} to {times[-1]:g}")
    start, end = int(np.ceil(first - 1e-4)), int(np.floor(last + 1e-4))
    if end < start:  # between two frames
        start = end = round(first)
    if end - start >= _MOST_FRAMES:
        raise FileError(
            f"its animation has {end - start + 1:,} frames; read it at a lower frame rate"
        )
    codes = [number * step for number in range(start, end + 1)]
    name = original_name(prim) if prim is not None else ""
    return _Plan(name, rate, start, codes, [], False)


def _take(scene: Scene, plans: Sequence[_Plan], budget: Budget) -> None:
    """Account for the clips, with copies on the way."""
    character = scene.character
    frame = 96 * character.bone_count + 4 * len(character.shapes)
    cached = 12 * character.mesh.vertex_count if _cached(scene) else 0
    for plan in plans:
        budget.take(4 * len(plan.times) * (frame + cached * plan.is_stage), "its animations")


def _clip(scene: Scene, plan: _Plan) -> CharacterClip:
    """Return one clip, sampled."""
    times = plan.times
    still = times if plan.is_stage else [EARLIEST] * len(times)
    bones = [j.world(query, times) for j, query in zip(scene.skeletons, plan.animations)]
    for mover in scene.movers:
        world = np.tile(np.eye(3, 4), (len(times), 1, 1))
        bones.append((world if mover is None else world_transforms(mover, still))[:, None])
    world = np.concatenate(bones, axis=1) if bones else np.zeros((len(times), 0, 3, 4))
    world = world[:, scene.bones]
    weights = _weights(scene, plan)
    clip = CharacterClip(plan.name, world, weights, plan.rate, plan.start)
    if not plan.is_stage or not _cached(scene):
        return clip
    return replace(clip, vertices=_cache(scene, clip, times))


def _weights(scene: Scene, plan: _Plan) -> np.ndarray:
    """Return the weights of the blend shapes, (F,S)."""
    place = {key: k for k, key in enumerate(scene.shape_keys)}
    result = np.zeros((len(plan.times), len(place)), np.float32)
    queries = {
        str(joints.prim.GetPath()): query for joints, query in zip(scene.skeletons, plan.animations)
    }
    for one in scene.placed:
        if one.shapes is None or not one.shapes.found:
            continue
        skeleton = one.shapes.found[0].key[0]
        if skeleton in queries:
            query = queries[skeleton]
        else:
            query = plan.shapes or _shape_animation(scene, one)
        if query is None:
            continue
        order = [str(token) for token in query.GetBlendShapeOrder()]
        if not order:
            continue
        given = np.zeros((len(plan.times), len(order)))
        for frame, time in enumerate(plan.times):
            found = query.ComputeBlendShapeWeights(time)
            if found is None or len(found) != len(order):
                raise FileError(
                    f"{query.GetPrim().GetPath()}: blendShapeWeights has "
                    f"{len(found or ())} weights for {len(order)} blend shapes"
                )
            given[frame] = np.array(found)
        columns = [place[shape.key] for shape in one.shapes.found]
        result[:, columns] = one.shapes.weights(order, given)
    return result


def _shape_animations(scene: Scene) -> list[Any]:
    """Return the animations of blend shapes whose skeleton is left out.

    A character without bones has a skeleton for its blend shapes alone.
    """
    found = [_shape_animation(scene, one) for one in scene.placed if one.shapes is not None]
    return [query for query in found if query is not None]


def _driven_shapes(scene: Scene, query: Any) -> Any:
    """Return `query` if it has the same blend shapes as an animation of `_shape_animations`."""
    order = set(query.GetBlendShapeOrder())
    bound = [set(known.GetBlendShapeOrder()) for known in _shape_animations(scene)]
    return query if order and order in bound else None


def _shape_animation(scene: Scene, one: Any) -> Any:
    """Return the animation of a mesh's blend shapes if the character has no such skeleton."""
    path = one.shapes.found[0].key[0] if one.shapes.found else ""
    if not path or any(str(joints.prim.GetPath()) == path for joints in scene.skeletons):
        return None
    skeleton = UsdSkel.Skeleton(scene.stage.GetPrimAtPath(path))
    source = UsdSkel.BindingAPI(skeleton.GetPrim()).GetInheritedAnimationSource()
    query = UsdSkel.Cache().GetAnimQuery(UsdSkel.Animation(source)) if source else None
    return query if query else None


def _cached(scene: Scene) -> list[Any]:
    """Return the meshes whose points have time samples."""
    return [one for one in scene.placed if one.part.points_attribute.GetNumTimeSamples() > 1]


def _cache(scene: Scene, clip: CharacterClip, times: Sequence[float]) -> np.ndarray:
    """Return the vertices of a clip, (F,V,3) float32, in which points have time samples.

    Skin and blend shapes are applied to the points of each frame.
    """
    character, skinned = scene.character, scene.character.skeleton is not None
    rest = character.mesh.vertices.astype(np.float64)
    result = np.empty((len(times), *rest.shape), np.float32)
    for start in range(0, len(times), _BLOCK):
        block = slice(start, start + _BLOCK)
        points = np.tile(rest, (len(times[block]), 1, 1))
        for one in _cached(scene):
            points[:, one.vertices] = np.stack([_points(one, time) for time in times[block]])
        world = clip.world_from_bone[block] if skinned else None
        result[block] = character.moved(points, world, clip.shape_weights[block])
    return result


def _points(one: Any, time: float) -> np.ndarray:
    """Return the points of a mesh at a time, in the rest shape's space, (n,3)."""
    points = numbers(one.part.points_attribute, 3, time)
    if points is None or len(points) != len(one.vertices):
        raise FileError(
            f"mesh {one.part.prim.GetPath()}: has {0 if points is None else len(points)} points at "
            f"time {time:g} and {len(one.vertices)} at rest; every frame must be the same mesh"
        )
    return apply(one.rest, points)
