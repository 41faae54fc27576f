"""`lbs`: linear blend skinning on the rig's own bones, with weights fitted to example poses.

Paper: Mohr & Gleicher 2003, "Building Efficient, Accurate Character Skins from Examples", as the
baseline of FDDA (Bailey et al. 2018), section 4.2. Per vertex:

    minimise over w   sum_t |sum_b w_b M_tb [rest, 1] - y_t|^2
    subject to        w >= 0,   sum_b w_b = 1,   at most K of w above zero

with M_tb = world_from_bone @ bone_from_rest. Over all bones the minimum is exact; for a limited K
the bones are searched (`skin_fitting/skin_weights.py`).

Departures:
- No bones are added, as in FDDA.
- Mohr and Gleicher choose the influences of a vertex before the fit; here the fit chooses them.
- At most `max_poses` evenly spaced poses are used. A vertex has few weights, and two thousand poses
  determine them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import ClassVar

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.error_summary import ErrorSummary
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.core.version import __version__
from understudy.geometry.skinning import dense_to_influences, float32_weights
from understudy.methods.base import AT_LEAST_ONE, Config, Limit, Traits
from understudy.methods.correctives.facts import PoseFacts, SharingMethod
from understudy.methods.skin_fitting.skin_weights import (
    NormalEquations,
    solve_dense,
)
from understudy.rigs.base import Rig

_MEASURED_POSES = 256  # training errors are measured on at most this many


@dataclass(frozen=True)
class LbsConfig(Config):
    """Options of lbs.

    influences  largest number of bones per vertex; none: no limit
    max_poses   fit on at most this many evenly spaced poses; none: on all
    """

    limits: ClassVar[Mapping[str, Limit]] = {"influences": AT_LEAST_ONE, "max_poses": AT_LEAST_ONE}

    influences: int | None = 4
    max_poses: int | None = 2000


class Lbs(SharingMethod[LbsConfig]):
    """Linear blend skinning on the bones of the rig, with weights fitted to example poses."""

    name = "lbs"
    traits = Traits(needs_bones=True)
    Config = LbsConfig

    def fit_facts(self, facts: PoseFacts, rig: Rig | None = None) -> Deformer:
        """`fit` of poses about which something may be known."""
        poses, progress = facts.poses, facts.progress
        skeleton = poses.need_skeleton("lbs")
        chosen = evenly(poses.pose_count, self.config.max_poses)
        if self.config.influences is None:
            equations = NormalEquations.of(poses, chosen, progress)
            index, weight = dense_to_influences(solve_dense(equations, progress))
        else:
            index, weight = facts.weights(self.config.influences, self.config.max_poses)
        deformer = Deformer(
            mesh=poses.mesh,
            skeleton=skeleton,
            control_spec=poses.control_spec,
            skin=Skin(index, float32_weights(weight)),
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


def _training_errors(deformer: Deformer, poses: Poses, chosen: np.ndarray) -> dict[str, float]:
    """Errors on evenly spaced poses among the `chosen` (n,), in the mesh's unit."""
    some = poses.take(chosen[evenly(len(chosen), _MEASURED_POSES)])
    _, world_from_bone = some.need_bones("lbs")
    summary = ErrorSummary(height=poses.mesh.height)
    for where, block in some.pose_blocks(32):
        summary.add(block, deformer.deform_reference(world_from_bone[where]))
    return summary.figures()
