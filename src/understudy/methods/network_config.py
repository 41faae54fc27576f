"""`NetworkConfig`: the options of all methods that train networks for the residual of a skin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from understudy.methods.base import (
    AT_LEAST_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    CheckedConfig,
    Limit,
    check_device,
)
from understudy.training.features import CONTROLS
from understudy.training.inputs import INPUT_SOURCES


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
