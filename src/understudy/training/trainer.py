"""Trains the networks of a method together: Adam or SGD, decaying learning rate, checkpoints.

Every epoch draws its order from (seed, epoch), so an interrupted and resumed run gives the same
bytes as an uninterrupted one.

On a GPU, small products finish before the next one is launched. There a step is recorded as a CUDA
graph once per batch size and replayed. Several runs may train at once in threads of one process:
each has its own stream, and they fill the GPU better than one after the other.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from understudy.core.errors import InputError
from understudy.core.progress import Progress
from understudy.training.checkpoint import Checkpoint, run_fingerprint
from understudy.training.grouped import GroupedTask, Stack, stack_order
from understudy.training.schedule import Schedule, validation_poses
from understudy.training.torch_threads import torch_threads

_STEPS_BEFORE_RECORDING = 3  # libraries initialise themselves in the first steps
_WIDE = 512  # units of a layer from which reduced precision pays off on a GPU
_RECORDING = threading.Lock()  # one graph is recorded at a time


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
    with torch_threads(), _own_stream(device), _reduced_precision(schedule, device):
        return _train(features, tasks, schedule, progress, checkpoint, device)


def _train(
    features: np.ndarray,
    tasks: Sequence[GroupedTask],
    schedule: Schedule,
    progress: Progress,
    checkpoint: Path | None,
    device: torch.device,
) -> TrainingResult:
    generator = torch.Generator().manual_seed(schedule.seed)
    everything = torch.as_tensor(features, dtype=torch.float32, device=device)
    # On a GPU, padding costs less than launching another product.
    order = stack_order(tasks) if device.type == "cpu" else stack_order(tasks, fill=0.0)
    stacks = [
        Stack(
            [tasks[g] for g in members],
            everything,
            schedule.hidden,
            schedule.activation,
            generator,
            schedule.target_scale,
        )
        for members in order
    ]
    held_out = validation_poses(len(features), schedule)
    training = torch.as_tensor(np.setdiff1d(np.arange(len(features)), held_out), device=device)
    validation = torch.as_tensor(held_out, device=device)
    if schedule.patience is not None and not len(held_out):
        raise InputError(
            "patience: early stopping needs validation poses; raise validation_fraction or give "
            "more poses"
        )
    parameters = [p for stack in stacks for p in stack.parameters()]
    optimizer = _optimizer(parameters, schedule, device)
    best = _BestEpochs(stacks) if schedule.patience is not None else None
    state = Checkpoint(
        parameters,
        optimizer,
        checkpoint,
        run_fingerprint(features, tasks, schedule),
        [] if best is None else best.state,
    )
    curves = state.resume()
    take_step = _Steps(stacks, optimizer, schedule, device)
    training_zero, validation_zero = (
        _loss_of_zero(stacks, poses, schedule) for poses in (training, validation)
    )
    with progress.task(f"training {len(tasks)} networks", schedule.epochs) as task:
        task.advance(len(curves))
        try:
            for epoch in range(len(curves), schedule.epochs):
                if best is not None and best.stale_epochs(epoch) >= (schedule.patience or 0):
                    task.advance(schedule.epochs - epoch)
                    break
                loss = _epoch(take_step, training, len(tasks), schedule, epoch) / training_zero
                unseen = float("nan")
                if len(validation):
                    losses = _evaluate(stacks, validation, schedule.loss)
                    unseen = _mean(losses) / validation_zero
                    if best is not None:
                        best.update(losses, epoch)
                curves = [*curves, (loss, unseen)]
                task.advance()
                left = max(unseen if len(validation) else loss, 0)
                left = math.sqrt(left) if schedule.loss == "l2" else left
                task.note(f"error: {100 * left:.1f} % of the motion")
                state.keep(curves)
            state.keep(curves, last=True)
        finally:
            # Interrupted or finished: the last state that was kept is written, so that a failure
            # after training does not lose it.
            state.write()
    if best is not None:
        best.restore()
    nets: dict[int, tuple[list[np.ndarray], list[np.ndarray]]] = {}
    for members, stack in zip(order, stacks):
        nets.update(zip(members, stack.frozen()))
    curve = np.array(curves, dtype=np.float64).reshape(-1, 2)
    return TrainingResult([nets[g] for g in range(len(tasks))], curve[:, 0], curve[:, 1])


class _BestEpochs:
    """The weights that each network had after its best epoch on the validation poses.

    state  tensors that a checkpoint keeps: the last epoch that improved a network, and of each
           stack the lowest losses and the weights
    """

    def __init__(self, stacks: Sequence[Stack]):
        self._stacks = stacks
        device = stacks[0].x.device
        self._improved = torch.zeros((), dtype=torch.float64)
        self._losses = [
            torch.full((len(stack.x),), math.inf, dtype=torch.float64, device=device)
            for stack in stacks
        ]
        self._weights = [[p.detach().clone() for p in stack.parameters()] for stack in stacks]
        self.state = [self._improved, *self._losses, *(w for part in self._weights for w in part)]

    def update(self, losses: Sequence[torch.Tensor], epoch: int) -> None:
        """Keep the weights of the networks that improved; losses (G,) of each stack."""
        improved = False
        for stack, now, lowest, kept in zip(
            self._stacks, losses, self._losses, self._weights, strict=True
        ):
            better = now < lowest
            if bool(better.any()):
                improved = True
                lowest.copy_(torch.where(better, now, lowest))
                for parameter, copy in zip(stack.parameters(), kept, strict=True):
                    copy.copy_(torch.where(better[:, None, None], parameter.detach(), copy))
        if improved:
            self._improved.fill_(epoch + 1)

    def stale_epochs(self, epoch: int) -> int:
        """The number of epochs since a network improved."""
        return epoch - int(self._improved)

    def restore(self) -> None:
        """Give every network the weights of its best epoch."""
        for stack, kept in zip(self._stacks, self._weights, strict=True):
            for parameter, copy in zip(stack.parameters(), kept, strict=True):
                parameter.data.copy_(copy)


def _optimizer(
    parameters: list[torch.nn.Parameter], schedule: Schedule, device: torch.device
) -> torch.optim.Optimizer:
    if schedule.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True
        )
    kind = torch.optim.AdamW if schedule.weight_decay else torch.optim.Adam
    return kind(
        parameters,
        lr=schedule.learning_rate,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=schedule.weight_decay,
        fused=True,
        capturable=device.type == "cuda",
    )


class _Steps:
    """Takes training steps; `loss` sums their losses on the device, so that no step waits."""

    def __init__(
        self,
        stacks: Sequence[Stack],
        optimizer: torch.optim.Optimizer,
        schedule: Schedule,
        device: torch.device,
    ):
        self._stacks, self._optimizer, self._schedule = stacks, optimizer, schedule
        self.loss = torch.zeros((), dtype=torch.float64, device=device)
        self._recorded: dict[int, tuple[torch.Tensor, torch.cuda.CUDAGraph]] = {}
        self._taken: Counter[int] = Counter()
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)
            self._rate = torch.zeros((), device=device)
            for group in optimizer.param_groups:
                group["lr"] = self._rate

    def __call__(self, batch: torch.Tensor, learning_rate: float) -> None:
        """One step on the poses `batch` (n,)."""
        if batch.device.type != "cuda":
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate
            self._step(batch)
            return
        self._rate.fill_(learning_rate)
        size = len(batch)
        self._taken[size] += 1
        if self._taken[size] <= _STEPS_BEFORE_RECORDING:
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                self._step(batch)
            torch.cuda.current_stream().wait_stream(self._stream)
            return
        if size not in self._recorded:
            poses, graph = batch.clone(), torch.cuda.CUDAGraph()
            # Runs in other threads may allocate memory meanwhile. The stream must be this run's:
            # one thread of torch works out all gradients of a device, and cuBLAS has a workspace
            # per thread and stream, so graphs recorded on one stream would write into the same.
            with (
                _RECORDING,
                torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"),
            ):
                self._step(poses)
            self._recorded[size] = poses, graph
        poses, graph = self._recorded[size]
        poses.copy_(batch)
        graph.replay()

    def _step(self, batch: torch.Tensor) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        # Stacks share no parameters, so each one's graph is freed before the next is built.
        for stack in self._stacks:
            loss = stack.loss(batch, self._schedule.loss)
            (loss / stack.output_width if self._schedule.optimizer == "sgd" else loss).backward()
            self.loss += loss.detach().double() * len(batch)
        self._optimizer.step()


def _epoch(
    take_step: _Steps, training: torch.Tensor, net_count: int, schedule: Schedule, epoch: int
) -> float:
    """Train one epoch on the poses `training` (n,); return the mean loss per pose and network."""
    shuffle = np.random.default_rng([schedule.seed, 2, epoch]).permutation(len(training))
    batches = training[torch.as_tensor(shuffle, device=training.device)].split(schedule.batch_size)
    take_step.loss.zero_()
    for number, batch in enumerate(batches):
        step, step_count = epoch * len(batches) + number, schedule.epochs * len(batches)
        take_step(batch, schedule.learning_rate_at(step, step_count))
    return float(take_step.loss) / (len(training) * net_count)


@contextlib.contextmanager
def _own_stream(device: torch.device) -> Iterator[None]:
    """Run on a stream of this run's own, where `device` is a GPU."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        yield
    stream.synchronize()


@contextlib.contextmanager
def _reduced_precision(schedule: Schedule, device: torch.device) -> Iterator[None]:
    """Let wide networks on a GPU multiply in TF32 (10 bits of mantissa), several times as fast.

    Narrow networks are not faster that way and keep full precision.
    """
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda" and max(schedule.hidden) >= _WIDE:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@torch.no_grad()
def _evaluate(stacks: Sequence[Stack], poses: torch.Tensor, loss: str) -> list[torch.Tensor]:
    """The mean loss per pose of each network: (G,) float64 of each stack."""
    return [stack.losses(poses, loss).double() for stack in stacks]


def _mean(losses: Sequence[torch.Tensor]) -> float:
    """The mean over all networks."""
    return float(torch.cat(list(losses)).mean())


def _loss_of_zero(stacks: Sequence[Stack], poses: torch.Tensor, schedule: Schedule) -> float:
    """The mean loss of predicting zero, which curves are relative to; 1 for scaled l2 targets."""
    if (schedule.loss == "l2" and schedule.target_scale is None) or not len(poses):
        return 1.0
    return (
        sum(stack.loss_of_zero(poses, schedule.loss) for stack in stacks)
        / sum(len(stack.x) for stack in stacks)
        or 1.0
    )
