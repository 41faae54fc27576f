"""`local`: the networks of `differential` on plain offsets.

The baseline "Local" of Song, Shi and Reed 2020, section 4.4.1. There are no differential
coordinates, no anchors and no reconstruction: the networks predict the coefficients of a PCA of the
displacements before skinning,

    d = mean + U c,     c = net(x)

It has everything else that `differential` has: the same networks, loss, ridge regression, mirror
images and inputs, so that a comparison shows what differential coordinates contribute.

Departure: by default there is one network per region, as in `differential`. These are regions of
positions, so seams may open between them. The paper has one network (`--preset paper`).
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.methods.base import Method, Traits
from understudy.methods.correctives.config import SubspaceConfig
from understudy.rigs.base import Rig
from understudy.system.progress import SILENT, Progress
from understudy.training.schedule import need_torch


@dataclass(frozen=True)
class LocalConfig(SubspaceConfig):
    """Options of local, beside those of a deformation subspace.

    loss                 l1, l2 or mixed (their sum)
    loss_space           what the loss compares: coefficients, or vertices (the true offset of every
                         vertex, as in the paper; needs regions=1, and has no range-of-motion
                         poses)
    regions              number of regions, each with its own network; 1: one network for the mesh,
                         as in the paper
    """


class Local(Method[LocalConfig]):
    """The networks of `differential` on plain offsets, without anchors or reconstruction."""

    name = "local"
    traits = Traits(
        controls_suffice=True,
        asks_rig=True,
        needs_torch=True,
        baseline="differential",
        quick={
            "epochs": "20",
            "hidden": "32,32",
            "batch_size": "64",
            "regions": "4",
            "input_poses": "3",
        },
    )
    Config = LocalConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """The deformer of `poses`, which need bones, controls, or both.

        rig  is perturbed to find skin weights and to select the inputs of each network
        """
        need_torch(self.name)
        # Needs torch, an optional dependency.
        from understudy.methods.differential.local_fit import fit_local

        return fit_local(self.config, poses, rig, progress)
