"""`local`: the nets of `differential` on plain offsets, without differential coordinates, anchors
or reconstruction.

The comparison of Song, Shi and Reed 2020, section 4.4.1 ("Local"): the same nets over a PCA of the
displacements before skinning themselves,

    d = mean + U c,     c = net(features)

The same options mean the same nets; in the default preset that includes the regions, which here are
regions of positions and may open seams. The loss is the paper's in both presets (l1), and the poses
are those given: what `differential` gains over it, it owes to its coordinates, and by default to
its loss and to mirror images too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from understudy.core.deformer import Deformer
from understudy.core.errors import MissingDependencyError
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.methods.base import Method, Traits
from understudy.methods.differential.config import DEFAULT_NETS, PAPER_NETS, SubspaceConfig
from understudy.rigs.base import Rig


@dataclass(frozen=True)
class LocalConfig(SubspaceConfig):
    """Options of local. Those that default to none are set by the preset.

    preset          default or paper: the nets' sizes and how they are trained, as in differential
    hidden          widths of the hidden layers of every region's net
    activation      tanh, relu or gelu
    epochs          passes over the training poses
    batch           poses per training step
    rate            first learning rate
    optimizer       adam or sgd
    weight_decay    how fast unused weights shrink (Adam: decoupled)
    loss            l1, l2 or mixed (their sum)
    regions         nets the vertices are shared among; 1: one for all, as in the paper
    linear          begin every net with a ridge regression
    components      their number as a share of the vertices; none in the default preset: by
                    basis_error
    basis_error     mean distance per vertex the components may leave, in model units; none: 0.01 %
                    of the height
    most_components upper limit of components per region
    skin            perturbed, fitted, blended, or auto: as in differential
    influences      most bones a vertex may follow
    inputs          where each net's inputs come from: rig, data, all, or auto
    input_poses     poses at which the rig is perturbed
    input_error     a perturbation that moves no vertex by this much (model units) is no input;
                    none: 0.02 % of the height
    controls        numeric: controls that act other than through bones join the inputs; all; none
    clamp_margin    features are held to the range seen, widened by this share of its width on each
                    side; none: not at all
    validation      share of the poses kept aside to measure
    device          auto, cpu or cuda
    checkpoint      file to keep the state of training in, to go on after an interruption
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": {**DEFAULT_NETS, "loss": "l1"},
        "paper": PAPER_NETS,
    }


class Local(Method[LocalConfig]):
    """The networks of `differential` on plain offsets, without anchors or reconstruction."""

    name = "local"
    traits = Traits(
        controls_suffice=True,
        asks_rig=True,
        needs_torch=True,
        baseline=True,
        quick={
            "epochs": "20",
            "hidden": "32,32",
            "batch": "64",
            "regions": "4",
            "input_poses": "3",
        },
    )
    Config = LocalConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """Learn `poses`, driven by bones, controls, or both."""
        try:
            from understudy.methods.differential.offset_fit import OffsetFit
        except ImportError as problem:
            raise MissingDependencyError(
                "local trains networks and needs torch: pip install 'understudy[fit]'"
            ) from problem
        return OffsetFit(self.name, self.config, poses, rig, progress).deformer()
