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
    fold, standard = table.fold, table.standard
    displaced = session.added_displacements
    more = None if displaced is None else table.added  # (R,X)
    training = np.setdiff1d(np.arange(len(standard)), validation_poses(len(standard), schedule))
    targets = () if displaced is None else tasks.project(displaced)
    share = session.config.added_share
    copies = 0 if more is None else max(1, round(share * len(standard) / len(more)))

    def with_added(rows: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Rows (T,n), then all copies of those of range-of-motion poses (R,n): float32."""
        return np.concatenate([rows, np.tile(own, (copies, 1))]).astype(np.float32)

    outputs = tasks.outputs
    grouped: list[GroupedTask] = []
    written: list[np.ndarray] = []
    linear_maps: list[Net] = []
    for task, numbers in enumerate(outputs):
        if not len(numbers):
            continue
        inputs, target = tasks.inputs[task], tasks.targets[task]
        own = target[:0] if more is None else targets[task]
        residual = target
        if session.config.linear:
            x, y = standard[training][:, inputs], target[training]
            if more is not None:
                x, y = with_added(x, more[:, inputs]), with_added(y, own)
            weight, bias = ridge_regression(x, y)
            linear_maps.append(fold(inputs, [weight], [bias], numbers, schedule.activation))
            residual = target - standard[:, inputs] @ weight.T - bias
            if more is not None:
                own = own - more[:, inputs] @ weight.T - bias
        residual = np.ascontiguousarray(residual, np.float32)
        if more is not None:
            residual = with_added(residual, own)
        grouped.append(GroupedTask(inputs, residual, tasks.loss_map, tasks.beyond))
        written.append(numbers)
    if more is not None:
        standard = with_added(standard, more)
        schedule = replace(schedule, added=copies * len(more))
    checkpoint = session.checkpoint(suffix)
    trained = train(standard, grouped, schedule, session.progress, checkpoint)
    nets = [
        fold(task.inputs, weights, biases, numbers, schedule.activation)
        for task, (weights, biases), numbers in zip(grouped, trained.nets, written)
    ]
    return TrainedNets(
        (*nets, *linear_maps), tuple(outputs), trained.training_curve, trained.validation_curve
    )
