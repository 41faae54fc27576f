"""Options that `differential` and `local` share, and their presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, Self

from understudy.core import checks
from understudy.methods.checked_config import (
    AT_LEAST_ONE,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    CheckedConfig,
    Limit,
    check_device,
)
from understudy.methods.differential.skins import SKINS
from understudy.training.features import CONTROLS
from understudy.training.inputs import INPUT_SOURCES

LOSSES = ("l1", "l2", "mixed")


@dataclass(frozen=True)
class NetworkPreset:
    """The options that a preset decides, with the names and meanings that they have in the config.

    `SubspaceConfig.resolved` returns one in which the user's values replace those of the preset.
    """

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "gelu"
    epochs: int = 60
    batch_size: int = 128
    learning_rate: float = 0.004
    optimizer: str = "adam"
    weight_decay: float = 0.6
    loss: str = "mixed"
    regions: int = 24
    linear: bool = True
    components: float | None = None


DEFAULT_PRESET = NetworkPreset()
PAPER_PRESET = NetworkPreset(
    hidden=(2048,) * 5,
    activation="relu",
    epochs=10000,
    batch_size=128,
    learning_rate=0.1,
    optimizer="sgd",
    weight_decay=0.0,
    loss="l1",
    regions=1,
    linear=False,
    components=0.05,
)


@dataclass(frozen=True)
class SubspaceConfig(CheckedConfig):
    """Options of networks over a deformation subspace; the subclasses document them."""

    network_presets: ClassVar[Mapping[str, NetworkPreset]] = {
        "default": DEFAULT_PRESET,
        "paper": PAPER_PRESET,
    }
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {"preset": "paper"}}
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "preset": ("default", "paper"),
        "activation": ("tanh", "relu", "gelu"),
        "optimizer": ("adam", "sgd"),
        "loss": LOSSES,
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
        "max_components": AT_LEAST_ONE,
        "influences": AT_LEAST_ONE,
        "input_poses": AT_LEAST_ONE,
        "input_error": POSITIVE,
        "clamp_margin": NOT_NEGATIVE,
        "validation_fraction": Limit(low=0, high=0.9),
    }

    preset: str = "default"
    hidden: tuple[int, ...] | None = None
    activation: str | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    optimizer: str | None = None
    weight_decay: float | None = None
    loss: str | None = None
    regions: int | None = None
    linear: bool | None = None
    components: float | None = None
    basis_error: float | None = None
    max_components: int = 80
    skin: str = "auto"
    influences: int = 4
    inputs: str = "auto"
    input_poses: int = 100
    input_error: float | None = None
    controls: str = "numeric"
    clamp_margin: float | None = 0.5
    validation_fraction: float = 0.05
    device: str = "auto"
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        checks.one_of(self.preset, "preset", self.network_presets)
        super().__post_init__()
        check_device(self.device)

    def resolved(self) -> NetworkPreset:
        """The options that the preset decides, each replaced by the user's value if there is one.

        >>> SubspaceConfig(epochs=3).resolved().epochs
        3
        """
        preset = self.network_presets[self.preset]
        given = {field.name: getattr(self, field.name) for field in fields(preset)}
        return replace(
            preset, **{name: value for name, value in given.items() if value is not None}
        )

    def filled(self) -> Self:
        """This config with every option that the preset decides set to its value."""
        full = object.__new__(type(self))  # without the checks, which call this
        for name, value in {**asdict(self), **asdict(self.resolved())}.items():
            object.__setattr__(full, name, value)
        return full
