"""`Checkpoint`: the state of training on disk, so that an interrupted run continues where it was.

The file holds the weights, Adam's moments, the loss curves, a sum over these, and a fingerprint of
the data and the schedule. A file with another fingerprint, or a damaged one, is ignored.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from understudy.io.atomic_write import atomic_write
from understudy.system.errors import FileError
from understudy.training.grouped import GroupedTask
from understudy.training.schedule import Schedule

_WRITE_EVERY_S = 30.0
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # of Adam, as torch calls them; SGD has none
_VERSION = 3  # of the file and of the stacks; those of other versions are ignored

Curves = list[list[list[float]]]  # of each epoch: training and validation losses of each stack


def run_fingerprint(features: np.ndarray, tasks: Sequence[GroupedTask], schedule: Schedule) -> str:
    """A hash of everything that determines the result of a training run."""
    digest = sha256(json.dumps([_VERSION, asdict(schedule)], sort_keys=True).encode())
    parts = [features]
    for task in tasks:
        parts += [task.inputs, task.targets]
        parts += [part for part in (task.loss_map, task.beyond) if part is not None]
    for array in parts:
        digest.update(str(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class Checkpoint:
    """The state of one training run, kept in memory at the end of each epoch and on disk.

    parameters   of all networks, in a fixed order, each with the optimizer that has its moments
    path         file to use; None: nothing is kept
    fingerprint  of the run, from `run_fingerprint`
    more         further tensors of the state
    """

    def __init__(
        self,
        parameters: Sequence[tuple[torch.nn.Parameter, torch.optim.Optimizer]],
        path: Path | None,
        fingerprint: str,
        more: Sequence[torch.Tensor] = (),
    ):
        self._parameters = parameters
        self._path, self._fingerprint, self._more = path, fingerprint, more
        self._written = time.monotonic()
        self._state: tuple[Curves, dict[str, torch.Tensor]] | None = None

    def resume(self) -> Curves:
        """Restore weights and optimizer; return the curves so far, empty for a new run."""
        if self._path is None or not self._path.exists():
            return []
        try:
            with safe_open(str(self._path), framework="pt") as opened:
                about = json.loads(opened.metadata()["checkpoint"])
                if about["fingerprint"] != self._fingerprint:
                    return []
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
            curves: Curves = about["curves"]
            if about["sum"] != _sum(curves, tensors) or not self._fits(tensors):
                return []
        except (SafetensorError, KeyError, TypeError, ValueError, OSError, RecursionError):
            return []  # damaged: start again
        for number, (parameter, optimizer) in enumerate(self._parameters):
            parameter.data.copy_(tensors[f"weight.{number}"])
            if f"step.{number}" in tensors:
                optimizer.state[parameter] = {
                    name: tensors[f"{name}.{number}"].to(parameter.device) for name in _MOMENTS
                }
        for number, tensor in enumerate(self._more):
            tensor.copy_(tensors[f"more.{number}"])
        return curves

    def _fits(self, tensors: Mapping[str, torch.Tensor]) -> bool:
        """Whether these are the tensors of this run, by name and shape."""
        shapes = {f"more.{number}": tensor.shape for number, tensor in enumerate(self._more)}
        for number, (parameter, _) in enumerate(self._parameters):
            shapes[f"weight.{number}"] = parameter.shape
            if f"step.{number}" in tensors:
                shapes |= {f"{name}.{number}": parameter.shape for name in _MOMENTS}
                shapes[f"step.{number}"] = torch.Size()
        return {name: tensor.shape for name, tensor in tensors.items()} == shapes

    def keep(self, curves: Curves, last: bool = False) -> None:
        """Copy the state at the end of an epoch, and write it if the last write is long ago.

        A run that stops inside the next epoch continues from here. On a GPU a copy takes as long as
        an epoch, so only states that are written are copied there, and the `last` one.
        """
        if self._path is None:
            return
        due = time.monotonic() - self._written > _WRITE_EVERY_S
        if self._parameters[0][0].device.type != "cpu" and not (due or last):
            return
        parts = {f"more.{number}": tensor for number, tensor in enumerate(self._more)}
        for number, (parameter, optimizer) in enumerate(self._parameters):
            parts[f"weight.{number}"] = parameter.data
            state = optimizer.state[parameter]
            parts |= {f"{name}.{number}": state[name] for name in _MOMENTS if name in state}
        copied = lambda part: part.detach().to("cpu", copy=True).contiguous()
        self._state = (curves, {name: copied(part) for name, part in parts.items()})
        if due:
            self.write()

    def write(self) -> None:
        """Write the last state that was kept."""
        if self._state is None or self._path is None:
            return
        curves, tensors = self._state
        total = _sum(curves, tensors)
        about = json.dumps({"fingerprint": self._fingerprint, "curves": curves, "sum": total})
        self._written = time.monotonic()
        # A full disk must not end the training.
        with contextlib.suppress(FileError), atomic_write(self._path) as part:
            part.write_bytes(save(tensors, metadata={"checkpoint": about}))


def _sum(curves: Curves, tensors: Mapping[str, torch.Tensor]) -> str:
    digest = sha256(json.dumps(curves).encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {list(tensors[name].shape)}".encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()
