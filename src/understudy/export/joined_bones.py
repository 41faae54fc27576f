"""The bones of a mesh sequence joined to one skeleton of rotations, for `--bones rigid`.

A decomposition's bones are independent, and may scale and shear. `fit_skeleton` finds a tree of
joints for them and fits motion, weights and rest shape again.

Letters: F frames, V vertices, B bones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skin import skin_weights
from understudy.export.bones import EngineBones
from understudy.export.frames import Frames
from understudy.geometry.transforms import compose
from understudy.methods.decomposition.skeletons.skeleton_fit import fit_skeleton
from understudy.system.progress import SILENT, Progress


class JoinedBones(NamedTuple):
    """The mesh with its new rest shape, the joined bones with their skin, and the frames."""

    mesh: Mesh
    bones: EngineBones
    frames: list[Frames]


def join_bones(
    deformer: Deformer,
    bones: EngineBones,
    frames: Sequence[Frames],
    influences: int,
    progress: Progress = SILENT,
) -> JoinedBones:
    """Return one skeleton that follows the vertices in `frames`.

    bones       of a decomposition, as the export has them
    influences  largest number of bones per vertex; 0: as many as the deformer has
    """
    in_world = [(part.target + part.centre[:, None]).astype(np.float32) for part in frames]
    poses = Poses(deformer.mesh, np.concatenate(in_world))
    count = bones.skeleton.bone_count
    weights = np.maximum(skin_weights(bones.skin, count).toarray(), 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    motion = np.concatenate([part.in_world for part in frames])
    fitted = fit_skeleton(
        poses,
        weights,
        compose(motion, bones.skeleton.bone_from_world),
        influences=influences or None,
        progress=progress,
    )
    moved, start = [], 0
    for part in frames:
        world = fitted.world_from_bone[start : start + part.frame_count].copy()
        world[..., 3] -= part.centre[:, None]
        moved.append(replace(part, world_from_bone=world))
        start += part.frame_count
    mesh = replace(deformer.mesh, vertices=fitted.rest)
    return JoinedBones(mesh, EngineBones(fitted.skeleton, fitted.skin, is_rigid=True), moved)
