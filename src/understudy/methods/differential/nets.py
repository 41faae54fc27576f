"""Groups of nets learned together: a linear map by ridge regression, and a small network for what
it leaves.

The linear part costs one product, is exact where the rig is linear, and goes on sensibly outside
the poses seen; the network only has to bend it. `Net`s add into the same coefficients, so both
parts live side by side in the deformer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.core.networks import Net
from understudy.core.progress import Progress
from understudy.methods.differential.features import FeatureTable
from understudy.methods.differential.ridge import ridge_regression
from understudy.training.grouped import GroupedTask
from understudy.training.trainer import Schedule, train, validation_poses


@dataclass(frozen=True, eq=False)
class Learned:
    """nets in the order of the targets (linear ones after the networks); outputs: each target's
    coefficient numbers; the loss curves.
    """

    nets: tuple[Net, ...]
    outputs: tuple[np.ndarray, ...]
    training_curve: np.ndarray
    validation_curve: np.ndarray


def learn(
    table: FeatureTable, inputs: Sequence[np.ndarray], targets: Sequence[np.ndarray],
    first_output: int, schedule: Schedule, linear: bool,
    progress: Progress, checkpoint: Path | None = None, measure: np.ndarray | None = None,
) -> Learned:  # fmt: skip
    """One net per target (T,P), reading the features `inputs` names; coefficients are numbered from
    `first_output` on.

    linear   begin with a ridge regression
    measure  for a single target: the loss is taken after this map (Q,P)
    """
    kept = np.setdiff1d(
        np.arange(len(table.standard)), validation_poses(len(table.standard), schedule)
    )
    outputs = np.split(
        np.arange(first_output, first_output + sum(t.shape[1] for t in targets)),
        np.cumsum([t.shape[1] for t in targets])[:-1],
    )
    tasks, lines, learned = [], [], []
    for columns, target, numbers in zip(inputs, targets, outputs):
        if not len(numbers):  # a region that never moves
            continue
        left = target
        if linear:
            weight, bias = ridge_regression(table.standard[kept][:, columns], target[kept])
            lines.append(_raw(table, columns, [weight], [bias], numbers, schedule.activation))
            left = target - table.standard[:, columns] @ weight.T - bias
        tasks.append(GroupedTask(columns, np.ascontiguousarray(left, np.float32), measure))
        learned.append(numbers)
    trained = train(table.standard, tasks, schedule, progress, checkpoint)
    nets = [
        _raw(table, task.inputs, *net, numbers, schedule.activation)
        for task, net, numbers in zip(tasks, trained.nets, learned)
    ]
    return Learned(
        (*nets, *lines),
        tuple(outputs) if targets else (),
        trained.training_curve,
        trained.validation_curve,
    )


def _raw(
    table: FeatureTable,
    inputs: np.ndarray,
    weights: list[np.ndarray],
    biases: list[np.ndarray],
    outputs: np.ndarray,
    activation: str,
) -> Net:
    """A net of standardised features as one of raw features: the first layer takes up the
    normalisation.
    """
    weights, biases = list(weights), list(biases)
    weights[0] = weights[0] / table.spread[inputs]
    biases[0] = biases[0] - weights[0] @ table.centre[inputs]
    return Net(inputs, tuple(weights), tuple(biases), outputs, activation)
