"""The anchors of a fit: what their networks predict, what they read, and their training.

Each anchor that moves has its own small network (section 3.2.4), which reads only the inputs that
move the anchor.

Letters: T poses, n anchors, m of them that move.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.methods.correctives.features import FeatureTable
from understudy.methods.correctives.networks import NetTasks, TrainedNets, train_networks
from understudy.methods.correctives.session import FitSession
from understudy.methods.correctives.stages import STILL
from understudy.methods.differential.config import DifferentialConfig
from understudy.methods.differential.subspace import Subspace


@dataclass(frozen=True, eq=False)
class AnchorTargets:
    """What the anchor networks predict.

    vertices       (n,) the anchors
    displacements  (T,n,3) of the anchors in every pose, without the mean
    moving         (m,) numbers of the anchors that move
    """

    vertices: np.ndarray
    displacements: np.ndarray
    moving: np.ndarray

    @staticmethod
    def of(vertices: np.ndarray, displacements: np.ndarray, height: float) -> AnchorTargets:
        """The targets of anchors with displacements (T,n,3), on a mesh of the given height."""
        largest = np.abs(displacements).max(axis=(0, 2), initial=0)
        return AnchorTargets(vertices, displacements, np.flatnonzero(largest > STILL * height))

    @property
    def groups(self) -> list[np.ndarray]:
        """(1,) the vertex of each anchor that moves."""
        return [self.vertices[a : a + 1] for a in self.moving]

    @property
    def targets(self) -> list[np.ndarray]:
        """(T,3) the displacement of each anchor that moves."""
        return [self.displacements[:, a] for a in self.moving]

    def predict(self, nets: TrainedNets, table: FeatureTable, poses: np.ndarray) -> np.ndarray:
        """The predicted displacements (t,n,3) of all anchors in some poses (t,)."""
        result = np.zeros((len(poses), len(self.vertices), 3))
        if len(self.moving):
            predicted = nets.predict(table, poses)[:, np.concatenate(nets.outputs)]
            result[:, self.moving] = predicted.reshape(len(poses), -1, 3)
        return result


def read_anchors(
    session: FitSession[DifferentialConfig], vertices: np.ndarray, mean: np.ndarray
) -> AnchorTargets:
    """The targets of anchors (n,), read from all poses; mean (V,3)."""
    blocks = session.displacements.blocks()
    displacements = np.concatenate([block[:, vertices] - mean[vertices] for _, block in blocks])
    return AnchorTargets.of(vertices, displacements, session.height)


def train_anchor_nets(
    session: FitSession[DifferentialConfig],
    table: FeatureTable,
    anchors: AnchorTargets,
    inputs: list[np.ndarray],
    subspace: Subspace,
) -> TrainedNets:
    """One network per anchor that moves, or a single one for all of them (`anchor_nets`).

    inputs    (k,) the features that each network reads
    subspace  of the regions, whose coefficients come first
    """
    config, targets = session.config, anchors.targets
    single = config.anchor_nets == "single" and bool(targets)
    if single:
        inputs, targets = [table.all_inputs()], [np.concatenate(targets, axis=1)]

    def project(displacements: np.ndarray) -> list[np.ndarray]:
        found = (displacements - subspace.mean)[:, anchors.vertices[anchors.moving]]
        return [found.reshape(len(found), -1)] if single else list(np.moveaxis(found, 1, 0))

    schedule = session.schedule(
        hidden=config.anchor_hidden, epochs=config.anchor_epochs, loss=config.anchor_loss
    )
    tasks = NetTasks(inputs, targets, project, subspace.coefficient_count)
    return train_networks(session, table, tasks, schedule, "-anchors")
