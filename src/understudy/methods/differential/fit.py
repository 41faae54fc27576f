"""The steps of `differential`, in order. See `differential.py` for the equations.

    Subspace        mean, anchors, regions with their components           subspace.py
    Targets         coefficients and anchor displacements of every pose
    TrainedNets     networks of the regions: differential coordinates      nets.py
    Predictions     what these predict for validation poses                validation.py
    AnchorTargets   the final anchors, and their networks                  anchor_nets.py
    Weighted        the reconstruction with its final weights              validation.py
    Folded          networks and bases of the deformer                     folding.py

Letters: T poses, V vertices, n anchors, P components of coordinates, Q components of offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from understudy.core.deformer import Deformer
from understudy.methods.correctives.features import FeatureTable
from understudy.methods.correctives.networks import NetTasks, TrainedNets, train_networks
from understudy.methods.correctives.session import FitSession
from understudy.methods.correctives.stages import feature_table, make_deformer, select_inputs
from understudy.methods.differential.anchor_nets import (
    AnchorTargets,
    read_anchors,
    train_anchor_nets,
)
from understudy.methods.differential.anchors import add_anchors_by_errors
from understudy.methods.differential.config import DifferentialConfig
from understudy.methods.differential.folding import fold_anchors, fold_regions
from understudy.methods.differential.reconstruction import Reconstruction
from understudy.methods.differential.subspace import Region, Subspace, find_subspace
from understudy.methods.differential.validation import (
    Predictions,
    Weighted,
    predict_coordinates,
    weigh_equations,
)


@dataclass(frozen=True, eq=False)
class Targets:
    """What the networks have to predict.

    coefficients  (T,P+Q) of each region: those of coordinates, then those of offsets
    anchors       of the anchors that are selected before training
    beyond        (T,3V) float32, the part of the coordinates that the components do not span; None
                  where the loss is that of the coefficients
    """

    coefficients: list[np.ndarray]
    anchors: AnchorTargets
    beyond: np.ndarray | None


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """Everything that is learned, before the reconstruction is folded into the bases."""

    table: FeatureTable
    subspace: Subspace
    coefficients: list[np.ndarray]
    coordinate_nets: TrainedNets
    anchors: AnchorTargets
    anchor_nets: TrainedNets
    weighted: Weighted


def train_model(session: FitSession[DifferentialConfig]) -> TrainedModel:
    """Find the subspace, train the networks of regions and anchors, and weigh the equations."""
    subspace = find_subspace(session)
    targets = project_poses(session, subspace)
    table = feature_table(session, [*targets.coefficients, targets.anchors.displacements])
    inputs, anchor_inputs = all_inputs(session, table, subspace, targets)
    by_errors = session.config.anchors_by_errors
    if not by_errors:
        session.displacements.release()
    coordinate_nets = train_coordinate_nets(session, table, subspace, inputs, targets)
    predictions = predict_coordinates(
        session, table, subspace, targets.coefficients, coordinate_nets
    )
    anchors = targets.anchors
    if by_errors and predictions is not None:
        vertices = select_anchors_by_errors(session, subspace, predictions)
        anchors = read_anchors(session, vertices, subspace.mean)
        anchor_inputs = select_inputs(session, table, anchors.groups, anchors.targets)
        session.displacements.release()
    anchor_nets = train_anchor_nets(session, table, anchors, anchor_inputs, subspace)
    weighted = weigh_equations(session, table, subspace, predictions, anchors, anchor_nets)
    return TrainedModel(
        table, subspace, targets.coefficients, coordinate_nets, anchors, anchor_nets, weighted
    )


def project_poses(session: FitSession[DifferentialConfig], subspace: Subspace) -> Targets:
    """The coefficients of every region and the displacements of the anchors, in every pose."""
    count, regions = session.poses.pose_count, subspace.regions
    coefficients = [np.empty((count, region.coefficient_count), np.float32) for region in regions]
    anchored = np.empty((count, len(subspace.anchors), 3), np.float32)
    whole = session.config.loss_space == "vertices"
    beyond = np.empty((count, 3 * session.poses.vertex_count), np.float32) if whole else None
    with session.progress.task("projecting poses", count) as task:
        for where, block in session.displacements.blocks():
            block = block - subspace.mean
            anchored[where] = block[:, subspace.anchors]
            delta = subspace.laplacian.coordinates(block)
            for region, rows in zip(regions, coefficients):
                rows[where] = region_coefficients(region, block, delta)
                if beyond is not None:
                    basis = region.components.basis.astype(np.float32)
                    spanned = rows[where, : region.split] @ basis.T
                    beyond[where] = delta.reshape(len(delta), -1) - spanned
            task.advance(len(block))
    anchors = AnchorTargets.of(subspace.anchors, anchored, session.height)
    return Targets(coefficients, anchors, beyond)


def region_coefficients(region: Region, block: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """The coefficients (t,P+Q) of one region.

    block  (t,V,3) displacements without the mean
    delta  (t,V,3) their differential coordinates
    """
    flat = block[:, region.vertices].reshape(len(block), -1)
    return np.concatenate([region.components.coefficients(delta), flat @ region.offsets], axis=1)


def all_coefficients(subspace: Subspace, displacements: np.ndarray) -> list[np.ndarray]:
    """The coefficients (t,P+Q) of every region, of displacements (t,V,3)."""
    block = displacements - subspace.mean
    delta = subspace.laplacian.coordinates(block)
    return [region_coefficients(region, block, delta) for region in subspace.regions]


def all_inputs(
    session: FitSession[DifferentialConfig],
    table: FeatureTable,
    subspace: Subspace,
    targets: Targets,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The features (k,) that each network reads: of every region, of every anchor that moves.

    All are selected together. Anchors that are selected after training get their inputs then.
    """
    single, later = session.config.regions == 1, session.config.anchors_by_errors
    if single and later:
        return [table.all_inputs()], []
    groups, rows = [region.vertices for region in subspace.regions], [*targets.coefficients]
    count = len(groups)
    if not later:
        groups, rows = groups + targets.anchors.groups, rows + targets.anchors.targets
    selected = select_inputs(session, table, groups, rows)
    return [table.all_inputs()] if single else selected[:count], selected[count:]


def train_coordinate_nets(
    session: FitSession[DifferentialConfig],
    table: FeatureTable,
    subspace: Subspace,
    inputs: list[np.ndarray],
    targets: Targets,
) -> TrainedNets:
    """One network per region, for the coefficients of its coordinates and offsets."""
    first = subspace.regions[0].components
    # The loss of the paper is that of delta itself, not of its coefficients.
    whole = targets.beyond is not None and first.count > 0
    tasks = NetTasks(
        inputs,
        targets.coefficients,
        partial(all_coefficients, subspace),
        loss_map=first.basis.astype(np.float32) if whole else None,
        beyond=targets.beyond if whole else None,
    )
    return train_networks(session, table, tasks)


def select_anchors_by_errors(
    session: FitSession[DifferentialConfig], subspace: Subspace, predictions: Predictions
) -> np.ndarray:
    """The anchors (n,): the first half of the even ones, then those at the largest errors."""
    count = len(subspace.anchors)
    half = subspace.anchors[: max(count // 2, subspace.laplacian.shell_count)]
    start = Reconstruction(subspace.laplacian, half, subspace.weights)
    return add_anchors_by_errors(
        start,
        float(session.config.anchor_weight),
        predictions.delta,
        predictions.true,
        count,
        session.progress,
    )


def fold(session: FitSession[DifferentialConfig], model: TrainedModel) -> Deformer:
    """The deformer: the reconstruction folded into the bases, and the bases truncated."""
    given = session.config.fold_error
    tolerance = session.basis_error if given is None else given
    reconstruction, regions = model.weighted.reconstruction, model.subspace.regions
    of_regions = fold_regions(
        reconstruction, regions, model.coefficients, model.coordinate_nets, tolerance
    )
    of_anchors = fold_anchors(
        reconstruction,
        regions,
        model.anchors,
        model.anchor_nets,
        of_regions.coefficient_count,
        tolerance,
    )
    figures = {
        "anchors": len(model.anchors.vertices),
        "components": sum(region.components.count for region in regions),
        **model.weighted.figures,
    }
    return make_deformer(
        session,
        model.table,
        [*of_regions.nets, *of_anchors.nets],
        [*of_regions.bases, *of_anchors.bases],
        model.subspace.mean,
        model.coordinate_nets,
        figures,
        anchors=[int(vertex) for vertex in model.anchors.vertices],
    )
