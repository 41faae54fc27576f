"""Bones of a stage: the joints of its skeletons, and animated transforms of rigid meshes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pxr import Usd, UsdGeom, UsdSkel, Vt

from understudy.geometry.transforms import compose, world_from_local
from understudy.io.usd.joint_transforms import SCALE_JOINTS, local_matrices
from understudy.system.errors import FileError


@dataclass(frozen=True, eq=False)
class Joints:
    """A skeleton of the stage.

    prim     the `Usd.Prim` of the skeleton
    tokens   paths of the joints, parents first
    names    of the joints
    parents  (J,) int32
    bind     (J,3,4) float64, in the skeleton's frame
    rest     (J,3,4) float64, in the parent's frame; for joints without animation
    bound    the `UsdSkel.AnimQuery` of the animation that it plays, or None
    is_scale (J,) bool, joints that our writer added to hold a part of another joint's scale
    """

    prim: Any
    tokens: tuple[str, ...]
    names: tuple[str, ...]
    parents: np.ndarray
    bind: np.ndarray
    rest: np.ndarray
    bound: Any
    is_scale: np.ndarray

    def world(self, animation: Any, times: Sequence[float]) -> np.ndarray:
        """Return the joints in world space, (T,J,3,4), with an animation or None, at some times."""
        local = np.tile(self.rest, (len(times), 1, 1, 1))
        if animation is not None:
            place = {token: k for k, token in enumerate(self.tokens)}
            order = [place.get(str(token), -1) for token in animation.GetJointOrder()]
            here = np.array(order) >= 0
            target = np.array(order)[here]
            for frame, time in enumerate(times):
                found = animation.ComputeJointLocalTransforms(time)
                if found:  # otherwise it has blend shape weights alone
                    local[frame, target] = from_rows(np.array(found))[here]
        result = world_from_local(local, self.parents)
        return compose(world_transforms(self.prim, times)[:, None], result)


def read_joints(query: Any) -> Joints:
    """Return the skeleton of a `UsdSkel.SkeletonQuery`, checked."""
    prim = query.GetPrim()
    where = f"skeleton {prim.GetPath()}"
    skeleton = UsdSkel.Skeleton(prim)
    tokens = tuple(str(token) for token in query.GetJointOrder())
    parents = np.array(query.GetTopology().GetParentIndices(), np.int32).reshape(-1)
    if len(parents) != len(tokens) or (parents >= np.arange(len(tokens))).any():
        raise FileError(f"{where}: a joint comes before its parent, or joints form a circle")
    bind = skeleton.GetBindTransformsAttr().Get()
    rest = skeleton.GetRestTransformsAttr().Get()
    if bind is None and rest is None:
        raise FileError(f"{where}: has neither bindTransforms nor restTransforms")
    for name, value in (("bindTransforms", bind), ("restTransforms", rest)):
        if value is not None and len(value) != len(tokens):
            raise FileError(f"{where}: {name} has {len(value)} matrices for {len(tokens)} joints")
    if bind is not None:
        world = _finite(from_rows(np.array(bind)), f"{where}: bindTransforms")
    else:
        world = _finite(from_rows(np.array(rest)), f"{where}: restTransforms")
        world = world_from_local(world, parents)
    if (np.abs(np.linalg.det(world[:, :, :3])) < 1e-30).any():
        raise FileError(f"{where}: a bind transform is not invertible")
    if rest is not None:
        local = _finite(from_rows(np.array(rest)), f"{where}: restTransforms")
    else:
        local = local_matrices(world, parents)[:, :3]
    names = skeleton.GetJointNamesAttr().Get()
    named = tuple(str(name) for name in names) if names is not None else ()
    if len(named) != len(tokens) or len(set(named)) != len(named) or "" in named:
        named = tuple(token.split("/")[-1] for token in tokens)
        named = named if len(set(named)) == len(named) else tokens
    bound = query.GetAnimQuery()
    kept = prim.GetCustomDataByKey(SCALE_JOINTS)
    added = {str(token) for token in kept} if isinstance(kept, Vt.StringArray) else set()
    is_scale = np.array([token in added for token in tokens], bool)
    return Joints(prim, tokens, named, parents, world, local, bound if bound else None, is_scale)


def from_rows(matrices: np.ndarray) -> np.ndarray:
    """Return matrices (...,4,4) for row vectors, as USD has them, as transforms (...,3,4)."""
    return np.swapaxes(np.asarray(matrices, np.float64), -1, -2)[..., :3, :]


def world_transforms(prim: Any, times: Sequence[float]) -> np.ndarray:
    """Return the transform of a prim to world space at some times, (T,3,4)."""
    imageable = UsdGeom.Imageable(prim)
    varying = any(
        UsdGeom.Xformable(ancestor).TransformMightBeTimeVarying()
        for ancestor in moving_ancestors(prim, every=True)
    )
    if not varying:
        first = times[0] if len(times) else Usd.TimeCode.EarliestTime()
        one = from_rows(np.array(imageable.ComputeLocalToWorldTransform(first)))
        return np.tile(_finite(one, f"transform of {prim.GetPath()}"), (len(times), 1, 1))
    rows = [np.array(imageable.ComputeLocalToWorldTransform(time)) for time in times]
    return _finite(from_rows(np.array(rows)), f"transform of {prim.GetPath()}")


def moving_ancestors(prim: Any, every: bool = False) -> list[Any]:
    """Return a prim and its ancestors whose transforms are animated, the deepest first.

    every  all of them that have transforms, animated or not
    """
    result = []
    while prim and not prim.IsPseudoRoot():
        xformable = UsdGeom.Xformable(prim)
        if xformable and (every or xformable.TransformMightBeTimeVarying()):
            result.append(prim)
            if xformable.GetResetXformStack():
                break
        prim = prim.GetParent()
    return result


def transform_times(prim: Any) -> list[float]:
    """Return the times at which the transform of a prim or of its ancestors has samples."""
    times: list[float] = []
    for moving in moving_ancestors(prim):
        times += UsdGeom.Xformable(moving).GetTimeSamples()
    return times


def _finite(matrices: np.ndarray, where: str) -> np.ndarray:
    """Return matrices of finite numbers."""
    if not np.isfinite(matrices).all():
        raise FileError(f"{where}: NaN or infinite numbers")
    return matrices
