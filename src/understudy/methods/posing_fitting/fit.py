"""The `PosingSkeleton` of a deformer, from the poses that it learned from.

Letters: T poses, B bones, C controls, D dofs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.core.posing import PosingSkeleton, Symmetry
from understudy.geometry.bone_motion import motion_of_bones
from understudy.methods.posing_fitting.handles import Tree, body_parts, find_handles, pelvis_of
from understudy.methods.posing_fitting.independent import (
    ControlRange,
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
_FEWEST_POSES = 30  # with fewer, hardly any driver can be told from a coincidence


def with_posing(deformer: Deformer, poses: Poses, progress: Progress = SILENT) -> Deformer:
    """Return the deformer with its posing skeleton, if the poses it was fitted to have its bones.

    Posing is an addition: whatever is wrong with the bones, the deformer is returned.
    """
    if not can_pose(deformer, poses):
        return deformer
    with progress.task("finding the joints to pose with", 1) as task:
        try:
            deformer = replace(deformer, posing=fit_posing(deformer, poses))
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
    """Return what poses a deformer, from the poses it was fitted to, which have its bones."""
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
    motion = motion_of_bones(world[chosen], joints)
    study = Study(skeleton, joints, motion, levers, deformer.mesh.height, pelvis)
    controls = _controls(deformer, poses, chosen)
    found = find_independent(study, controls)
    dofs = dofs_of(found, study, controls)
    handles = find_handles(tree, levers, deformer.mesh, pelvis)
    spec = deformer.control_spec
    parts, bone_part = body_parts(tree, handles, pelvis)
    posing = PosingSkeleton(
        skeleton=skeleton,
        parents=parents,
        control_rest=np.zeros(0) if spec is None else spec.rest,
        dofs=dofs,
        axes=rotation_vector(joints.axes),
        order=joints.order,
        reference=rotation_vector(joints.reference),
        drivers=drivers_of(found, dofs, study),
        handles=tuple(handles),
        symmetry=Symmetry(axis, mirror, name_twins(() if spec is None else spec.names)),
        parts=parts,
        bone_part=bone_part,
    )
    notes = _notes(posing, len(chosen))
    return replace(posing, errors=_errors(posing, deformer, poses), notes=notes)


def _controls(deformer: Deformer, poses: Poses, chosen: np.ndarray) -> dict[int, ControlRange]:
    """Return the controls that change the deformer's result."""
    spec, values = deformer.control_spec, poses.controls
    if spec is None or values is None:
        return {}
    columns = deformer.features.columns - 12 * deformer.bone_count
    result = {}
    for c in np.unique(columns[columns >= 0]).tolist():
        low, high = float(spec.low[c]), float(spec.high[c])
        if low < high:
            rest = float(np.clip(spec.rest[c], low, high))
            result[c] = ControlRange(spec.names[c], values[chosen, c], low, high, rest)
    return result


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
    if posing.symmetry.axis < 0:
        notes.append("the rest pose is not symmetric, so poses cannot be mirrored")
    if not len(posing.independent_bones[1:]):
        notes.append("no bone but the pelvis moves in the poses")
    return tuple(notes)
