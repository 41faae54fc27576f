"""`nearest_bone`: the bone that follows each vertex best in the example poses, blended a little.

    e_vb = mean over poses t of |M_tb [rest_v, 1] - y_tv|^2,   w_vb ~ exp(-e_vb / (softness e_v))

with M_tb = world_from_bone @ bone_from_rest and e_v the error of the best bone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from understudy import Deformer, Poses, Skin, __version__
from understudy.geometry.transforms import apply, compose
from understudy.methods import Config, Method, Traits
from understudy.rigs import Rig
from understudy.system import checks
from understudy.system.progress import SILENT, Progress


@dataclass(frozen=True)
class NearestBoneConfig(Config):
    """Options of nearest_bone.

    softness  how much worse than the best bone another one may be and still have an influence,
              as a share of the best bone's error
    """

    softness: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.between(self.softness, "softness", above=0)


class NearestBone(Method[NearestBoneConfig]):
    """Linear blend skinning by how well each bone alone follows a vertex."""

    name = "nearest_bone"
    traits = Traits(needs_bones=True)
    Config = NearestBoneConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """A skin on the bones of `poses`."""
        skeleton = poses.need_skeleton(self.name)
        moved = compose(poses.world_from_bone, skeleton.bone_from_world)
        error = np.zeros((poses.vertex_count, skeleton.bone_count))
        with progress.task("comparing bones", poses.pose_count) as bar:
            for where, vertices in poses.pose_blocks():
                alone = apply(moved[where, None], poses.mesh.vertices[None, :, None])
                error += ((alone - vertices[:, :, None]) ** 2).sum(axis=(0, 3))
                bar.advance(len(vertices))
        best = error.min(axis=1, keepdims=True)
        weight = np.exp(-(error - best) / (self.config.softness * best + 1e-12))
        weight = (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)
        order = np.argsort(-weight, axis=1, kind="stable")
        weight = np.take_along_axis(weight, order, axis=1)
        weight[:, 0] += 1 - weight.sum(axis=1)
        return Deformer(
            mesh=poses.mesh,
            skeleton=skeleton,
            control_spec=poses.control_spec,
            skin=Skin(order, weight),
            method=self.name,
            training={"poses": poses.pose_count},
            provenance={
                "understudy": __version__,
                "poses": poses.name,
                "config": asdict(self.config),
            },
        )
