"""Options of networks over a deformation subspace, and the values that their paper states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from understudy.methods.base import AT_LEAST_ONE, FRACTION, POSITIVE, Limit
from understudy.methods.correctives.config import RegionsConfig
from understudy.system.errors import InputError

# Song, Shi and Reed 2020, by section. Where the text is silent, the option keeps its default.
PAPER: Mapping[str, Any] = {
    "hidden": (2048,) * 5,  # 3.2.3: 5 fully connected layers with 2048 units
    "activation": "relu",  # 3.2.3
    "epochs": 10000,  # 3.3
    "batch_size": 128,  # 3.3
    "learning_rate": 0.1,  # 3.3, with a decay of 1e-6
    "optimizer": "sgd",  # 3.3
    "weight_decay": 0.0,  # none is mentioned
    "loss": "l1",  # 3.2.3
    "loss_space": "vertices",  # 3.2.3: PCA is the last layer, so the loss is taken after it
    "regions": 1,  # 3.2.3: one network
    "linear": False,  # none is mentioned
    "components": 0.05,  # 4.1: 5 % of the vertices
    "basis_poses": None,  # 3.2.3: PCA of the entire training set
    "features": "all",  # 3.2.1: 12 j + c features
    "input_poses": 100,  # 3.2.4
    "mirror": "none",  # none is mentioned
    "clamp_margin": None,  # none is mentioned
    "bounded": False,  # none is mentioned
    "rom_share": 0.0,  # none is mentioned
    "validation_fraction": 0.0,  # 4: all 9,800 training poses are trained on
}
# Ours: the wide network overfits, so training stops by poses that are kept out of it. Their error
# jumps from epoch to epoch at the paper's constant rate, hence the long patience.
EARLY_STOPPING: Mapping[str, Any] = {"validation_fraction": 0.05, "patience": 1000}


@dataclass(frozen=True)
class SubspaceConfig(RegionsConfig):
    """Options of networks over a deformation subspace, beside those of all methods with regions.

    regions     number of regions, each with its own network; 1: one network for the mesh, as in the
                paper
    loss_space  what the loss compares: coefficients, or vertices (the truth at every vertex, as in
                the paper; needs regions=1, and has no range-of-motion poses)
    components  number of principal components as a fraction of the vertices; none: basis_error
                determines it
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": PAPER,
        "paper-early": {**PAPER, **EARLY_STOPPING},
    }
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **RegionsConfig.choices,
        "loss_space": ("coefficients", "vertices"),
    }
    limits: ClassVar[Mapping[str, Limit]] = {**RegionsConfig.limits, "components": FRACTION}

    loss_space: str = "coefficients"
    components: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss_space == "vertices" and self.regions != 1:
            raise InputError(
                f"loss_space=vertices needs one network for the mesh, and regions is "
                f"{self.regions}; set regions=1, or loss_space=coefficients"
            )

    @property
    def added_share(self) -> float:
        """The weight of range-of-motion poses; the loss of the paper has none."""
        return 0.0 if self.loss_space == "vertices" else self.rom_share

    def component_count(self, vertices: int, regions: int) -> int | None:
        """The number of components of each region; None: the basis error determines it."""
        share = self.components
        return None if share is None else max(1, round(share * vertices / regions))


_PAPER: Mapping[str, Any] = {
    **PAPER,
    "metric": "differential",  # 3.2.3: PCA of the differential coordinates
    "omega": 1.0,  # Eq. 4: the anchors have weights, nothing else; the values are not given
    "anchors": 0.02,  # 4.2: 2 % of the vertices
    "fewest_anchors": 1,
    "anchor_hidden": (64, 64, 64),  # 3.2.4: 3 fully connected layers with 64 units
    "anchor_epochs": 10000,  # 3.3: for both networks
    "anchor_loss": "l2",  # 3.2.4
    "anchor_nets": "split",  # 3.2.4: one network per anchor
    "fold_error": 1e-6,  # the paper solves at run time; folding loses nothing
}


@dataclass(frozen=True)
class DifferentialConfig(SubspaceConfig):
    """Options of differential, beside those of a deformation subspace.

    fold_error           largest root-mean-square error per vertex from compressing the folded
                         bases, in model units; none: basis_error
    metric               what the components explain most of: reconstruction (the reconstructed
                         vertices) or differential (the differential coordinates, as in the paper)
    anchors              number of anchors as a fraction of the vertices
    fewest_anchors       lower limit of that number
    anchor_list          indices of the anchor vertices; empty: they are selected automatically, by
                         QR with column pivoting; with omega half are evenly spaced along the edges
                         and half are where the differential networks have the largest error
    anchor_hidden        widths of the hidden layers of every anchor network
    anchor_epochs        passes over the training poses for the anchor networks
    anchor_loss          loss of the anchor networks: l1, l2 (as in the paper) or mixed
    anchor_nets          split (one network per anchor) or single (one for all anchors, for
                         comparison)
    omega                weight of the anchors relative to the differential coordinates, as in the
                         paper; none: every equation of the reconstruction is weighted by its error
                         on validation poses
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": _PAPER,
        "paper-early": {**_PAPER, **EARLY_STOPPING},
    }
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **SubspaceConfig.choices,
        "metric": ("reconstruction", "differential"),
        "anchor_loss": SubspaceConfig.choices["loss"],
        "anchor_nets": ("split", "single"),
    }
    limits: ClassVar[Mapping[str, Limit]] = {
        **SubspaceConfig.limits,
        "anchors": FRACTION,
        "fewest_anchors": AT_LEAST_ONE,
        "anchor_hidden": AT_LEAST_ONE,
        "anchor_epochs": AT_LEAST_ONE,
        "omega": POSITIVE,
        "fold_error": POSITIVE,
    }

    metric: str = "reconstruction"
    anchors: float = 0.02
    fewest_anchors: int = 64  # a fraction of a small mesh is too few to fix its position
    anchor_list: tuple[int, ...] = ()
    anchor_hidden: tuple[int, ...] = (32, 32, 32)
    anchor_epochs: int = 60
    anchor_loss: str = "mixed"
    anchor_nets: str = "split"
    omega: float | None = None
    fold_error: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss_space == "vertices" and self.metric != "differential":
            raise InputError("loss_space=vertices needs metric=differential, as in the paper")

    @property
    def holds_vertices(self) -> bool:
        """Whether the reconstruction weakly constrains every vertex to a predicted offset."""
        return self.omega is None

    @property
    def anchors_by_errors(self) -> bool:
        """Whether half of the anchors are selected after the differential networks are trained."""
        return not self.anchor_list and not self.holds_vertices
