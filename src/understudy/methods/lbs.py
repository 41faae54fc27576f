"""`lbs`: linear blend skinning on the rig's own bones, its weights fitted to example poses.

Paper: Mohr & Gleicher 2003, "Building Efficient, Accurate Character Skins from Examples", as the
baseline of FDDA section 4.2 (no bones are added):

    minimise over w   sum_t |sum_b w_vb M_tb [rest_v, 1] - y_tv|^2     subject to  w >= 0,  sum_b
                      w_vb = 1,  at most K of w_v above zero

per vertex, with M_tb = world_from_bone @ bone_from_rest. Over all bones the optimum is found
exactly; for fewer the support is searched for K (see `geometry.skin_weights`), where Mohr and
Gleicher pick the influences beforehand.

Departures: no bones are added, as in FDDA; long samples are thinned to `max_poses` evenly spaced
poses, since the weights of a vertex are few numbers and two thousand poses determine them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.error_summary import ErrorSummary
from understudy.core.poses import Poses, evenly
from understudy.core.progress import SILENT, Progress
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.methods.base import Config, Method, Traits
from understudy.methods.skin_fitting.skin_weights import Grams, packed, solve_dense, solve_sparse
from understudy.rigs.base import Rig

_MEASURED_POSES = 256  # training errors are measured on at most this many


@dataclass(frozen=True)
class LbsConfig(Config):
    """Options of lbs.

    influences  most bones a vertex may follow; none: as many as help
    max_poses   fit on at most this many poses, spaced evenly over those given; none: on all
    """

    influences: int | None = 4
    max_poses: int | None = 2000

    def __post_init__(self):
        super().__post_init__()
        if self.influences is not None:
            checks.between(self.influences, "influences", 1)
        if self.max_poses is not None:
            checks.between(self.max_poses, "max_poses", 1)


class Lbs(Method[LbsConfig]):
    """Linear blend skinning on the bones of the rig, its weights fitted to example poses."""

    name = "lbs"
    traits = Traits(needs_bones=True)
    Config = LbsConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """Weights for every vertex of `poses`, which must have a skeleton."""
        skeleton = poses.need_skeleton("lbs")
        chosen = evenly(poses.pose_count, self.config.max_poses)
        grams = Grams.of(poses, chosen, progress)
        if self.config.influences is None:
            index, weight = packed(solve_dense(grams, progress))
        else:
            index, weight = solve_sparse(grams, self.config.influences, progress)
        deformer = Deformer(
            mesh=poses.mesh,
            skeleton=skeleton,
            control_spec=poses.control_spec,
            skin=Skin(index, _float32_on_simplex(weight)),
            method=self.name,
            provenance={
                "understudy": __version__,
                "poses": poses.name,
                "config": asdict(self.config),
            },
        )
        return replace(
            deformer, training={"poses": len(chosen)} | _training_errors(deformer, poses, chosen)
        )


def _float32_on_simplex(weight: np.ndarray) -> np.ndarray:
    """Weights (V,K), largest first, as float32 rows that still sum to one: the largest takes up the
    rounding.
    """
    rounded = weight.astype(np.float32)
    rounded[:, 0] += (1.0 - rounded.sum(axis=1, dtype=np.float64)).astype(np.float32)
    return rounded


def _training_errors(deformer: Deformer, poses: Poses, chosen: np.ndarray) -> dict[str, float]:
    """Errors on evenly spaced poses among those fitted, in the mesh's unit."""
    measured = chosen[evenly(len(chosen), _MEASURED_POSES)]
    summary = ErrorSummary(height=poses.mesh.height)
    for where, block in poses.pose_blocks(32):
        inside = measured[(measured >= where.start) & (measured < where.stop)]
        if len(inside):
            summary.add(
                block[inside - where.start],
                deformer.deform_reference(poses.world_from_bone[inside]),
            )
    return summary.figures()
