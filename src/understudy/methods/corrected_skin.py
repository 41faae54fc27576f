"""`corrected_skin`: a skin chosen by the poses, corrected region by region.

No paper: it joins what `fdda` and `differential` do well, at half the cost of either. With T_i the
skinning transform of vertex i, and d the displacement before skinning:

    y_i  = T_i (rest_i + d_i)                                   skin: see `skin`
    d    = mean + sum over regions r of  U_r c_r                principal components of a region
    c_r  = (W_n x + b_n + net_n(x))_r                           n: the network of region r

Many small regions have few components each, so that the bases are small. A network predicts the
coefficients of all regions around it, so that its layers are read once for all of them. Regions
overlap over `seam_rings` rings of edges, with shares that sum to one, so that no seam opens.

The skin decides how many components are needed. Weights fitted by least squares leave the smallest
displacements, but they differ from vertex to vertex, and so does what they leave: on a body with
correctives three times as many components are needed as with one bone per vertex and blended
borders. On a rig that is nearly a skin the fitted weights are better. Held-out poses decide
(`correctives/evidence.py`).

Correctives must earn their place (`correctives/guard.py`): a region whose correctives do not beat
fitted linear blend skinning on poses kept aside gets the fitted weights instead, and no
correctives. Recorded clips are kept aside whole, because neighbouring frames are alike; the
networks are then trained once more with all clips.

`notes/corrected_skin.md` has the measurements behind these choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from understudy.core.deformer import STORAGES, Deformer
from understudy.core.poses import evenly
from understudy.methods.base import AT_LEAST_ONE, Limit, Traits
from understudy.methods.correctives.bounds import with_held_out_error
from understudy.methods.correctives.components import find_groups
from understudy.methods.correctives.config import SEAM_RINGS, RegionsConfig
from understudy.methods.correctives.facts import PoseFacts, SharingMethod
from understudy.methods.correctives.guard import (
    MEASURED_POSES,
    needless_regions,
    without_correctives,
)
from understudy.methods.correctives.networks import NetTasks, train_networks
from understudy.methods.correctives.regions import Regions, find_regions
from understudy.methods.correctives.session import FitSession
from understudy.methods.correctives.stages import feature_table, make_deformer, select_inputs
from understudy.methods.correctives.storage import COMPARED_POSES, stored
from understudy.rigs.base import Rig
from understudy.training.held_out import clips_aside

_LEAST_VERTICES = 16  # of a region, on average


@dataclass(frozen=True)
class CorrectedSkinConfig(RegionsConfig):
    """Options of corrected_skin, beside those of all methods with regions.

    regions              number of regions, each with its own principal components; at most one per
                         16 vertices
    networks             number of networks; each predicts the coefficients of several regions
    seam_rings           rings of edges over which neighbouring regions are blended; 0: none
    skin                 fitted (least squares), blended (best single bone with blended borders),
                         perturbed (the rig's own transforms), or auto: fitted or blended, what
                         predicts held-out poses better
    guard                compare every region with fitted linear blend skinning on poses kept aside,
                         and use that where it is better; false: keep all correctives
    storage              of networks and bases: float32, float16, or auto: 16 bits if that changes
                         the error on poses kept aside by less than 1 %
    validation_fraction  fraction of the poses that are kept aside; of recorded clips whole ones
    """

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **RegionsConfig.choices,
        "storage": ("auto", *STORAGES),
    }
    limits: ClassVar[Mapping[str, Limit]] = {
        **RegionsConfig.limits,
        "networks": AT_LEAST_ONE,
        "seam_rings": SEAM_RINGS,
    }
    basis_share: ClassVar[float] = 6e-5

    regions: int = 128
    networks: int = 32
    hidden: tuple[int, ...] = (64, 64)
    linear: bool = False
    epochs: int = 100
    batch_size: int = 256
    weight_decay: float = 0.3
    max_components: int = 60
    input_poses: int = 8
    seam_rings: int = 2
    guard: bool = True
    storage: str = "auto"

    @property
    def skin_kind(self) -> str:
        """The kind of the skin, as in `PoseFacts.skin`."""
        # The transforms of the rig itself need more components than the other two.
        return "predicted" if self.skin == "auto" else self.skin


class CorrectedSkin(SharingMethod[CorrectedSkinConfig]):
    """A skin chosen by the poses, corrected region by region: small and fast."""

    name = "corrected_skin"
    traits = Traits(
        controls_suffice=True,
        asks_rig=True,
        needs_torch=True,
        quick={
            "epochs": "40",
            "hidden": "32,32",
            "batch_size": "64",
            "regions": "6",
            "networks": "3",
            "input_poses": "3",
        },
    )
    Config = CorrectedSkinConfig

    def fit_facts(self, facts: PoseFacts, rig: Rig | None = None) -> Deformer:
        """Skin, regions, components, inputs, networks, guard, 16 bits."""
        config = self.config
        session = FitSession.of(self.name, config, facts, rig)
        facts, poses = session.facts, session.poses
        most = max(1, poses.vertex_count // _LEAST_VERTICES)
        regions = find_regions(session, min(config.regions, most), config.networks)
        guarded = config.guard and session.skin is not None
        aside = clips_aside(poses, config.validation_fraction if guarded else 0.0)
        needless: np.ndarray | None = None
        if len(aside):
            needless = _needless_on_clips(session, regions, aside)
            session = replace(session, config=_without_validation(config))
        else:
            aside = session.held_out
        deformer = _corrected(session, regions)
        few = evenly(poses.pose_count, COMPARED_POSES)
        kept = poses.take(aside[evenly(len(aside), MEASURED_POSES)] if len(aside) else few)
        if guarded and len(aside):
            fitted = facts.skin("fitted", config.influences)
            if needless is None:
                needless = needless_regions(deformer, fitted, kept, regions.labels)
            deformer = without_correctives(
                deformer, np.flatnonzero(np.isin(regions.labels, needless)), fitted
            )
            figures = {**deformer.training, "uncorrected_regions": len(needless)}
            deformer = replace(deformer, training=figures)
            if deformer.held_out_error is not None:
                deformer = with_held_out_error(deformer, poses, aside)
        return stored(deformer, config.storage, kept)


def _without_validation(config: CorrectedSkinConfig) -> CorrectedSkinConfig:
    """The options of a fit whose poses are all trained on."""
    return replace(config, validation_fraction=0.0, patience=None)


def _needless_on_clips(
    session: FitSession[CorrectedSkinConfig], regions: Regions, aside: np.ndarray
) -> np.ndarray:
    """The regions (n,) whose correctives, learned from the other clips, do not help on `aside`."""
    config, poses = session.config, session.poses
    # The frames kept aside are the last ones; the others stay in the store.
    facts = PoseFacts(replace(poses.between(0, int(aside[0])), spans=()), session.progress)
    path = config.checkpoint
    first = session.of_poses(
        facts,
        replace(_without_validation(config), checkpoint=None if path is None else f"{path}.aside"),
    )
    fitted = facts.skin("fitted", config.influences)
    kept = poses.take(aside[evenly(len(aside), MEASURED_POSES)])
    return needless_regions(_corrected(first, regions), fitted, kept, regions.labels)


def _corrected(session: FitSession[CorrectedSkinConfig], regions: Regions) -> Deformer:
    """The deformer of all regions: components, inputs, networks."""
    found = find_groups(session, regions.labels, session.config.seam_rings, regions.network_of)
    targets = found.targets
    table = feature_table(session, targets)
    inputs = select_inputs(session, table, found.cores, targets)
    session.displacements.release()
    trained = train_networks(session, table, NetTasks(inputs, targets, found.project))
    bases = found.bases
    figures = {
        "components": sum(rows.shape[1] for rows in targets),
        "regions": len(bases),
        "networks": len(inputs),
    }
    return make_deformer(session, table, trained.nets, bases, found.mean, trained, figures)
