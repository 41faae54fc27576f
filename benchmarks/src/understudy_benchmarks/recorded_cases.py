"""The cases of `bench recorded`: clips of motion that were recorded once, with no rig to ask.

A body of 13,380 vertices with 31 bones plays six clips of motion capture. Its shape is pose-driven
muscles, dual quaternion skinning and a smoothing of the result; a recorded frame is the bones and
the vertices. Each case is one clip, learned from the five others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, join_poses
from understudy.core.skeleton import Skeleton
from understudy.geometry.skinning import linear_blend
from understudy.geometry.transforms import compose
from understudy.io import npz
from understudy.system.errors import FileError

BODY = "bodies/rig_mpfb_human.npz"
MOTION = "bodies/rig_mpfb_human_nonlinear_motion.npz"


@dataclass(frozen=True, eq=False)
class Recording:
    """All recorded poses, and the clip of each."""

    poses: Poses
    clip: np.ndarray

    @property
    def clips(self) -> tuple[str, ...]:
        """The names of the clips, in the order of the recording."""
        return tuple(dict.fromkeys(str(name) for name in self.clip))

    def split(self, clip: str) -> tuple[Poses, Poses]:
        """The poses of all other clips, and those of `clip`."""
        parts = {name: self.poses.take(np.flatnonzero(self.clip == name)) for name in self.clips}
        test = parts.pop(clip)
        named = [replace(part, name=name) for name, part in parts.items()]
        return join_poses(named, name=self.poses.name), test


def load_recording(data: Path) -> Recording:
    """Read the recording from the folder of real data."""
    for name in (BODY, MOTION):
        if not (data / name).exists():
            raise FileError(f"{data / name}: not there; pass --data, or set UNDERSTUDY_DATA")
    body = npz.read_arrays(data / BODY, _BODY_ARRAYS)
    motion = npz.read_arrays(data / MOTION, _MOTION_ARRAYS)
    mesh = Mesh.from_faces(body["rest"], body["faces"], unit="m")
    heads = body["cmu_mb_heads"].astype(np.float64)
    world_from_bone = np.concatenate(
        [np.broadcast_to(np.eye(3), (len(heads), 3, 3)), heads[:, :, None]], axis=2
    )
    skeleton = Skeleton(
        tuple(str(name) for name in body["cmu_mb_names"]),
        body["cmu_mb_parents"].astype(np.int32),
        world_from_bone,
    )
    moved = motion["skin_transforms"].astype(np.float64)
    index, weight = body["cmu_mb_weight_index"].astype(np.int32), body["cmu_mb_weight_value"]
    rest = np.broadcast_to(mesh.vertices, (1, *mesh.vertices.shape))
    vertices = np.empty((len(moved), mesh.vertex_count, 3), np.float32)
    for t, matrices in enumerate(moved):
        vertices[t] = linear_blend(matrices[None].astype(np.float32), index, weight, rest)[0]
    vertices += motion["offset_q"] * np.float32(motion["offset_step"])
    poses = Poses(mesh, vertices, skeleton, compose(moved, world_from_bone), name="recorded body")
    return Recording(poses, motion["clip"])


_BODY_ARRAYS = (
    "rest",
    "faces",
    "cmu_mb_names",
    "cmu_mb_parents",
    "cmu_mb_heads",
    "cmu_mb_weight_index",
    "cmu_mb_weight_value",
)
_MOTION_ARRAYS = ("skin_transforms", "offset_q", "offset_step", "clip")
