"""Trains some stacks of networks: Adam or SGD, decaying learning rate, checkpoints.

Every epoch draws its order from (seed, epoch), so an interrupted and resumed run gives the same
bytes as an uninterrupted one. Stacks share nothing. Several are trained side by side, each with
products of one thread: that gives the same bytes with any number of threads or machines, and
threads meet once an epoch instead of at every product. A single stack has products of several
threads: with another number of them the last bits of its weights differ.

On a GPU, small products finish before the next one is launched. There a step is recorded as a CUDA
graph once per batch size and replayed. Several runs may train at once in threads of one process:
each has its own stream, and they fill the GPU better than one after the other.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from understudy.system import tasks, threads
from understudy.system.errors import InputError
from understudy.system.progress import Task
from understudy.training.checkpoint import Checkpoint, run_fingerprint
from understudy.training.grouped import GroupedTask, Stack
from understudy.training.held_out import validation_poses
from understudy.training.schedule import Schedule

_STEPS_BEFORE_RECORDING = 3  # libraries initialise themselves in the first steps
_WIDE = 512  # units of a layer from which reduced precision pays off on a GPU
_RECORDING = threading.Lock()  # one graph is recorded at a time
_SEED_STEP = 1_000_003  # between the seeds of two stacks

Layers = tuple[list[np.ndarray], list[np.ndarray]]  # weights (out,in) and biases (out,)


@dataclass(frozen=True, eq=False)
class TrainedStacks:
    """Some stacks, trained.

    nets    the layers of each network of each stack
    losses  (epochs,2,S) sums over the networks and poses of each stack: of training, and the mean
            over the validation poses times their networks; NaN where there are none
    zero    (2,S) the same of predicting zero
    """

    nets: list[list[Layers]]
    losses: np.ndarray
    zero: np.ndarray


def train_stacks(
    features: np.ndarray,
    stacks: Mapping[int, Sequence[GroupedTask]],
    schedule: Schedule,
    device: torch.device,
    task: Task,
    checkpoint: Path | None = None,
) -> TrainedStacks:
    """Train some stacks, by number, on standardised features (T,X); `checkpoint` as in `train`."""
    one = 1 if len(stacks) > 1 else None
    with torch_threads(one), _own_stream(device), _reduced_precision(schedule, device):
        return _train(features, stacks, schedule, device, task, checkpoint)


def _train(
    features: np.ndarray,
    given: Mapping[int, Sequence[GroupedTask]],
    schedule: Schedule,
    device: torch.device,
    task: Task,
    checkpoint: Path | None,
) -> TrainedStacks:
    everything = torch.as_tensor(features, dtype=torch.float32, device=device)
    stacks = [
        Stack(
            learned,
            everything,
            schedule.hidden,
            schedule.activation,
            torch.Generator().manual_seed(schedule.seed + _SEED_STEP * number),
            schedule.target_scale,
        )
        for number, learned in given.items()
    ]
    every_task = [one for learned in given.values() for one in learned]
    held_out = validation_poses(len(features), schedule)
    training = torch.as_tensor(np.setdiff1d(np.arange(len(features)), held_out), device=device)
    validation = torch.as_tensor(held_out, device=device)
    if schedule.patience is not None and not len(held_out):
        raise InputError(
            "patience: early stopping needs validation poses; raise validation_fraction or give "
            "more poses"
        )
    steps = [Steps(stack, schedule, device) for stack in stacks]
    best = _BestEpochs(stacks) if schedule.patience is not None else None
    state = Checkpoint(
        [(p, step.optimizer) for step in steps for p in step.stack.parameters()],
        checkpoint,
        run_fingerprint(features, every_task, schedule),
        [] if best is None else best.state,
    )
    curves = state.resume()
    one_epoch = partial(_epoch, training, validation, schedule)
    # A single stack has the threads of its products instead.
    run_all = tasks.parallel_map if len(stacks) > 1 and device.type == "cpu" else map
    zero = np.array(
        [_losses_of_zero(stacks, poses, schedule) for poses in (training, validation)], np.float64
    )
    task.advance(len(curves) * len(stacks))
    try:
        for epoch in range(len(curves), schedule.epochs):
            if best is not None and best.stale_epochs(epoch) >= (schedule.patience or 0):
                task.advance((schedule.epochs - epoch) * len(stacks))
                break
            found = list(run_all(partial(one_epoch, epoch), steps))
            if best is not None:
                best.update([losses for _, losses in found], epoch)
            held = [float(losses.sum()) if len(validation) else math.nan for _, losses in found]
            curves = [*curves, [[seen for seen, _ in found], held]]
            task.advance(len(stacks))
            seen, unseen = relative_losses(np.array(curves[-1]), zero)
            task.figures(epoch=epoch + 1, training_loss=seen, validation_loss=unseen)
            task.note(_error_text(seen, unseen, schedule))
            state.keep(curves)
        state.keep(curves, last=True)
    finally:
        # Interrupted or finished: the last state that was kept is written, so that a failure
        # after training does not lose it.
        state.write()
    if best is not None:
        best.restore()
    return TrainedStacks(
        [stack.frozen() for stack in stacks],
        np.array(curves, dtype=np.float64).reshape(-1, 2, len(stacks)),
        zero,
    )


def relative_losses(losses: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Sums of all stacks, relative to those of predicting zero: (...,2,S), (2,S) -> (...,2)."""
    whole = zero.sum(axis=-1)
    return losses.sum(axis=-1) / np.where(whole > 0, whole, 1.0)


def _error_text(seen: float, unseen: float, schedule: Schedule) -> str:
    left = max(seen if math.isnan(unseen) else unseen, 0)
    left = math.sqrt(left) if schedule.loss == "l2" else left
    return f"error: {100 * left:.1f} % of the motion"


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


class Steps:
    """Takes the training steps of one stack; `loss` sums their losses on the device."""

    def __init__(self, stack: Stack, schedule: Schedule, device: torch.device):
        self.stack, self._schedule = stack, schedule
        self.optimizer = _optimizer(list(stack.parameters()), schedule, device)
        self.loss = torch.zeros((), dtype=torch.float64, device=device)
        self._recorded: dict[int, tuple[torch.Tensor, torch.cuda.CUDAGraph]] = {}
        self._taken: Counter[int] = Counter()
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)
            self._rate = torch.zeros((), device=device)
            for group in self.optimizer.param_groups:
                group["lr"] = self._rate

    def __call__(self, batch: torch.Tensor, learning_rate: float) -> None:
        """One step on the poses `batch` (n,)."""
        if batch.device.type != "cuda":
            for group in self.optimizer.param_groups:
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
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.stack.loss(batch, self._schedule.loss)
        mean = self._schedule.optimizer == "sgd"
        (loss / self.stack.output_width if mean else loss).backward()
        self.loss += loss.detach().double() * len(batch)
        self.optimizer.step()


def _epoch(
    training: torch.Tensor,
    validation: torch.Tensor,
    schedule: Schedule,
    epoch: int,
    take_step: Steps,
) -> tuple[float, torch.Tensor]:
    """Train a stack for one epoch on the poses `training` (n,).

    Returns the mean loss per pose, and that of each network on the validation poses: (G,) float64.
    """
    if take_step.loss.device.type == "cpu" and tasks.inside():
        torch.set_num_threads(1)  # of this thread
    shuffle = np.random.default_rng([schedule.seed, 2, epoch]).permutation(len(training))
    batches = training[torch.as_tensor(shuffle, device=training.device)].split(schedule.batch_size)
    take_step.loss.zero_()
    for number, batch in enumerate(batches):
        step, step_count = epoch * len(batches) + number, schedule.epochs * len(batches)
        take_step(batch, schedule.learning_rate_at(step, step_count))
    with torch.no_grad():
        unseen = take_step.stack.losses(validation, schedule.loss).double()
    return float(take_step.loss) / len(training), unseen


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
    """Let wide networks multiply in TF32 on a GPU; narrow ones are not faster that way."""
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda" and max(schedule.hidden) >= _WIDE:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _losses_of_zero(
    stacks: Sequence[Stack], poses: torch.Tensor, schedule: Schedule
) -> list[float]:
    """The loss of predicting zero of each stack; scaled l2 targets have 1 for each network."""
    if (schedule.loss == "l2" and schedule.target_scale is None) or not len(poses):
        return [float(len(stack.x)) for stack in stacks]
    return [stack.loss_of_zero(poses, schedule.loss) for stack in stacks]


@contextmanager
def torch_threads(most: int | None = None) -> Iterator[None]:
    """Let torch use as many threads as `understudy.system.threads` says, and at most `most`."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(threads.count(), most or threads.count()))
    try:
        yield
    finally:
        torch.set_num_threads(before)
