"""Trains the networks of a method together, here or on a cluster.

Networks are trained in stacks (`grouped.py`). Without a cluster all stacks take their steps in
turns; with one, every stack is a part of the job (`io/array_parts.py`). The bytes are the same. A
stack whose worker died continues from its checkpoint on another worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from understudy.io.array_parts import Arrays, compute_parts
from understudy.system import cluster
from understudy.system.cluster import Workers
from understudy.system.errors import InputError
from understudy.system.progress import Progress, Task
from understudy.training.grouped import GroupedTask, stack_order
from understudy.training.schedule import Schedule
from understudy.training.stack_training import Layers, TrainedStacks, relative_losses, train_stacks


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


def train_on_cluster(
    workers: Workers,
    features: np.ndarray,
    stacks: Mapping[int, Sequence[GroupedTask]],
    schedule: Schedule,
    task: Task,
) -> TrainedStacks:
    """The result of `train_stacks`, with the same bytes, from the workers of a cluster."""
    gpu = workers.gpus > 0 and schedule.device != "cpu"
    found = compute_parts(
        workers,
        "training",
        asdict(schedule),
        {"features": features},
        [{"stack": np.array([number])} | _packed(own) for number, own in stacks.items()],
        _Training(schedule, "cuda" if gpu else "cpu"),
        schedule.epochs,
        task,
        workers.gpus if gpu else 0,
    )
    return _joined(found)


class _Training:
    """The work: train a stack."""

    def __init__(self, schedule: Schedule, device: str):
        self._schedule, self._device = asdict(schedule), device

    def __call__(self, common: Arrays, part: Arrays, task: Task, checkpoint: Path) -> Arrays:
        tasks = {name: array for name, array in part.items() if name != "stack"}
        trained = train_stacks(
            common["features"],
            {int(part["stack"][0]): _unpacked(tasks)},
            Schedule(**self._schedule),
            torch.device(self._device),
            task,
            checkpoint,
        )
        arrays = {"losses": trained.losses, "zero": trained.zero}
        for g, (weights, biases) in enumerate(trained.nets[0]):
            for layer, (weight, bias) in enumerate(zip(weights, biases)):
                arrays[f"{g}.{layer}.weight"] = weight
                arrays[f"{g}.{layer}.bias"] = bias
        return arrays


def _packed(tasks: Sequence[GroupedTask]) -> dict[str, np.ndarray]:
    """The arrays of some tasks under names."""
    return {
        f"{g}.{name}": array
        for g, task in enumerate(tasks)
        for name, array in vars(task).items()
        if array is not None
    }


def _unpacked(arrays: Arrays) -> list[GroupedTask]:
    """The tasks that `_packed` wrote."""
    found: dict[int, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        g, _, field = name.partition(".")
        found.setdefault(int(g), {})[field] = array
    return [GroupedTask(**found[g]) for g in sorted(found)]


def _joined(parts: Sequence[Arrays]) -> TrainedStacks:
    """What `_Training` returned for each stack."""
    nets: list[list[Layers]] = []
    for arrays in parts:
        nets.append([])
        layers = range(sum(name.startswith("0.") for name in arrays) // 2)
        for g in range(sum(name.endswith(".0.weight") for name in arrays)):
            weights = [arrays[f"{g}.{layer}.weight"] for layer in layers]
            nets[-1].append((weights, [arrays[f"{g}.{layer}.bias"] for layer in layers]))
    return TrainedStacks(
        nets,
        np.concatenate([arrays["losses"] for arrays in parts], axis=2),
        np.concatenate([arrays["zero"] for arrays in parts], axis=1),
    )
