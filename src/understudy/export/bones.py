"""The bones and the skin that an export starts from, and what they do in the frames of a clip.

Bones that a decomposition found have no parents, and their bind pose is not rotated. An export
places each at the centre of its vertices. That changes no vertex, and engines can interpolate and
show such bones. For `--bones rigid`, `join_bones` makes one skeleton of rotations of them.

Letters: F frames, V vertices, B bones, N virtual bones, K influences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin, skin_weights
from understudy.export.clips import SourceClip, poses_clips
from understudy.export.joints import rigid
from understudy.geometry.skinning import (
    dense_to_influences,
    float32_influences,
    largest_first,
    weight_matrix,
)
from understudy.geometry.transforms import compose
from understudy.methods.decomposition.skeleton.skeleton_fit import fit_skeleton
from understudy.methods.skin_fitting.skin_weights import NormalEquations, solve_dense, solve_sparse
from understudy.system.progress import SILENT, Progress

RANGE = "training range"


@dataclass(frozen=True, eq=False)
class EngineBones:
    """The bones of an export, computed from those of the deformer.

    skeleton  in the bind pose
    skin      the deformer's skin on these bones
    virtual   (N,B) blends the deformer's bones to virtual bones, or None
    rest      (N,3,4) added to bones without a bind pose of their own, or None
    is_rigid  whether scale and shear are dropped
    """

    skeleton: Skeleton
    skin: Skin
    virtual: sp.csr_matrix | None = None
    rest: np.ndarray | None = None
    is_rigid: bool = False

    @staticmethod
    def of(deformer: Deformer, is_rigid: bool = False) -> EngineBones:
        """Return the bones of `deformer`, which must have some."""
        skeleton, skin = deformer.need_skin()
        virtual, names = None, skeleton.names
        found = bool((skeleton.parents < 0).all()) and np.allclose(
            skeleton.world_from_bone[..., :3], np.eye(3)
        )
        if skin.virtual is not None and is_rigid:
            dense = skin_weights(skin, skeleton.bone_count).toarray()
            skin, found = Skin(*dense_to_influences(dense)), True
        elif skin.virtual is not None:
            index, weight = skin.virtual
            virtual = weight_matrix(index, weight.astype(np.float64), skeleton.bone_count)
            names = tuple(f"virtual_{number}" for number in range(len(index)))
            skin, found = Skin(skin.bone_index, skin.weight, skin.blend), True
        if not found:
            rest = skeleton.world_from_bone
            if is_rigid:
                skeleton = Skeleton(names, skeleton.parents, rigid(rest))
            return EngineBones(skeleton, skin, is_rigid=is_rigid)
        placed = _placed(names, skin, deformer.mesh.vertices)
        return EngineBones(placed, skin, virtual, placed.world_from_bone, is_rigid)

    def with_virtual(self, virtual: sp.csr_matrix, skin: Skin, vertices: np.ndarray) -> EngineBones:
        """Return other virtual bones (N,B) of the same number, with their skin.

        vertices  (V,3) of the mesh at rest
        """
        placed = _placed(self.skeleton.names, skin, vertices)
        return replace(
            self, skeleton=placed, skin=skin, virtual=virtual, rest=placed.world_from_bone
        )

    def motion(self, world_from_bone: np.ndarray, skeleton: Skeleton) -> np.ndarray:
        """Return these bones, (F,N,3,4), in poses (F,B,3,4) of the deformer's `skeleton`."""
        moved = world_from_bone
        if self.rest is not None:
            moved = compose(moved, skeleton.bone_from_world)
        if self.virtual is not None:
            since_rest = moved
            frames, count = since_rest.shape[:2]
            flat = np.moveaxis(since_rest, 1, 0).reshape(count, -1)
            blended = (self.virtual @ flat).reshape(-1, frames, 3, 4)
            moved = np.ascontiguousarray(np.moveaxis(blended, 0, 1))
        if self.rest is not None:
            moved = compose(moved, self.rest)
        return rigid(moved) if self.is_rigid else moved


def _placed(names: tuple[str, ...], skin: Skin, vertices: np.ndarray) -> Skeleton:
    """Return bones without parents, each at the weighted mean of its vertices (V,3), or of all."""
    weight = np.abs(skin.weight.astype(np.float64)) ** 2
    rows = weight_matrix(skin.bone_index, weight, len(names))
    total = np.asarray(rows.sum(axis=0)).reshape(-1, 1)
    points = vertices.astype(np.float64)
    means = (rows.T @ points) / np.maximum(total, 1e-9)
    rest = np.tile(np.eye(3, 4), (len(names), 1, 1))
    rest[:, :, 3] = np.where(total > 1e-9, means, points.mean(axis=0))
    return Skeleton(names, np.full(len(names), -1), rest)


def plays_as_it_is(skin: Skin, influences: int) -> bool:
    """Return whether engines play `skin`: linear, convex, at most `influences` bones (0: any)."""
    few = influences == 0 or int((skin.weight != 0).sum(axis=1).max()) <= influences
    return (
        few and skin.blend == "linear" and skin.virtual is None and bool((skin.weight >= 0).all())
    )


def packed(skin: Skin) -> Skin:
    """Return the same skin with its largest weights first and no places that nothing uses."""
    index, weight = largest_first(skin.bone_index, skin.weight)
    return Skin(*float32_influences(index, weight.astype(np.float64)))


def refit_skin(poses: Poses, influences: int, progress: Progress = SILENT) -> Skin:
    """Return the linear, convex skin that follows `poses` best.

    poses       with bones
    influences  largest number of bones per vertex; 0: no limit
    """
    equations = NormalEquations.of(poses, progress=progress)
    if influences == 0:
        found = dense_to_influences(solve_dense(equations, progress))
    else:
        found = solve_sparse(equations, influences, progress)
    return packed(Skin(*float32_influences(*found)))


@dataclass(frozen=True, eq=False)
class Frames:
    """The frames of one clip, relative to the root bone, so that float32 suffices anywhere.

    centre           (F,3) float64, the root bone
    world_from_bone  (F,B,3,4) float64, the bones of the export; B is 0 without bones
    vertices         (F,V,3) float32, the deformer
    original         (F,V,3) float32, what it stands in for; or None
    target           (F,V,3) float32, what the export is fitted to: one of the two above
    """

    centre: np.ndarray
    world_from_bone: np.ndarray
    vertices: np.ndarray
    original: np.ndarray | None
    target: np.ndarray

    @property
    def frame_count(self) -> int:
        """F."""
        return len(self.centre)

    @property
    def in_world(self) -> np.ndarray:
        """The bones in world space, (F,B,3,4)."""
        world = self.world_from_bone.copy()
        world[..., 3] += self.centre[:, None]
        return world


def range_clip(deformer: Deformer, poses: Poses) -> SourceClip:
    """Return poses of the training range as one clip."""
    whole = replace(poses, spans=(), name=RANGE)
    return poses_clips(deformer, whole, "the poses of the training range")[0]


def deformed_frames(
    deformer: Deformer, bones: EngineBones | None, clip: SourceClip, to_original: bool = False
) -> Frames:
    """Return the frames of a clip.

    bones        those of the export; None without bones
    to_original  whether the target is the original, for clips that have it
    """
    count = clip.frame_count
    if bones is None or deformer.skeleton is None or clip.world_from_bone is None:
        centre, moved = np.zeros((count, 3)), np.zeros((count, 0, 3, 4))
        vertices = deformer.deform(None, clip.controls)
    else:
        root = int(deformer.skeleton.roots[0])
        centre = clip.world_from_bone[:, root, :, 3].copy()
        if np.isin(deformer.features.columns, 12 * root + np.array([3, 7, 11])).any():
            centre[:] = 0.0  # the correctives depend on the place, so it cannot be subtracted
        near = clip.world_from_bone.copy()
        near[..., 3] -= centre[:, None]
        moved = bones.motion(near, deformer.skeleton)
        vertices = deformer.deform(near, clip.controls)
    original = None
    if clip.original is not None:
        original = (clip.original - centre[:, None]).astype(np.float32)
    target = original if to_original and original is not None else vertices
    return Frames(centre, moved, vertices, original, target)


def join_bones(
    deformer: Deformer,
    bones: EngineBones,
    frames: Sequence[Frames],
    influences: int,
    progress: Progress = SILENT,
) -> tuple[Mesh, EngineBones, list[Frames]]:
    """Return one skeleton that follows the vertices in `frames`, with a new rest shape and motion.

    The weights are fitted again.

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
    return mesh, EngineBones(fitted.skeleton, fitted.skin, is_rigid=True), moved
