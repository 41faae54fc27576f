"""Options of all methods that train networks for what a skin leaves, each described once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from understudy.methods.base import (
    AT_LEAST_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    Config,
    Limit,
    check_device,
)
from understudy.methods.correctives.features import CONTROLS
from understudy.methods.correctives.inputs import INPUT_SOURCES
from understudy.methods.correctives.skins import SKINS
from understudy.system.errors import InputError
from understudy.training.schedule import DECAYS, TrainingOptions

SEAM_RINGS = Limit(low=0, high=20)


@dataclass(frozen=True)
class CorrectivesConfig(Config, TrainingOptions):
    """Options of all methods with correctives, beside those of training.

    linear               fit a ridge regression first; the networks learn its residual
    basis_error          mean distance per vertex that the principal components may leave, in model
                         units; none: 0.01 % of the height (fdda: 0.016 %, corrected_skin: 0.006 %)
    basis_poses          the mean and the components come from at most this many poses; none: all
    max_components       upper limit of principal components of a region
    features             independent (constant and redundant numbers of a joint are left out) or all
                         (12 numbers per joint, only translations and controls are normalised, as
                         in the paper)
    inputs               how the inputs of each network are selected: rig (perturb the live rig),
                         data (from the poses), all, or auto (rig where there is one, else data)
    input_poses          number of poses at which the rig is perturbed to select inputs
    input_error          a bone or control is an input if it moves a vertex of the network by more
                         than this, in model units; none: 0.02 % of the height (fdda: basis_error)
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
    checkpoint           file that stores the state of training, so that an interrupted fit can
                         continue
    """

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "activation": ("tanh", "relu", "gelu"),
        "optimizer": ("adam", "sgd"),
        "decay": DECAYS,
        "loss": ("l1", "l2", "mixed"),
        "features": ("independent", "all"),
        "inputs": INPUT_SOURCES,
        "controls": CONTROLS,
    }
    limits: ClassVar[Mapping[str, Limit]] = {
        "hidden": AT_LEAST_ONE,
        "epochs": AT_LEAST_ONE,
        "batch_size": AT_LEAST_ONE,
        "learning_rate": POSITIVE,
        "weight_decay": NOT_NEGATIVE,
        "patience": AT_LEAST_ONE,
        "basis_error": POSITIVE,
        "basis_poses": AT_LEAST_ONE,
        "max_components": AT_LEAST_ONE,
        "input_poses": AT_LEAST_ONE,
        "input_error": POSITIVE,
        "clamp_margin": NOT_NEGATIVE,
        "rom_share": Limit(low=0, high=1),
        "validation_fraction": Limit(low=0, high=0.9),
    }
    # Of the height: what `basis_error` and `input_error` are by default; None: the basis error.
    basis_share: ClassVar[float] = 1e-4
    input_share: ClassVar[float | None] = 2e-4
    # Inputs from the poses: the gain that a unit must bring, and the most units of a network.
    input_gain: ClassVar[float] = 0.002
    most_inputs: ClassVar[int] = 30

    linear: bool = True
    basis_error: float | None = None
    basis_poses: int | None = 2000
    max_components: int = 80
    features: str = "independent"
    inputs: str = "auto"
    input_poses: int = 100
    input_error: float | None = None
    controls: str = "auto"
    clamp_margin: float | None = 0.5
    bounded: bool = True
    rom_share: float = 0.05
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_device(self.device)
        if self.patience is not None and not self.validation_fraction:
            raise InputError(
                "patience stops training by validation poses, and validation_fraction is 0; raise "
                "it, or leave patience at none"
            )

    @property
    def added_share(self) -> float:
        """The weight of range-of-motion poses."""
        return self.rom_share

    @property
    def scaling(self) -> str:
        """How features are brought to a common size, as in `FeatureTable.of`."""
        return "entries" if self.features == "all" else "shared"


@dataclass(frozen=True)
class RegionsConfig(CorrectivesConfig):
    """Options of methods that correct a skin region by region.

    regions     number of regions
    skin        perturbed (the rig's own transforms), fitted (least squares), blended (best single
                bone with blended borders), or auto: perturbed where the rig allows it, else what
                predicts held-out poses better
    influences  upper limit of bones per vertex
    mirror      auto: recorded poses of a symmetric mesh driven by controls alone are augmented with
                their mirror images, up to 512 MB; none: no augmentation
    """

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **CorrectivesConfig.choices,
        "mirror": ("auto", "none"),
        "skin": SKINS,
    }
    limits: ClassVar[Mapping[str, Limit]] = {
        **CorrectivesConfig.limits,
        "regions": AT_LEAST_ONE,
        "influences": AT_LEAST_ONE,
    }

    regions: int = 24
    skin: str = "auto"
    influences: int = 4
    mirror: str = "auto"

    @property
    def skin_kind(self) -> str:
        """The kind of the skin, as in `PoseFacts.skin`."""
        return self.skin
