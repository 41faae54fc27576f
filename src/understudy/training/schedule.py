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
class Schedule:
    """How to train.

    hidden               widths of the hidden layers
    activation           tanh, relu or gelu
    epochs               passes over the training poses
    batch_size           poses per step
    learning_rate        initial learning rate; SGD's decays as 1 / (1 + 1e-6 steps)
    decay                of Adam's learning rate: cosine (to zero) or none (constant)
    loss                 l2, l1, or mixed (their sum)
    optimizer            adam, or sgd (no momentum; the loss is then the mean over outputs, as in
                         the differential paper)
    target_scale         unit of the targets during training, which SGD depends on; None: each
                         network's targets are brought to size 1
    weight_decay         decoupled: each step shrinks the weights by learning_rate times this
    validation_fraction  fraction of the poses that are kept out of training, to measure the error
    patience             early stopping: training ends when no network has improved on the
                         validation poses for this many epochs, and every network keeps the weights
                         of its best epoch; None: all epochs, and the weights of the last
    mirrored             the second half of the poses are mirror images of the first; a pose and its
                         image are both training poses or both validation poses
    added                that many poses at the end, which are always training poses
    seed                 seed of the initial weights, the order of poses and the validation poses
    device               cpu, cuda, cuda:N, or auto (a GPU where torch finds one)
    """

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "tanh"
    epochs: int = 150
    batch_size: int = 256
    learning_rate: float = 0.005
    decay: str = "cosine"
    loss: str = "l2"
    optimizer: str = "adam"
    target_scale: float | None = None
    weight_decay: float = 0.0
    validation_fraction: float = 0.05
    patience: int | None = None
    mirrored: bool = False
    added: int = 0
    seed: int = 0
    device: str = "auto"

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
