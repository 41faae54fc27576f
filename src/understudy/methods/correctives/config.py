"""Options of all methods that train networks for what a skin leaves, each described once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from understudy.methods.base import (
    AT_LEAST_ONE,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    CheckedConfig,
    Limit,
    check_device,
)
from understudy.methods.correctives.features import CONTROLS
from understudy.methods.correctives.inputs import INPUT_SOURCES
from understudy.methods.correctives.skins import SKINS
from understudy.system.errors import InputError


@dataclass(frozen=True)
class NetworkConfig(CheckedConfig):
    """Options that networks share; the subclasses document the others.

    hidden               widths of the hidden layers of every network
    activation           activation function of the hidden layers
    epochs               passes over the training poses
    batch_size           poses per training step; fewer if an epoch would have less than 20 steps
    learning_rate        initial learning rate
    weight_decay         decoupled weight decay of Adam
    basis_poses          the mean and the components come from at most this many poses; none: all
    inputs               how the inputs of each network are selected: rig (perturb the live rig),
                         data (from the poses), all, or auto (rig where there is one, else data)
    controls             controls that are inputs beside the bones: numeric (those that act other
                         than through bones), all, none, or auto: numeric, or all if they predict
                         held-out poses clearly better
    clamp_margin         features are clamped to their training range, widened on each side by this
                         fraction of its width; none: no clamping
    bounded              keep each coefficient in its range over the training poses, and fade the
                         correctives out as a pose leaves these poses
    rom_share            weight of range-of-motion poses in training (rest, and each control alone
                         at the ends of its range), as a fraction of the poses; they are evaluated
                         by the live rig; 0: none
    validation_fraction  fraction of the poses that are kept out of training, to measure the error
    device               auto (a GPU where torch finds one), cpu, cuda or cuda:N
    checkpoint           file that stores the state of training, so that an interrupted fit can
                         continue
    """

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "activation": ("tanh", "relu", "gelu"),
        "loss": ("l1", "l2", "mixed"),
        "inputs": INPUT_SOURCES,
        "controls": CONTROLS,
    }
    limits: ClassVar[Mapping[str, Limit]] = {
        "hidden": AT_LEAST_ONE,
        "epochs": AT_LEAST_ONE,
        "batch_size": AT_LEAST_ONE,
        "learning_rate": POSITIVE,
        "weight_decay": NOT_NEGATIVE,
        "basis_error": POSITIVE,
        "basis_poses": AT_LEAST_ONE,
        "max_components": AT_LEAST_ONE,
        "input_error": POSITIVE,
        "clamp_margin": NOT_NEGATIVE,
        "rom_share": Limit(low=0, high=1),
        "validation_fraction": Limit(low=0, high=0.9),
    }

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "gelu"
    epochs: int = 60
    batch_size: int = 128
    learning_rate: float = 0.004
    weight_decay: float = 0.6
    loss: str = "mixed"
    basis_error: float | None = None
    basis_poses: int | None = 2000
    max_components: int = 80
    features: str = "all"
    inputs: str = "auto"
    input_error: float | None = None
    controls: str = "auto"
    clamp_margin: float | None = 0.5
    bounded: bool = True
    rom_share: float = 0.05
    validation_fraction: float = 0.05
    device: str = "auto"
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_device(self.device)


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
        "features": ("independent", "all"),
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
