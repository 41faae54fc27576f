"""What `fit` is given, checked before any work: poses, a live rig, progress. And what it returns.

`Method` calls this around the `fit` of every method, so that no method repeats it.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.io.npz import check_convention
from understudy.rigs.registry import checked_rig
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import Progress

_CALL = "fit(poses, rig=rig, progress=progress)"
_FAR, _USUAL, _NAMED = 10, 0.95, 3  # see `usable_poses`
_MOST_STORED = 4 << 30  # bytes of a store that are read to look at its poses
_MEASURED_POSES, _LEAST_ERROR = 32, 1e-5  # of the height: what is smaller is rounding


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


def is_sequence(poses: Poses) -> bool:
    """Whether poses are a mesh sequence: neither bones nor controls say what moves them."""
    return poses.skeleton is None and poses.controls is None


def usable_poses(poses: Poses, keep_all: bool, progress: Progress) -> Poses:
    """The poses without those that are far from all others, unless `keep_all`; they are named.

    A pose is far if it is 10 times as wide as 95 % of all: its few vertices would weigh more in
    sums of squares than all others. Frames of a sequence, and of a store, are kept. A large store
    is not looked at: it would be read once more as a whole.
    """
    stored = not isinstance(poses.vertices, np.ndarray)
    if stored and 12 * poses.pose_count * poses.vertex_count > _MOST_STORED:
        return poses
    size = np.concatenate([np.ptp(block, axis=1).max(axis=1) for _, block in poses.pose_blocks()])
    usual = np.sort(size)[min(int(_USUAL * len(size)), len(size) - 2)]
    far = np.flatnonzero(size > _FAR * usual)
    keep_all = keep_all or is_sequence(poses) or stored or len(size) < 3
    for pose in far[:_NAMED].tolist():
        shape = poses.read_poses(pose, pose + 1)[0]
        vertex = int(np.abs(shape - np.median(shape, axis=0)).max(axis=1).argmax())
        progress.say(
            f"Warning: pose {pose} of {poses.name!r} is far from all others ({len(far)} are): "
            f"vertex {vertex} is at {' '.join(f'{x:.4g}' for x in shape[vertex])}, and other poses "
            f"are {usual:.4g} wide. "
            + ("It may ruin the result: leave it out." if keep_all else "It is left out.")
        )
    return poses if keep_all or not len(far) else poses.take(np.flatnonzero(size <= _FAR * usual))


def say_if_worse(deformer: Deformer, poses: Poses, progress: Progress) -> None:
    """Say so if the correctives increase the error of the skin on the training poses."""
    if not deformer.nets or deformer.skin is None:
        return
    some = poses.take(evenly(poses.pose_count, _MEASURED_POSES))
    _, bones = some.need_bones(deformer.method)
    full = deformer.deform_reference(bones, some.controls)
    plain = deformer.deform_displaced(bones, np.zeros_like(full))
    error, skin = (
        float(np.median(np.linalg.norm(found - some.read_poses(0, len(full)), axis=2).mean(axis=1)))
        for found in (full, plain)
    )
    if error > skin + _LEAST_ERROR * poses.mesh.height:
        progress.say(
            f"Warning: on its training poses this {deformer.method} is off by {error:.4g}, and its "
            f"skin alone by {skin:.4g}. Use lbs, train for longer, or give more poses"
        )


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
