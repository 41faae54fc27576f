"""What `fit` is given, checked before any work: poses, a live rig, progress.

`Method` calls this around the `fit` of every method, so that no method repeats it.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from understudy.core.poses import Poses
from understudy.io.npz import check_convention
from understudy.rigs.registry import checked_rig
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import Progress

_CALL = "fit(poses, rig=rig, progress=progress)"


def check_fit(arguments: tuple[Any, ...], options: dict[str, Any], asks_rig: bool) -> None:
    """Raise unless `fit(*arguments, **options)` can work; `asks_rig`: the rig is evaluated once."""
    if len(arguments) > 1:
        raise InputError(
            f"fit: expected the poses alone without a name, got {len(arguments)} arguments; name "
            f"the others: {_CALL}"
        )
    for name in options:
        checks.one_of(name, "argument of fit", ("poses", "rig", "progress"))
    given = [*arguments, *([options["poses"]] if "poses" in options else [])]
    if len(given) != 1:
        raise InputError(f"fit: expected poses once, got them {len(given)} times: {_CALL}")
    poses, rig, progress = given[0], options.get("rig"), options.get("progress")
    _check_poses(poses)
    if "progress" in options and not isinstance(progress, Progress):
        raise InputError(
            f"progress: expected an understudy.system.progress.Progress, got "
            f"{checks.described(progress)}; leave it out for a silent fit, or pass an object of a "
            "subclass"
        )
    if rig is not None:
        _check_rig(rig, poses, asks_rig)


def _check_poses(poses: Any) -> None:
    """Raise an `InputError` unless something can be learned from `poses`."""
    if not isinstance(poses, Poses):
        if isinstance(poses, str | Path):
            advice = f"read it first: understudy.io.registry.read_poses({str(poses)!r})"
        elif hasattr(poses, "evaluate"):
            advice = "evaluate it first: rig.evaluate(values), see understudy.rigs.sampling"
        else:
            advice = "make them of a mesh and its vertices (T,V,3): understudy.Poses(mesh, ...)"
        raise InputError(f"fit: expected understudy.Poses, got {checks.described(poses)}; {advice}")
    if poses.pose_count < 2:
        raise InputError(
            f"{poses.name!r} holds a single pose, and a fit needs several; give all frames of the "
            "sequence, or sample more poses"
        )
    if poses.world_from_bone is None:
        return
    if poses.world_from_bone.size and not poses.world_from_bone[..., :3].any():
        raise InputError(
            f"world_from_bone of {poses.name!r}: the 3x3 parts of all bones are zero in all poses; "
            "give the matrix of every bone, or leave skeleton and world_from_bone out"
        )
    check_convention(poses)


def _check_rig(rig: Any, poses: Poses, asks_rig: bool) -> None:
    if isinstance(rig, str | Path):
        raise InputError(
            f"rig: expected a rig, got {rig!r}; load it first: "
            f"rig=understudy.rigs.load_rig({str(rig)!r})"
        )
    if inspect.isclass(rig):
        raise InputError(
            f"rig: {rig.__qualname__} is a class; pass an object of it: rig={rig.__qualname__}()"
        )
    checked_rig(rig, "rig")
    controls = 0 if poses.control_spec is None else poses.control_spec.count
    if rig.mesh.vertex_count != poses.vertex_count or controls not in (0, rig.controls.count):
        raise InputError(
            f"the rig has {rig.mesh.vertex_count} vertices and {rig.controls.count} controls, "
            f"{poses.name!r} has {poses.vertex_count} and {controls}: it is not the rig that these "
            "poses come from; pass that one, or none"
        )
    if not asks_rig:
        return
    result = rig.evaluate(rig.controls.rest[None])
    wanted = (1, rig.mesh.vertex_count)
    if not isinstance(result, Poses) or (result.pose_count, result.vertex_count) != wanted:
        what = result if isinstance(result, Poses) else checks.described(result)
        raise InputError(
            f"rig: evaluate(values (1,{rig.controls.count})) returned {what}, expected "
            f"understudy.Poses of one pose and {rig.mesh.vertex_count} vertices"
        )
