"""`Schedule`: how networks are trained. Needs no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from understudy.system.errors import MissingDependencyError

_SGD_DECAY = 1e-6  # per step, as in the differential paper
DECAYS = ("cosine", "none")
_STEPS_PER_EPOCH, _LEAST_BATCH = 20, 16


@dataclass(frozen=True)
class TrainingOptions:
    """Options of everything that trains networks.

    hidden               widths of the hidden layers of every network
    activation           activation function of the hidden layers
    epochs               passes over the training poses
    batch_size           poses per training step; fewer if an epoch would have less than 20 steps
    optimizer            adam, or sgd without momentum
    learning_rate        initial learning rate; SGD's decays as 1 / (1 + 1e-6 steps)
    decay                of Adam's learning rate: cosine (to zero) or none
    weight_decay         weight decay of the optimizer; decoupled for adam
    loss                 loss of the networks: l1, l2, or mixed (their sum)
    patience             early stopping: training ends after this many epochs without an improvement
                         on the validation poses, and every network keeps its best weights; none:
                         all epochs
    validation_fraction  fraction of the poses that are kept out of training, to measure errors
    device               auto (a GPU where torch finds one), cpu, cuda or cuda:N
    """

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "gelu"
    epochs: int = 60
    batch_size: int = 128
    optimizer: str = "adam"
    learning_rate: float = 0.004
    decay: str = "cosine"
    weight_decay: float = 0.6
    loss: str = "mixed"
    patience: int | None = None
    validation_fraction: float = 0.05
    device: str = "auto"


@dataclass(frozen=True)
class Schedule(TrainingOptions):
    """How to train: the options, and what a fit knows.

    target_scale  unit of the targets during training, which SGD depends on: its loss is the mean
                  over outputs, as in the differential paper; None: each network's targets are
                  brought to size 1
    mirrored      the second half of the poses are mirror images of the first; a pose and its image
                  are both training poses or both validation poses
    added         that many poses at the end, which are always training poses
    seed          seed of the initial weights, the order of poses and the validation poses
    """

    target_scale: float | None = None
    mirrored: bool = False
    added: int = 0
    seed: int = 0

    @staticmethod
    def of(config: Any, **others: Any) -> Schedule:
        """The schedule that the options of a method say, except for `others`."""
        names = [field.name for field in fields(Schedule) if hasattr(config, field.name)]
        return Schedule(**{name: getattr(config, name) for name in names} | others)

    def for_poses(self, count: int) -> Schedule:
        """The schedule with smaller batches where an epoch of `count` poses has too few steps.

        The optimisers of the papers (SGD, Adam with a constant rate) keep their batches.

        >>> Schedule(batch_size=256).for_poses(400).batch_size
        20
        """
        if self.optimizer == "sgd" or self.decay == "none":
            return self
        size = max(_LEAST_BATCH, count // _STEPS_PER_EPOCH)
        return replace(self, batch_size=min(self.batch_size, size))

    def learning_rate_at(self, step: int, step_count: int) -> float:
        """The learning rate at a step of `step_count`.

        >>> Schedule(learning_rate=0.2).learning_rate_at(5, 10)
        0.1
        """
        if self.optimizer == "sgd":
            return self.learning_rate / (1 + _SGD_DECAY * step)
        if self.decay == "none":
            return self.learning_rate
        return 0.5 * self.learning_rate * (1 + math.cos(math.pi * step / step_count))


def need_torch(method: str) -> None:
    """Raise an error that says what to install if torch cannot be imported."""
    try:
        import torch  # noqa: F401 (optional dependency)
    except ImportError as problem:
        raise MissingDependencyError(
            f"{method} trains networks and needs torch: pip install 'understudy[fit]'"
        ) from problem
