"""The trainer shared by the learned methods: Adam or plain SGD, a learning rate that falls,
checkpoints, and the same result every time.

Every epoch draws its order from (seed, epoch), so a run that was stopped and resumed ends with the
same bytes as one that was not.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from understudy.core.errors import FileError, InputError
from understudy.core.progress import Progress
from understudy.io.atomic_write import atomic_write
from understudy.training.grouped import GroupedTask, Stack, stack_order

_CHECKPOINT_EVERY_S = 30.0
_STEPS_BEFORE_RECORDING = 3  # libraries set themselves up in the first ones
_WIDE = 512


@dataclass(frozen=True)
class Schedule:
    """How to train.

    hidden               widths of the hidden layers
    activation           tanh, relu or gelu
    epochs               passes over the training poses
    batch_size           poses per step
    learning_rate        initial learning rate; Adam's decays to zero along a cosine, SGD's as
                         1 / (1 + 1e-6 steps)
    loss                 l2, l1, or mixed (their sum)
    optimizer            adam, or sgd (no momentum; the loss is then the mean over outputs, as in
                         the differential paper)
    weight_decay         decoupled: each step shrinks the weights by learning_rate times this
    validation_fraction  fraction of the poses that are kept out of training, to measure the error
    twins                the second half of the poses are mirror images of the first; a pose and
                         its image are both training poses or both validation poses
    seed                 seed of the initial weights, the order of poses and the validation poses
    device               cpu, cuda, cuda:N, or auto (a GPU where torch finds one)
    """

    hidden: tuple[int, ...] = (128, 128)
    activation: str = "tanh"
    epochs: int = 150
    batch_size: int = 256
    learning_rate: float = 0.005
    loss: str = "l2"
    optimizer: str = "adam"
    weight_decay: float = 0.0
    validation_fraction: float = 0.05
    twins: bool = False
    seed: int = 0
    device: str = "auto"


@dataclass(frozen=True)
class Trained:
    """Frozen weights per task, in the order given, and the loss curves (relative to predicting
    zero; 1 is "learned nothing").
    """

    nets: list[tuple[list[np.ndarray], list[np.ndarray]]]
    training_curve: np.ndarray
    validation_curve: np.ndarray


def pick_device(name: str) -> torch.device:
    """`auto` is a GPU where torch finds one; asking for one that is not there is an error."""
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
) -> Trained:
    """Train every task's net at once. features (T,X) float32, standardised; tasks as in
    `GroupedTask`.

    checkpoint  file to keep the state in; it stays when training ends (delete it once the result is
                safe), and a run of the same data and schedule
                goes on from it
    """
    device = pick_device(schedule.device)
    if not tasks:
        return Trained([], np.zeros(0), np.zeros(0))
    generator = torch.Generator().manual_seed(schedule.seed)
    everything = torch.as_tensor(features, dtype=torch.float32, device=device)
    order = (
        stack_order(tasks) if device.type == "cpu" else stack_order(tasks, fill=0.0)
    )  # a GPU pads sooner than it launches another product
    stacks = [
        Stack(
            [tasks[g] for g in members], everything, schedule.hidden, schedule.activation, generator
        )
        for members in order
    ]
    aside = validation_poses(len(features), schedule)
    kept = torch.as_tensor(np.setdiff1d(np.arange(len(features)), aside), device=device)
    aside = torch.as_tensor(aside, device=device)
    parameters = [p for stack in stacks for p in stack.parameters()]
    optimizer = _optimizer(parameters, schedule, device)
    run = _Run(stacks, optimizer, checkpoint, _fingerprint(features, tasks, schedule))
    curves = run.resume()
    take = _Steps(stacks, optimizer, schedule, device)
    nothing, nothing_seen = (
        _loss_of_nothing(stacks, poses, schedule.loss) for poses in (kept, aside)
    )
    with (
        progress.task(f"training {len(tasks)} networks", schedule.epochs) as bar,
        _quick_products(schedule, device),
    ):
        bar.advance(len(curves))
        try:
            for epoch in range(len(curves), schedule.epochs):
                loss = _epoch(take, kept, len(tasks), schedule, epoch) / nothing
                seen = (
                    _evaluate(stacks, aside, schedule.loss) / nothing_seen
                    if len(aside)
                    else float("nan")
                )
                curves = [*curves, (loss, seen)]
                bar.advance()
                left = max(seen if len(aside) else loss, 0)
                bar.note(
                    f"left to learn: "
                    f"{100 * (math.sqrt(left) if schedule.loss == 'l2' else left):.1f} % of the "
                    f"motion"
                )
                run.epoch_done(curves)
        finally:
            # Interrupted or finished: the last whole epoch is kept, so that nothing after training
            # can lose it.
            run.write()
    nets: list = [None] * len(tasks)
    for members, stack in zip(order, stacks):
        for g, frozen in zip(members, stack.frozen()):
            nets[g] = frozen
    curve = np.array(curves, dtype=np.float64).reshape(-1, 2)
    return Trained(nets, curve[:, 0], curve[:, 1])


def _optimizer(parameters, schedule: Schedule, device: torch.device) -> torch.optim.Optimizer:
    if schedule.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=schedule.learning_rate, weight_decay=schedule.weight_decay, fused=True
        )
    kind = torch.optim.AdamW if schedule.weight_decay else torch.optim.Adam
    options = {"fused": True, "capturable": device.type == "cuda"}
    return kind(
        parameters,
        lr=schedule.learning_rate,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=schedule.weight_decay,
        **options,
    )


def _rate(schedule: Schedule, step: int, all_steps: int) -> float:
    if schedule.optimizer == "sgd":
        return schedule.learning_rate / (1 + 1e-6 * step)
    return 0.5 * schedule.learning_rate * (1 + math.cos(math.pi * step / all_steps))


def validation_poses(count: int, schedule: Schedule) -> np.ndarray:
    """The poses kept aside to measure, increasing; none where too few would be left."""
    if schedule.twins:
        half = validation_poses(count // 2, replace(schedule, twins=False))
        return np.concatenate([half, half + count // 2])
    wanted = round(schedule.validation_fraction * count)
    return (
        np.sort(np.random.default_rng([schedule.seed, 1]).permutation(count)[:wanted])
        if wanted and count - wanted >= 1
        else np.zeros(0, np.int64)
    )


class _Steps:
    """Steps of training; `loss` gathers what they leave where it is, so that no step waits for the
    one before.

    A GPU is done with small products sooner than the next is launched. There a step is recorded
    once per size of batch, and played again.
    """

    def __init__(self, stacks, optimizer, schedule: Schedule, device: torch.device):
        self._stacks, self._optimizer, self._schedule = stacks, optimizer, schedule
        self.loss = torch.zeros((), dtype=torch.float64, device=device)
        self._recorded: dict[int, tuple[torch.Tensor, torch.cuda.CUDAGraph]] = {}
        self._played: Counter[int] = Counter()
        if device.type == "cuda":
            self._aside = torch.cuda.Stream(device)
            self._rate = torch.zeros((), device=device)
            for group in optimizer.param_groups:
                group["lr"] = self._rate

    def __call__(self, batch: torch.Tensor, rate: float) -> None:
        """One step on the poses `batch` (n,)."""
        if batch.device.type != "cuda":
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            self._step(batch)
            return
        self._rate.fill_(rate)
        size = len(batch)
        self._played[size] += 1
        if self._played[size] <= _STEPS_BEFORE_RECORDING:
            self._aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._aside):
                self._step(batch)
            torch.cuda.current_stream().wait_stream(self._aside)
            return
        if size not in self._recorded:
            poses, graph = batch.clone(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._step(poses)
            self._recorded[size] = poses, graph
        poses, graph = self._recorded[size]
        poses.copy_(batch)
        graph.replay()

    def _step(self, batch: torch.Tensor) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        for stack in (
            self._stacks
        ):  # stacks share no parameters, so each one's graph is freed before the next is built
            loss = stack.loss(batch, self._schedule.loss)
            (loss / stack.output_width if self._schedule.optimizer == "sgd" else loss).backward()
            self.loss += loss.detach().double() * len(batch)
        self._optimizer.step()


def _epoch(take: _Steps, kept: torch.Tensor, nets: int, schedule: Schedule, epoch: int) -> float:
    shuffle = np.random.default_rng([schedule.seed, 2, epoch]).permutation(len(kept))
    batches = kept[torch.as_tensor(shuffle, device=kept.device)].split(schedule.batch_size)
    take.loss.zero_()
    for step, batch in enumerate(batches):
        take(batch, _rate(schedule, epoch * len(batches) + step, schedule.epochs * len(batches)))
    return float(take.loss) / (len(kept) * nets)


@contextlib.contextmanager
def _quick_products(schedule: Schedule, device: torch.device):
    """Wide nets on a GPU multiply with 10 bits of mantissa, several times as fast; narrow ones
    would gain nothing.
    """
    before = torch.get_float32_matmul_precision()
    if device.type == "cuda" and max(schedule.hidden) >= _WIDE:
        torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@torch.no_grad()
def _evaluate(stacks, poses, loss: str) -> float:
    return float(sum(stack.loss(poses, loss).double() for stack in stacks)) / sum(
        len(stack.x) for stack in stacks
    )


def _loss_of_nothing(stacks, poses: torch.Tensor, loss: str) -> float:
    """What predicting zero leaves, per net: by how targets are scaled, 1 where errors are
    squared.
    """
    if loss == "l2" or not len(poses):
        return 1.0
    return (
        sum(stack.loss_of_nothing(poses, loss) for stack in stacks)
        / sum(len(stack.x) for stack in stacks)
        or 1.0
    )


def _fingerprint(features: np.ndarray, tasks: Sequence[GroupedTask], schedule: Schedule) -> str:
    """Tells whether a checkpoint belongs to this very run."""
    digest = sha256(json.dumps(asdict(schedule), sort_keys=True).encode())
    for array in (
        features,
        *(
            part
            for task in tasks
            for part in (task.inputs, task.targets, task.measure)
            if part is not None
        ),
    ):
        digest.update(str(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class _Run:
    """State on disk while training: weights, Adam's moments, and the curves so far."""

    def __init__(self, stacks, optimizer, path: Path | None, fingerprint: str):
        self._clock = time.monotonic
        self._written = self._clock()
        self._state: tuple[list, dict] | None = None
        self.stacks, self.optimizer, self.path, self.fingerprint = (
            stacks,
            optimizer,
            path,
            fingerprint,
        )

    def resume(self) -> list[tuple[float, float]]:
        """The curves of the epochs already done, with weights and optimizer set to where they were;
        empty for a new run.
        """
        if self.path is None or not self.path.exists():
            return []
        try:
            with safe_open(str(self.path), framework="pt") as opened:
                about = json.loads(opened.metadata()["checkpoint"])
                if about["fingerprint"] != self.fingerprint:
                    return []
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
        except (SafetensorError, KeyError, TypeError, ValueError, OSError):
            return []  # damaged: start again rather than trust it
        for number, parameter in enumerate(self._parameters()):
            parameter.data.copy_(tensors[f"weight.{number}"])
            if f"step.{number}" in tensors:  # SGD keeps nothing
                self.optimizer.state[parameter] = {
                    "step": tensors[f"step.{number}"].to(parameter.device),
                    "exp_avg": tensors[f"first.{number}"].to(parameter.device),
                    "exp_avg_sq": tensors[f"second.{number}"].to(parameter.device),
                }
        return [tuple(pair) for pair in about["curves"]]

    def epoch_done(self, curves) -> None:
        """Remember the state at the end of an epoch, and write it now and then. A stop inside the
        next epoch goes back to here.
        """
        if self.path is None:
            return
        tensors = {}
        for number, parameter in enumerate(self._parameters()):
            state = self.optimizer.state[parameter]
            parts = {"weight": parameter.data}
            if "exp_avg" in state:
                parts |= {
                    "step": state["step"],
                    "first": state["exp_avg"],
                    "second": state["exp_avg_sq"],
                }
            tensors |= {
                f"{name}.{number}": part.detach().to("cpu", copy=True).contiguous()
                for name, part in parts.items()
            }
        self._state = (curves, tensors)
        if self._clock() - self._written > _CHECKPOINT_EVERY_S:
            self.write()

    def write(self) -> None:
        """Put what was remembered on disk."""
        if self._state is None:
            return
        curves, tensors = self._state
        about = json.dumps({"fingerprint": self.fingerprint, "curves": curves})
        self._written = self._clock()
        # A disk too full for a checkpoint must not cost the training itself.
        with contextlib.suppress(FileError), atomic_write(self.path) as part:
            part.write_bytes(save(tensors, metadata={"checkpoint": about}))

    def _parameters(self):
        return [p for stack in self.stacks for p in stack.parameters()]
