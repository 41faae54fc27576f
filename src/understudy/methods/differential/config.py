"""Options that the methods with nets over a deformation subspace share (`differential`, `local`),
and their presets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

from understudy.core import checks
from understudy.core.errors import InputError
from understudy.methods.base import Config

LOSSES = ("l1", "l2", "mixed")
DEFAULT_NETS = {
    "hidden": (128, 128),
    "activation": "gelu",
    "epochs": 60,
    "batch_size": 128,
    "learning_rate": 0.004,
    "optimizer": "adam",
    "weight_decay": 0.6,
    "loss": "mixed",
    "regions": 24,
    "linear": True,
}
# 5 x 2048 rectifiers on everything, SGD at 0.1, 10,000 epochs: 180 s for 5,000 poses of the face on
# a data-centre GPU, 300 s for the whole fit.
PAPER_NETS = {
    "hidden": (2048,) * 5,
    "activation": "relu",
    "epochs": 10000,
    "batch_size": 128,
    "learning_rate": 0.1,
    "optimizer": "sgd",
    "weight_decay": 0.0,
    "loss": "l1",
    "regions": 1,
    "linear": False,
    "components": 0.05,
}


@dataclass(frozen=True)
class SubspaceConfig(Config):
    """Options of nets over a subspace; a subclass documents them."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "default": DEFAULT_NETS,
        "paper": PAPER_NETS,
    }
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "activation": ("tanh", "relu", "gelu"), "optimizer": ("adam", "sgd"), "loss": LOSSES,
        "skin": ("auto", "perturbed", "fitted", "blended"), "inputs": ("auto", "rig", "data",
        "all"), "controls": ("numeric", "all", "none"),
    }  # fmt: skip
    counts: ClassVar[tuple[str, ...]] = (
        "epochs",
        "batch_size",
        "regions",
        "max_components",
        "influences",
        "input_poses",
        "hidden",
    )
    positive: ClassVar[tuple[str, ...]] = (
        "learning_rate",
        "components",
        "basis_error",
        "input_error",
    )
    shares: ClassVar[tuple[str, ...]] = ("components",)

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

    def __post_init__(self):
        super().__post_init__()
        checks.one_of(self.preset, "preset", self.presets)
        full = self.filled()
        for name, allowed in self.choices.items():
            checks.one_of(getattr(full, name), name, allowed)
        for name in self.counts:
            value = getattr(full, name)
            for number in value if isinstance(value, tuple) else (value,):
                checks.between(number, name, 1)
        for name in self.positive:
            if getattr(full, name) is not None:
                checks.between(
                    getattr(full, name), name, high=1 if name in self.shares else None, above=0
                )
        checks.between(full.weight_decay, "weight_decay", 0)
        checks.between(self.validation_fraction, "validation_fraction", 0, 0.9)
        if self.clamp_margin is not None:
            checks.between(self.clamp_margin, "clamp_margin", 0)
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise InputError(f"device: expected auto, cpu, cuda or cuda:N, got {self.device!r}")

    def filled(self) -> Self:
        """The same with every option of the preset in place."""
        values = asdict(self)
        values |= {
            name: value for name, value in self.presets[self.preset].items() if values[name] is None
        }
        full = object.__new__(type(self))  # the check has been made, or is under way
        for name, value in values.items():
            object.__setattr__(full, name, value)
        return full

    def header(self) -> dict[str, Any]:
        """What made a result, for its file: without what cannot change it."""
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in ("checkpoint", "device")
        }
