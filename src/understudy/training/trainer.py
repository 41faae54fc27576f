"""Trains the networks of a method together, here or on a cluster.

Networks are trained in stacks (`grouped.py`). Without a cluster all stacks take their steps in
turns; with one, every stack is a part of the job (`cluster_training.py`). The bytes are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from understudy.system import cluster
from understudy.system.errors import InputError
from understudy.system.progress import Progress
from understudy.training.cluster_training import train_on_cluster
from understudy.training.grouped import GroupedTask, stack_order
from understudy.training.schedule import Schedule
from understudy.training.stack_training import Layers, relative_losses, train_stacks


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """Trained networks and their loss curves.

    nets              weights (out,in) and biases (out,) of each network, in the order of the tasks
    training_curve    (epochs,) loss on the training poses, relative to the loss of predicting zero;
                      shorter where training stopped early
    validation_curve  (epochs,) the same on the validation poses; NaN where there are none
    """

    nets: list[tuple[list[np.ndarray], list[np.ndarray]]]
    training_curve: np.ndarray
    validation_curve: np.ndarray


def curve_numbers(curve: np.ndarray) -> list[float]:
    """A loss curve as numbers for the header of a file; empty where nothing was measured.

    >>> curve_numbers(np.array([0.12345678, np.nan]))
    [0.123457]
    """
    return [float(f"{value:.6g}") for value in curve if np.isfinite(value)]


def pick_device(name: str) -> torch.device:
    """The device called `name`; `auto` is a GPU where torch finds one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"device {name!r}: torch finds no CUDA device here; use device=cpu")
    return torch.device(name)


def train(
    features: np.ndarray,
    tasks: Sequence[GroupedTask],
    schedule: Schedule,
    progress: Progress,
    checkpoint: Path | None = None,
) -> TrainingResult:
    """Train the networks of all tasks at once.

    features    (T,X) float32, standardised
    tasks       one per network
    checkpoint  file for the state of training; a run with the same data and schedule continues from
                it. It stays when training ends: delete it once the result is saved
    """
    device = pick_device(schedule.device)
    if not tasks:
        return TrainingResult([], np.zeros(0), np.zeros(0))
    # On a GPU, padding costs less than launching another product.
    on_gpu = device.type != "cpu"
    order = stack_order(tasks, fill=0.0) if on_gpu else stack_order(tasks, schedule.hidden)
    stacks = {number: [tasks[g] for g in members] for number, members in enumerate(order)}
    workers = cluster.current()
    with progress.task(f"training {len(tasks)} networks", schedule.epochs * len(stacks)) as task:
        # Early stopping looks at all networks.
        if workers is not None and len(stacks) > 1 and schedule.patience is None:
            trained = train_on_cluster(workers, features, stacks, schedule, task)
        else:
            trained = train_stacks(features, stacks, schedule, device, task, checkpoint)
    nets: dict[int, Layers] = {}
    for members, layers in zip(order, trained.nets):
        nets.update(zip(members, layers))
    curve = relative_losses(trained.losses, trained.zero)
    return TrainingResult([nets[g] for g in range(len(tasks))], curve[:, 0], curve[:, 1])
