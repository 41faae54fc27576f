"""The steps of `corrected_skin`: skin, regions, components, inputs, networks, guard, 16 bits.

Regions are the cells of the mesh nearest to their seeds along the edges. Seeds come from QR with
column pivoting of the displacements, so that regions are small where the mesh moves most. The first
seeds alone give the coarser cells of the networks.

Letters: T poses, V vertices, R regions, P components.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis
from understudy.core.poses import Poses, evenly
from understudy.methods.corrected_skin.corrected_skin import CorrectedSkinConfig
from understudy.methods.corrected_skin.guard import (
    MEASURED_POSES,
    clips_aside,
    mean_error,
    needless_regions,
    skins_of,
    without_correctives,
)
from understudy.methods.correctives.bounds import with_held_out_error
from understudy.methods.correctives.components import BasisOptions, Group, Groups, find_groups
from understudy.methods.correctives.features import FeatureTable
from understudy.methods.correctives.networks import NetTasks, train_nets
from understudy.methods.correctives.session import (
    Displacements,
    FitContext,
    make_deformer,
)
from understudy.methods.correctives.skins import make_skin
from understudy.methods.correctives.storage import in_16_bits
from understudy.methods.differential.anchors import displacement_pivots, mesh_regions
from understudy.rigs.base import Rig
from understudy.runtime.half_precision import halved_correctives
from understudy.system.progress import Progress
from understudy.training.schedule import validation_poses

_BASIS_ERROR = 6e-5  # of the height
_HALF_ERROR = 1.01  # factor by which 16 bits may increase the error
_HALF_POSES = 100
_LEAST_VERTICES = 16  # of a region, on average


@dataclass(frozen=True, eq=False)
class Prepared:
    """Everything but the networks.

    groups      the regions that move relative to the skin
    network_of  the network of each of these
    mean        (V,3) mean displacement
    table       features of the poses
    inputs      features (n,) of each network
    """

    groups: list[Group]
    network_of: np.ndarray
    mean: np.ndarray
    table: FeatureTable
    inputs: list[np.ndarray]

    def of_network(self, network: int) -> list[Group]:
        """The regions of a network."""
        return [self.groups[g] for g in np.flatnonzero(self.network_of == network)]

    def targets(self, network: int) -> np.ndarray:
        """The coefficients (T,P) of all regions of a network."""
        return np.concatenate([g.coefficients for g in self.of_network(network)], axis=1)

    def targets_of(self, displacements: np.ndarray) -> list[np.ndarray]:
        """The coefficients (t,P) of every network, of displacements (t,V,3)."""
        rows = Groups(self.mean, self.groups).coefficients(displacements)
        return [
            np.concatenate([rows[g] for g in np.flatnonzero(self.network_of == n)], axis=1)
            for n in range(len(self.inputs))
        ]


Context = FitContext[CorrectedSkinConfig]


def fit_corrected_skin(
    config: CorrectedSkinConfig, poses: Poses, rig: Rig | None, progress: Progress
) -> Deformer:
    """The deformer of `poses`; `rig`, where there is one, is perturbed to select inputs."""
    skin = None
    if config.skin == "auto" and poses.skeleton is not None:
        # The transforms of the rig itself need more components than the other two.
        skin = skins_of(poses, config.influences, progress).chosen
    context = FitContext.of("corrected_skin", config, poses, rig, progress, skin)
    poses = context.poses
    regions = _regions(context)
    guarded = config.guard and context.skin is not None
    aside = clips_aside(poses, config.validation_fraction if guarded else 0.0)
    needless: np.ndarray | None = None
    if len(aside):
        needless = _needless_on_clips(context, regions, aside)
        config = replace(config, validation_fraction=0.0, patience=None)
        context = replace(context, config=config)
    else:
        aside = validation_poses(poses.pose_count, context.schedule())
    deformer = trained_deformer(context, prepare(context, regions))
    few = evenly(poses.pose_count, _HALF_POSES)
    kept = poses.take(aside[evenly(len(aside), MEASURED_POSES)] if len(aside) else few)
    if guarded and len(aside):
        fitted = skins_of(poses, config.influences, progress).fitted
        if needless is None:
            plain = replace(deformer, skin=fitted, nets=(), bases=(), mean=None)
            needless = needless_regions(deformer, plain, kept, regions.labels)
        vertices = np.flatnonzero(np.isin(regions.labels, needless))
        deformer = without_correctives(deformer, vertices, fitted)
        figures = {**deformer.training, "uncorrected_regions": len(needless)}
        deformer = replace(deformer, training=figures)
        if deformer.held_out_error is not None:
            deformer = with_held_out_error(deformer, poses, aside)
    return _stored(deformer, config.storage, kept)


def _regions(context: Context) -> Regions:
    with context.progress.task("finding regions", 1) as task:
        config = context.config
        found = find_regions(
            context.poses.mesh, context.basis_sample()[1], config.regions, config.networks
        )
        task.advance()
    return found


def _needless_on_clips(context: Context, regions: Regions, aside: np.ndarray) -> np.ndarray:
    """The regions (n,) whose correctives, learned from the other clips, do not help on `aside`."""
    poses, path = context.poses, context.config.checkpoint
    # The frames kept aside are the last ones; the others stay in the store.
    others = replace(poses.between(0, int(aside[0])), spans=())
    config = replace(
        context.config,
        validation_fraction=0.0,
        patience=None,
        checkpoint=None if path is None else f"{path}.aside",
    )
    first = replace(
        context, config=config, poses=others, displacements=Displacements(others, context.skin)
    )
    corrected = trained_deformer(first, prepare(first, regions))
    fitted = make_skin("fitted", others, None, config.influences, context.progress)
    plain = replace(corrected, skin=fitted, nets=(), bases=(), mean=None)
    return needless_regions(
        corrected, plain, poses.take(aside[evenly(len(aside), MEASURED_POSES)]), regions.labels
    )


def prepare(context: Context, regions: Regions) -> Prepared:
    """Find components and inputs."""
    config, poses = context.config, context.poses
    given = config.basis_error
    error = _BASIS_ERROR * context.height if given is None else given
    options = BasisOptions(config.basis_poses, config.max_components, error)
    found = find_groups(
        poses, context.skin, regions.labels, config.seam_rings, options, context.progress
    )
    network_of = np.array([regions.network_of[g.label] for g in found.groups], int)
    network_of = np.unique(network_of, return_inverse=True)[1].reshape(-1)
    table = context.feature_table([group.coefficients for group in found.groups])
    prepared = Prepared(found.groups, network_of, found.mean, table, [])
    networks = range(int(network_of.max(initial=-1)) + 1)
    vertices = [
        np.unique(np.concatenate([g.core for g in prepared.of_network(n)])) for n in networks
    ]
    inputs = context.select_inputs(table, vertices, [prepared.targets(n) for n in networks])
    context.displacements.release()
    return replace(prepared, inputs=inputs)


def trained_deformer(context: Context, prepared: Prepared) -> Deformer:
    """Train the networks and put the deformer together."""
    networks = range(len(prepared.inputs))
    tasks = NetTasks(
        prepared.inputs,
        [prepared.targets(n) for n in networks],
        0,
        context.config.linear,
        added=context.added_targets(prepared.targets_of),
    )
    schedule = context.schedule()
    trained = train_nets(prepared.table, tasks, schedule, context.progress, context.checkpoint())
    bases, first = [], 0
    for n in networks:
        for group in prepared.of_network(n):
            outputs = np.arange(first, first + group.basis.shape[1])
            bases.append(Basis(group.vertices, group.basis, outputs))
            first += len(outputs)
    figures = {"components": first, "regions": len(bases), "networks": len(prepared.inputs)}
    return make_deformer(
        context, prepared.table, trained.nets, bases, prepared.mean, trained, figures
    )


def _stored(deformer: Deformer, storage: str, poses: Poses) -> Deformer:
    """The deformer in 16 bits, if that is asked for or costs nothing on some poses."""
    if storage == "float32" or not deformer.nets:
        return deformer
    if storage == "float16":  # an error where a weight exceeds the largest 16-bit float
        return halved_correctives(deformer)
    half, few = in_16_bits(deformer), poses.take(evenly(poses.pose_count, _HALF_POSES))
    worse = mean_error(half, few) > _HALF_ERROR * mean_error(deformer, few)
    return deformer if worse else half


@dataclass(frozen=True, eq=False)
class Regions:
    """The division of a mesh.

    labels      (V,) the region of each vertex, 0..R-1
    network_of  (R,) the network that predicts each region
    """

    labels: np.ndarray
    network_of: np.ndarray


def find_regions(mesh: Mesh, displacements: np.ndarray, regions: int, networks: int) -> Regions:
    """The division of a mesh whose vertices move by `displacements` (T,V,3), less their mean."""
    most = max(1, mesh.vertex_count // _LEAST_VERTICES)
    seeds = displacement_pivots(mesh, displacements, min(regions, most))
    labels = cell_labels(mesh, seeds)
    coarse = cell_labels(mesh, seeds[:networks])
    # A region belongs to the network whose cell holds most of its vertices.
    votes = np.zeros((labels.max() + 1, coarse.max() + 1), int)
    np.add.at(votes, (labels, coarse), 1)
    return Regions(labels, np.unique(votes.argmax(axis=1), return_inverse=True)[1].reshape(-1))


def cell_labels(mesh: Mesh, seeds: np.ndarray) -> np.ndarray:
    """The number (V,) of the cell that each vertex belongs to, from 0 without gaps."""
    labels = np.zeros(mesh.vertex_count, int)
    for number, cell in enumerate(mesh_regions(mesh, seeds)):
        labels[cell] = number
    return labels
