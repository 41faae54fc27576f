"""Sets of networks trained together: a ridge regression, and a small network for its residual.

The linear part costs one product, is exact where the rig is linear, and extrapolates sensibly. The
network only has to learn what is not linear. Several `Net`s may write the same coefficients, so
both parts stay side by side in the deformer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from understudy.core.networks import Net, NetGroups
from understudy.methods.correctives.features import FeatureTable
from understudy.methods.correctives.ridge import ridge_regression
from understudy.methods.correctives.session import FitSession
from understudy.training.held_out import validation_poses
from understudy.training.schedule import Schedule


@dataclass(frozen=True, eq=False)
class NetTasks:
    """What a set of networks learns.

    inputs        (n,) the features that each network reads
    targets       (T,P) what each network predicts
    project       displacements (R,V,3) -> the targets (R,P) of each network
    first_output  number of the first coefficient; those of all networks are consecutive
    loss_map      (Q,P), for a single network: the loss is taken after this map
    beyond        (T,Q), what the targets leave of the truth after this map
    """

    inputs: Sequence[np.ndarray]
    targets: Sequence[np.ndarray]
    project: Callable[[np.ndarray], Sequence[np.ndarray]]
    first_output: int = 0
    loss_map: np.ndarray | None = None
    beyond: np.ndarray | None = None

    @property
    def outputs(self) -> list[np.ndarray]:
        """The coefficient numbers (P,) of each network."""
        ends = self.first_output + np.cumsum([rows.shape[1] for rows in self.targets], dtype=int)
        return [
            np.arange(end - rows.shape[1], end) for end, rows in zip(ends.tolist(), self.targets)
        ]


@dataclass(frozen=True, eq=False)
class TrainedNets:
    """A set of trained networks that read raw features.

    nets     the networks in the order of the targets, then the linear maps
    outputs  the coefficient numbers (P,) of each target
    training_curve, validation_curve  (epochs,) losses
    """

    nets: tuple[Net, ...]
    outputs: tuple[np.ndarray, ...]
    training_curve: np.ndarray
    validation_curve: np.ndarray

    def predict(self, table: FeatureTable, poses: np.ndarray) -> np.ndarray:
        """The coefficients for some poses (t,) of the table: (t,N); `outputs` index its columns."""
        count = max((int(numbers[-1]) + 1 for numbers in self.outputs if len(numbers)), default=0)
        return NetGroups(self.nets, table.count, count)(table.raw(poses))


def train_networks(
    session: FitSession,
    table: FeatureTable,
    tasks: NetTasks,
    schedule: Schedule | None = None,
    suffix: str = "",
) -> TrainedNets:
    """Train one network per target; a target without columns (nothing moves) gets none.

    schedule  None: that of the session
    suffix    of the checkpoint's name
    """
    # Needs torch, an optional dependency.
    from understudy.training.grouped import GroupedTask
    from understudy.training.trainer import train

    schedule = session.schedule() if schedule is None else schedule
    standard, targets = table.standard, list(tasks.targets)
    if table.added is not None and session.added_displacements is not None:
        # Range-of-motion poses follow, so many times that they have their share of the loss.
        share = session.config.added_share
        copies = max(1, round(share * len(standard) / len(table.added)))
        more = lambda own: np.tile(own, (copies, 1)).astype(np.float32)
        standard = np.concatenate([standard, more(table.added)])
        added = tasks.project(session.added_displacements)
        targets = [np.concatenate([rows, more(own)]) for rows, own in zip(targets, added)]
        schedule = replace(schedule, added=copies * len(table.added))
    training = np.setdiff1d(np.arange(len(standard)), validation_poses(len(standard), schedule))
    outputs = tasks.outputs
    grouped: list[GroupedTask] = []
    written: list[np.ndarray] = []
    linear_maps: list[Net] = []
    for inputs, target, numbers in zip(tasks.inputs, targets, outputs):
        if not len(numbers):
            continue
        if session.config.linear:
            weight, bias = ridge_regression(standard[training][:, inputs], target[training])
            linear_maps.append(table.fold(inputs, [weight], [bias], numbers, schedule.activation))
            target = target - standard[:, inputs] @ weight.T - bias
        residual = np.ascontiguousarray(target, np.float32)
        grouped.append(GroupedTask(inputs, residual, tasks.loss_map, tasks.beyond))
        written.append(numbers)
    checkpoint = session.checkpoint(suffix)
    trained = train(standard, grouped, schedule, session.progress, checkpoint)
    nets = [
        table.fold(task.inputs, weights, biases, numbers, schedule.activation)
        for task, (weights, biases), numbers in zip(grouped, trained.nets, written)
    ]
    return TrainedNets(
        (*nets, *linear_maps), tuple(outputs), trained.training_curve, trained.validation_curve
    )
