"""Training on a cluster: every stack of networks is a part of the job.

Files in the cluster's folder connect driver and workers. They are named after a fingerprint of the
data and the schedule:

    features.safetensors      (T,X), written by the driver
    stack-K.safetensors       inputs and targets of the networks of stack K, written by the driver
    stack-K.checkpoint        state of training, written by a worker every half minute
    stack-K.trained           the result, written by a worker

A stack whose worker died continues from its checkpoint on another worker. A driver that is started
again finds the results and the checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from understudy.io.array_file import read_arrays, write_arrays
from understudy.system.cluster import Advance, PartTask, Workers
from understudy.system.progress import Task
from understudy.training.checkpoint import run_fingerprint
from understudy.training.grouped import GroupedTask
from understudy.training.schedule import Schedule
from understudy.training.stack_training import TrainedStacks, train_stacks

_DIGITS = 24  # of the fingerprint


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
