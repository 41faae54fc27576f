"""Trains the networks of a method together, here or on a cluster.

Networks are trained in stacks (`grouped.py`). Without a cluster all stacks take their steps in
turns; with one, every stack is a part of the job. The bytes are the same. Files in the cluster's
folder connect driver and workers, named after a fingerprint of the data and the schedule:

    features.safetensors      (T,X), written by the driver
    stack-K.safetensors       inputs and targets of the networks of stack K, written by the driver
    stack-K.checkpoint        state of training, written by a worker every half minute
    stack-K.trained           the result, written by a worker

A stack whose worker died continues from its checkpoint on another worker. A driver that is started
again finds the results and the checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from understudy.io.array_file import read_arrays, write_arrays
from understudy.system import cluster
from understudy.system.cluster import Advance, PartTask, Workers
from understudy.system.errors import InputError
from understudy.system.progress import Progress, Task
from understudy.training.checkpoint import run_fingerprint
from understudy.training.grouped import GroupedTask, stack_order
from understudy.training.schedule import Schedule
from understudy.training.stack_training import Layers, TrainedStacks, relative_losses, train_stacks

_DIGITS = 24  # of the fingerprint


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


def train_on_cluster(
    workers: Workers,
    features: np.ndarray,
    stacks: Mapping[int, Sequence[GroupedTask]],
    schedule: Schedule,
    task: Task,
) -> TrainedStacks:
    """The result of `train_stacks`, with the same bytes, from the workers of a cluster."""
    every_task = [one for tasks in stacks.values() for one in tasks]
    mark = run_fingerprint(features, every_task, schedule)[:_DIGITS]
    folder = workers.folder / f"training-{mark}"
    missing = [number for number in stacks if not _result(folder, number).exists()]
    task.advance(schedule.epochs * (len(stacks) - len(missing)))
    if missing:
        write_arrays(folder / "features.safetensors", {"features": features})
        for number in missing:
            write_arrays(folder / f"stack-{number}.safetensors", _packed(stacks[number]))
        gpu = workers.gpus > 0 and schedule.device != "cpu"
        most = min(len(missing), workers.gpus) if gpu else len(missing)
        work = _Training(folder, schedule, "cuda" if gpu else "cpu")
        with workers.pool(work, most, gpu) as pool:
            pool.run(missing, [schedule.epochs] * len(missing), task)
    return _joined([_read_result(folder, number) for number in stacks])


class _Training:
    """The work: train stack `number`, and write its result."""

    def __init__(self, folder: Path, schedule: Schedule, device: str):
        self._folder, self._schedule, self._device = folder, asdict(schedule), device
        self._features: np.ndarray | None = None

    def __call__(self, number: int, advance: Advance) -> None:
        folder = self._folder
        if self._features is None:
            self._features = read_arrays(folder / "features.safetensors")["features"]
        tasks = _unpacked(read_arrays(folder / f"stack-{number}.safetensors"))
        trained = train_stacks(
            self._features,
            {number: tasks},
            Schedule(**self._schedule),
            torch.device(self._device),
            PartTask(advance),
            folder / f"stack-{number}.checkpoint",
        )
        arrays = {"losses": trained.losses, "zero": trained.zero}
        for g, (weights, biases) in enumerate(trained.nets[0]):
            for layer, (weight, bias) in enumerate(zip(weights, biases)):
                arrays[f"{g}.{layer}.weight"] = np.ascontiguousarray(weight)
                arrays[f"{g}.{layer}.bias"] = np.ascontiguousarray(bias)
        write_arrays(_result(folder, number), arrays)


def _result(folder: Path, number: int) -> Path:
    return folder / f"stack-{number}.trained"


def _packed(tasks: Sequence[GroupedTask]) -> dict[str, np.ndarray]:
    """The arrays of some tasks under names."""
    return {
        f"{g}.{name}": array
        for g, task in enumerate(tasks)
        for name, array in vars(task).items()
        if array is not None
    }


def _unpacked(arrays: Mapping[str, np.ndarray]) -> list[GroupedTask]:
    """The tasks that `_packed` wrote."""
    found: dict[int, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        g, _, field = name.partition(".")
        found.setdefault(int(g), {})[field] = array
    return [GroupedTask(**found[g]) for g in sorted(found)]


def _read_result(folder: Path, number: int) -> TrainedStacks:
    arrays = read_arrays(_result(folder, number))
    count = 1 + max(int(name.partition(".")[0]) for name in arrays if "." in name)
    layers = sum(name.startswith("0.") for name in arrays) // 2
    nets = [
        (
            [arrays[f"{g}.{layer}.weight"] for layer in range(layers)],
            [arrays[f"{g}.{layer}.bias"] for layer in range(layers)],
        )
        for g in range(count)
    ]
    return TrainedStacks([nets], arrays["losses"], arrays["zero"])


def _joined(parts: Sequence[TrainedStacks]) -> TrainedStacks:
    return TrainedStacks(
        [nets for part in parts for nets in part.nets],
        np.concatenate([part.losses for part in parts], axis=2),
        np.concatenate([part.zero for part in parts], axis=1),
    )
