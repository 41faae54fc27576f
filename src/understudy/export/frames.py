"""`Frames`: what the deformer does in the frames of a clip, relative to its root bone.

Letters: F frames, V vertices, B bones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.export.bones import EngineBones
from understudy.export.clips import SourceClip, poses_clips

RANGE = "training range"


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

    def take(self, frames: np.ndarray) -> Frames:
        """Return some frames: frames (n,), indices."""
        original = None if self.original is None else self.original[frames]
        return Frames(
            self.centre[frames],
            self.world_from_bone[frames],
            self.vertices[frames],
            original,
            self.target[frames],
        )


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
