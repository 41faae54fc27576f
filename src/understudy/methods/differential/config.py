"""Options of networks over a deformation subspace, and the values that their paper states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from understudy.methods.base import AT_LEAST_ONE, FRACTION, Limit
from understudy.methods.correctives.features import FEATURES
from understudy.methods.differential.skins import SKINS
from understudy.methods.network_config import NetworkConfig
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
class SubspaceConfig(NetworkConfig):
    """Options of networks over a deformation subspace; the subclasses document the others.

    learning_rate        initial learning rate; Adam's decays to zero along a cosine, SGD's as
                         1 / (1 + 1e-6 steps)
    optimizer            adam, or sgd without momentum
    weight_decay         weight decay of the optimizer; decoupled for adam
    linear               fit a ridge regression first; the networks learn its residual
    components           number of principal components as a fraction of the vertices; none:
                         basis_error determines it
    basis_error          mean distance per vertex that the principal components may leave, in model
                         units; none: 0.01 % of the height
    max_components       upper limit of principal components per region
    features             independent (constant and redundant numbers of a joint are left out) or all
                         (12 numbers per joint, only translations and controls are normalised, as
                         in the paper)
    mirror               auto: recorded poses of a symmetric mesh driven by controls alone are
                         augmented with their mirror images, up to 512 MB; none: no augmentation
    skin                 perturbed (Eq. 12), fitted (least squares), blended (best single bone with
                         blended borders), or auto (perturbed where the rig allows it, else
                         what predicts held-out poses better)
    influences           upper limit of bones per vertex
    input_poses          number of poses at which the rig is perturbed to select inputs
    input_error          a bone or control is an input if it moves a vertex of the network by more
                         than this, in model units; none: 0.02 % of the height
    patience             early stopping: training ends after this many epochs without an improvement
                         on the validation poses, and every network keeps its best weights; none:
                         all epochs
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": PAPER,
        "paper-early": {**PAPER, **EARLY_STOPPING},
    }
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **NetworkConfig.choices,
        "optimizer": ("adam", "sgd"),
        "loss_space": ("coefficients", "vertices"),
        "features": FEATURES,
        "mirror": ("auto", "none"),
        "skin": SKINS,
    }
    limits: ClassVar[Mapping[str, Limit]] = {
        **NetworkConfig.limits,
        "regions": AT_LEAST_ONE,
        "components": FRACTION,
        "influences": AT_LEAST_ONE,
        "input_poses": AT_LEAST_ONE,
        "patience": AT_LEAST_ONE,
    }

    optimizer: str = "adam"
    loss_space: str = "coefficients"
    regions: int = 24
    linear: bool = True
    components: float | None = None
    features: str = "independent"
    mirror: str = "auto"
    skin: str = "auto"
    influences: int = 4
    input_poses: int = 100
    patience: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss_space == "vertices" and self.regions != 1:
            raise InputError(
                f"loss_space=vertices needs one network for the mesh, and regions is "
                f"{self.regions}; set regions=1, or loss_space=coefficients"
            )
        if self.patience is not None and not self.validation_fraction:
            raise InputError(
                "patience stops training by validation poses, and validation_fraction is 0; raise "
                "it, or leave patience at none"
            )

    @property
    def added_share(self) -> float:
        """The weight of range-of-motion poses; the loss of the paper has none."""
        return 0.0 if self.loss_space == "vertices" else self.rom_share
