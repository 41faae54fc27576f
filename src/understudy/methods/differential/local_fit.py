"""The steps of `local`: networks over a PCA of the displacements, region by region.

Letters: T poses, V vertices, n vertices of a region, P components.
"""

from __future__ import annotations

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.networks import Basis
from understudy.core.poses import Poses, evenly
from understudy.geometry.pca import principal_components
from understudy.methods.correctives.networks import NetTasks, train_nets
from understudy.methods.correctives.session import FitContext, make_deformer
from understudy.methods.differential.anchors import displacement_pivots, mesh_regions
from understudy.methods.differential.local import LocalConfig
from understudy.rigs.base import Rig
from understudy.system.progress import Progress

_ERROR_POSES = 200


def fit_local(config: LocalConfig, poses: Poses, rig: Rig | None, progress: Progress) -> Deformer:
    """The deformer of `poses`; `rig`, where there is one, is perturbed for skin and inputs."""
    context = FitContext.of("local", config, poses, rig, progress)
    mean, regions, bases = _find_subspace(context)
    coefficients, beyond = _project_poses(context, mean, regions, bases)
    context.displacements.release()
    table = context.feature_table(coefficients)
    inputs = (
        [table.all_inputs()]
        if config.regions == 1
        else context.select_inputs(table, regions, coefficients)
    )
    # The loss of the paper is that of the offsets, not of their coefficients.
    whole = beyond is not None and bases[0].shape[1] > 0
    tasks = NetTasks(
        inputs,
        coefficients,
        0,
        config.linear,
        bases[0] if whole else None,
        beyond if whole else None,
        context.added_targets(
            lambda d: [
                (d[:, region] - mean[region]).reshape(len(d), -1) @ basis
                for region, basis in zip(regions, bases)
            ]
        ),
    )
    trained = train_nets(table, tasks, context.schedule(), progress, context.checkpoint())
    shaped = [
        Basis(region, basis, numbers)
        for region, basis, numbers in zip(regions, bases, trained.outputs)
        if basis.shape[1]
    ]
    figures = {"components": sum(basis.shape[1] for basis in bases)}
    return make_deformer(context, table, trained.nets, shaped, mean, trained, figures)


def _find_subspace(
    context: FitContext[LocalConfig],
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """The mean (V,3), and of each region its vertices (n,) and its components (3n,P)."""
    with context.progress.task("finding components", 1) as task:
        mean, sample = context.basis_sample()
        mesh = context.poses.mesh
        # Cells around pivots of the displacements, as in `differential`.
        regions = mesh_regions(mesh, displacement_pivots(mesh, sample, context.config.regions))
        bases = [
            _basis(context, sample[:, region].reshape(len(sample), -1), len(regions))
            for region in regions
        ]
        task.advance()
    return mean, regions, bases


def _project_poses(
    context: FitContext[LocalConfig],
    mean: np.ndarray,
    regions: list[np.ndarray],
    bases: list[np.ndarray],
) -> tuple[list[np.ndarray], np.ndarray | None]:
    """The coefficients (T,P) of every region, and what they leave of the offsets (T,3V).

    The second is None where the loss is that of the coefficients.
    """
    count = context.poses.pose_count
    coefficients = [np.empty((count, basis.shape[1]), np.float32) for basis in bases]
    whole = context.config.loss_space == "vertices"
    beyond = np.empty((count, mean.size), np.float32) if whole else None
    for where, block in context.displacements.blocks():
        for region, basis, rows in zip(regions, bases, coefficients):
            offsets = (block[:, region] - mean[region]).reshape(len(block), -1)
            rows[where] = offsets @ basis
            if beyond is not None:
                beyond[where] = offsets - rows[where] @ basis.T
    return coefficients, beyond


def _basis(context: FitContext[LocalConfig], rows: np.ndarray, region_count: int) -> np.ndarray:
    """(3n,P) float32: the components of a region's displacements (T,3n)."""
    config, share = context.config, context.config.components
    if share is not None:
        most = max(1, round(share * context.poses.vertex_count / region_count))
        return principal_components(rows, most)[0].astype(np.float32)
    directions = principal_components(rows, config.max_components)[0]
    return context.sufficient(directions, rows[evenly(len(rows), _ERROR_POSES)])
