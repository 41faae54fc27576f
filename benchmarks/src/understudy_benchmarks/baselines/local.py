"""`local`: the networks of `differential` on plain offsets.

The baseline "Local" of Song, Shi and Reed 2020, section 4.4.1. There are no differential
coordinates, no anchors and no reconstruction: the networks predict the coefficients of a PCA of the
displacements before skinning,

    d = mean + U c,     c = net(x)

It has everything else that `differential` has: the same networks, loss, ridge regression, mirror
images and inputs, so that a comparison shows what differential coordinates contribute.

Departure: by default there is one network per region, as in `differential`. These are regions of
positions, so seams may open between them. The paper has one network (`--preset paper`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.deformer import Deformer
from understudy.methods.base import Traits
from understudy.methods.correctives.components import Groups, find_groups
from understudy.methods.correctives.facts import PoseFacts, SharingMethod
from understudy.methods.correctives.networks import NetTasks, train_networks
from understudy.methods.correctives.regions import find_regions
from understudy.methods.correctives.session import FitSession
from understudy.methods.correctives.stages import feature_table, make_deformer, select_inputs
from understudy.methods.differential.config import SubspaceConfig
from understudy.rigs.base import Rig


@dataclass(frozen=True)
class LocalConfig(SubspaceConfig):
    """Options of local, beside those of a deformation subspace."""


class Local(SharingMethod[LocalConfig]):
    """The networks of `differential` on plain offsets, without anchors or reconstruction."""

    name = "local"
    traits = Traits(
        controls_suffice=True,
        asks_rig=True,
        needs_torch=True,
        baseline="differential",
        quick={
            "epochs": "20",
            "hidden": "32,32",
            "batch_size": "64",
            "regions": "4",
            "input_poses": "3",
        },
    )
    Config = LocalConfig

    def fit_facts(self, facts: PoseFacts, rig: Rig | None = None) -> Deformer:
        """Skin, regions, components, inputs, a network per region."""
        config = self.config
        session = FitSession.of(self.name, config, facts, rig)
        labels = find_regions(session, config.regions).labels
        components = config.component_count(facts.poses.vertex_count, int(labels.max()) + 1)
        found = find_groups(session, labels, components=components)
        targets = found.targets
        table = feature_table(session, targets)
        single = config.regions == 1
        inputs = (
            [table.all_inputs()] if single else select_inputs(session, table, found.cores, targets)
        )
        # The loss of the paper is that of the offsets, not of their coefficients.
        whole = config.loss_space == "vertices" and bool(found.groups)
        tasks = NetTasks(
            inputs,
            targets,
            found.project,
            loss_map=found.groups[0].basis if whole else None,
            beyond=_beyond(session, found) if whole else None,
        )
        session.displacements.release()
        trained = train_networks(session, table, tasks)
        figures = {"components": sum(rows.shape[1] for rows in targets)}
        return make_deformer(
            session, table, trained.nets, found.bases, found.mean, trained, figures
        )


def _beyond(session: FitSession, found: Groups) -> np.ndarray:
    """(T,3V) float32: what the components of the only region leave of the offsets."""
    group = found.groups[0]
    result = np.empty((session.poses.pose_count, found.mean.size), np.float32)
    for where, block in session.displacements.blocks():
        offsets = (block - found.mean).reshape(len(block), -1)
        result[where] = offsets - group.coefficients[where] @ group.basis.T
    return result
