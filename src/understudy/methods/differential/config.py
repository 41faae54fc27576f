"""Options that `differential` and `local` share, and the values that their paper states."""

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
from understudy.methods.differential.features import FEATURES
from understudy.methods.differential.skins import SKINS
from understudy.system.errors import InputError
from understudy.training.features import CONTROLS
from understudy.training.inputs import INPUT_SOURCES

LOSSES = ("l1", "l2", "mixed")
LOSS_SPACES = ("coefficients", "vertices")
MIRRORS = ("auto", "none")

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
class SubspaceConfig(CheckedConfig):
    """Options of networks over a deformation subspace; the subclasses document them."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": PAPER,
        "paper-early": {**PAPER, **EARLY_STOPPING},
    }
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "activation": ("tanh", "relu", "gelu"),
        "optimizer": ("adam", "sgd"),
        "loss": LOSSES,
        "loss_space": LOSS_SPACES,
        "features": FEATURES,
        "mirror": MIRRORS,
        "skin": SKINS,
        "inputs": INPUT_SOURCES,
        "controls": CONTROLS,
    }
    limits: ClassVar[Mapping[str, Limit]] = {
        "hidden": AT_LEAST_ONE,
        "epochs": AT_LEAST_ONE,
        "batch_size": AT_LEAST_ONE,
        "learning_rate": POSITIVE,
        "weight_decay": NOT_NEGATIVE,
        "regions": AT_LEAST_ONE,
        "components": FRACTION,
        "basis_error": POSITIVE,
        "basis_poses": AT_LEAST_ONE,
        "max_components": AT_LEAST_ONE,
        "influences": AT_LEAST_ONE,
        "input_poses": AT_LEAST_ONE,
        "input_error": POSITIVE,
        "clamp_margin": NOT_NEGATIVE,
        "rom_share": Limit(low=0, high=1),
        "validation_fraction": Limit(low=0, high=0.9),
        "patience": AT_LEAST_ONE,
    }

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "gelu"
    epochs: int = 60
    batch_size: int = 128
    learning_rate: float = 0.004
    optimizer: str = "adam"
    weight_decay: float = 0.6
    loss: str = "mixed"
    loss_space: str = "coefficients"
    regions: int = 24
    linear: bool = True
    components: float | None = None
    basis_error: float | None = None
    basis_poses: int | None = 2000
    max_components: int = 80
    features: str = "independent"
    mirror: str = "auto"
    skin: str = "auto"
    influences: int = 4
    inputs: str = "auto"
    input_poses: int = 100
    input_error: float | None = None
    controls: str = "auto"
    clamp_margin: float | None = 0.5
    bounded: bool = True
    rom_share: float = 0.05
    validation_fraction: float = 0.05
    patience: int | None = None
    device: str = "auto"
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_device(self.device)
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
