"""The `PosingSkeleton` of a deformer, from the poses that it learned from.

Letters: T poses, B bones, C controls, D dofs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.core.posing import Dofs, PosingSkeleton, Symmetry
from understudy.geometry.bone_motion import motion_of_bones
from understudy.methods.posing_fitting.from_controls import (
    fit_from_controls,
    held_out,
    in_order_of_controls,
    is_of_rig,
)
from understudy.methods.posing_fitting.handles import Tree, body_parts, find_handles, pelvis_of
from understudy.methods.posing_fitting.independent import (
    Study,
    dofs_of,
    drivers_of,
    find_independent,
)
from understudy.methods.posing_fitting.joints import (
    find_joints,
    find_parents,
    rotation_vector,
    symmetric_parents,
)
from understudy.methods.posing_fitting.levers import levers_of
from understudy.methods.posing_fitting.sides import mirror_bones, name_twins
from understudy.system.progress import SILENT, Progress

_POSES = 300, 1500  # fewest and most poses to look at, and the bones of all of them together
_NUMBERS = 250_000
_MEASURED_POSES = 16
_DRIVEN_POSES = 100, 3000  # the same for poses that tell how controls move bones
_DRIVEN_NUMBERS = 1_000_000
_MOST_CONTROLS = 300  # whole rigs with IK and switches have more, and no polynomials follow them
_TESTED_POSES = 24
_WORSE = 2.0  # mean error with bones from the controls, of that with the bones of the rig
_FEWEST_POSES = 30  # with fewer, hardly any driver can be told from a coincidence


def with_posing(deformer: Deformer, poses: Poses, progress: Progress = SILENT) -> Deformer:
    """Return the deformer with its posing skeleton, if the poses it was fitted to have its bones.

    Posing is an addition: whatever is wrong with the bones, the deformer is returned.
    """
    if not can_pose(deformer, poses):
        return deformer
    with progress.task("finding the joints to pose with", 1) as task:
        try:
            posing = fit_posing(deformer, poses)
            spec = poses.control_spec if posing.from_controls else deformer.control_spec
            deformer = replace(deformer, posing=posing, control_spec=spec)
        except (ArithmeticError, LookupError, ValueError) as problem:
            task.note(f"they cannot be found, so the file has none: {problem}")
        task.advance()
    return deformer


def can_pose(deformer: Deformer, poses: Poses) -> bool:
    """Return whether the poses contain the bones of the deformer."""
    a, b = deformer.skeleton, poses.skeleton
    return (
        a is not None
        and b is not None
        and a.names == b.names
        and np.array_equal(a.parents, b.parents)
        and np.allclose(a.world_from_bone, b.world_from_bone)
    )


def fit_posing(deformer: Deformer, poses: Poses) -> PosingSkeleton:
    """Return what poses a deformer, from the poses it was fitted to, which have its bones.

    Where the controls of a rig determine its bones well enough, these are the dofs.
    """
    skeleton, world = poses.need_bones("posing")
    fewest, most = _POSES
    chosen = evenly(poses.pose_count, int(np.clip(_NUMBERS // skeleton.bone_count, fewest, most)))
    place = skeleton.world_from_bone[:, :, 3]
    given = Tree(skeleton.names, skeleton.parents, place)
    start = pelvis_of(given, levers_of(deformer, skeleton.parents))
    mirror, axis = mirror_bones(skeleton)
    parents = find_parents(skeleton, world[chosen], start)
    parents = symmetric_parents(parents, skeleton.parents, mirror)
    tree = Tree(skeleton.names, parents, place)
    levers = levers_of(deformer, parents)
    pelvis = pelvis_of(tree, levers)
    joints = find_joints(skeleton, parents, world[chosen], pelvis)
    spec = deformer.control_spec
    handles = find_handles(tree, levers, deformer.mesh, pelvis)
    parts, bone_part = body_parts(tree, handles, pelvis)
    posing = PosingSkeleton(
        skeleton=skeleton,
        parents=parents,
        control_rest=np.zeros(0) if spec is None else spec.rest,
        dofs=Dofs((), *np.zeros((2, 0), np.int64), *np.zeros((3, 0))),
        axes=rotation_vector(joints.axes),
        order=joints.order,
        reference=rotation_vector(joints.reference),
        drivers=(),
        handles=tuple(handles),
        symmetry=Symmetry(axis, mirror, name_twins(() if spec is None else spec.names)),
        parts=parts,
        bone_part=bone_part,
    )
    study_of = lambda some: Study(
        skeleton,
        joints,
        motion_of_bones(world[some], joints),
        levers,
        deformer.mesh.height,
        pelvis,
    )
    notes: tuple[str, ...] = ()
    spec = poses.control_spec
    if spec is not None and is_of_rig(spec) and spec.count > _MOST_CONTROLS:
        notes = (f"{spec.count} controls are too many to tell how they move the bones",)
    elif spec is not None and is_of_rig(spec):
        driven, notes = _driven_by_controls(deformer, poses, posing, study_of)
        if driven is not None:
            return driven
    study = study_of(chosen)
    spec = deformer.control_spec or ControlSpec((), np.zeros(0), np.zeros(0))
    found = find_independent(study, spec, _controls(deformer, spec, poses, chosen))
    dofs = dofs_of(found, study, spec)
    posing = replace(posing, dofs=dofs, drivers=drivers_of(found, dofs, study))
    errors = _errors(posing, deformer, poses)
    notes = (*_notes(posing, len(chosen)), *notes)
    return replace(posing, errors=errors, notes=notes)


def _driven_by_controls(
    deformer: Deformer,
    poses: Poses,
    posing: PosingSkeleton,
    study_of: Callable[[np.ndarray], Study],
) -> tuple[PosingSkeleton | None, tuple[str, ...]]:
    """Return the posing skeleton whose bones follow the controls of the rig, and notes.

    posing    without dofs and drivers
    study_of  returns the study of some poses

    None where that errs more than twice as much as the bones of the rig themselves.
    """
    spec, values = poses.control_spec, poses.controls
    assert spec is not None
    assert values is not None
    # As many poses as have that many numbers.
    bones = posing.skeleton.bone_count
    chosen = evenly(poses.pose_count, int(np.clip(_DRIVEN_NUMBERS // bones, *_DRIVEN_POSES)))
    given = np.asarray(values[chosen])
    study = in_order_of_controls(study_of(chosen), spec, given)
    dofs, drivers = fit_from_controls(study, spec, given)
    if not dofs.count:
        return None, ("the controls do not tell the bones: none was found to move one",)
    symmetry = replace(posing.symmetry, axis=-1, control=np.arange(spec.count))
    posing = replace(
        posing,
        control_rest=spec.rest,
        order=study.joints.order,
        dofs=dofs,
        drivers=drivers,
        symmetry=symmetry,
    )
    tested = chosen[held_out(len(chosen))]
    tested = tested[evenly(len(tested), _TESTED_POSES)]
    _, world = poses.need_bones("posing")
    given = np.asarray(values[tested])
    reads = given if deformer.reads_controls else None
    real = poses.take(tested).read_poses(0, len(tested)).astype(np.float64)
    own = deformer.deform_reference(world[tested], reads)
    have = deformer.deform_reference(posing.bones_at(given), reads)
    away = lambda a, b: np.linalg.norm(a.astype(np.float64) - b, axis=2)
    figures = {
        "mean": away(have, own).mean(),
        "max": away(have, own).max(),
        "by rig": away(own, real).mean(),
        "by controls": away(have, real).mean(),
    }
    rounded = {name: float(f"{value:.4g}") for name, value in figures.items()}
    unit = deformer.mesh.unit
    stated = (
        f"on poses kept out, vertices are {rounded['by controls']:g} {unit} off with bones from "
        f"the controls and {rounded['by rig']:g} {unit} with the bones of the rig, on average"
    )
    if figures["by controls"] > _WORSE * figures["by rig"]:
        return None, (
            f"the controls do not tell the bones well enough to pose with them: {stated}",
        )
    notes = (
        stated,
        "poses made with the controls of a rig cannot be mirrored",
        *_missing_limbs(posing),
    )
    return replace(posing, errors=rounded, notes=notes), ()


def _missing_limbs(posing: PosingSkeleton) -> tuple[str, ...]:
    """Return a note on hands, feet and head that have no handle, if other limbs have one."""
    roles = [handle.role for handle in posing.handles]
    missing = [
        what
        for role, count, what in (("hand", 2, "hands"), ("foot", 2, "feet"), ("head", 1, "a head"))
        if roles.count(role) < count
    ]
    return (f"not found, so without handles: {', '.join(missing)}",) if missing else ()


def _controls(
    deformer: Deformer, spec: ControlSpec, poses: Poses, chosen: np.ndarray
) -> dict[int, np.ndarray]:
    """Return the controls that change the deformer's result: number -> values (T,)."""
    values = poses.controls
    if values is None:
        return {}
    columns = deformer.features.columns - 12 * deformer.bone_count
    used = np.unique(columns[columns >= 0]).tolist()
    return {c: values[chosen, c] for c in used if spec.low[c] < spec.high[c]}


def _errors(posing: PosingSkeleton, deformer: Deformer, poses: Poses) -> dict[str, float]:
    """Return how far vertices are from where the recorded bones put them, in the mesh's unit."""
    some = evenly(poses.pose_count, _MEASURED_POSES)
    _, world = poses.need_bones("posing")
    controls = None if poses.controls is None else poses.controls[some]
    if controls is None and len(posing.control_rest):
        controls = np.tile(posing.control_rest, (len(some), 1))
    bones, driven = posing.pose(posing.read(world[some], controls))
    reads = deformer.reads_controls
    want = deformer.deform_reference(world[some], controls if reads else None)
    have = deformer.deform_reference(bones, driven if reads else None)
    distance = np.linalg.norm(want.astype(np.float64) - have, axis=2)
    figures = {"mean": distance.mean(), "max": distance.max()}
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


def _notes(posing: PosingSkeleton, pose_count: int) -> tuple[str, ...]:
    """Return what could not be found, in words."""
    notes = []
    if pose_count < _FEWEST_POSES:
        notes.append(
            f"with {pose_count} pose{'s' * (pose_count != 1)}, helper bones cannot be told from "
            "independent ones, so most moving bones are independent"
        )
    if len(posing.handles) < 2:
        notes.append("no limb was found, so there is no handle but the pelvis")
    notes += _missing_limbs(posing)
    if posing.symmetry.axis < 0:
        notes.append("the rest pose is not symmetric, so poses cannot be mirrored")
    if not len(posing.independent_bones[1:]):
        notes.append("no bone but the pelvis moves in the poses")
    return tuple(notes)
