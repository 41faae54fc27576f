"""Weights of the reconstruction after training, from errors on validation poses.

Each equation is weighted by the inverse of its root-mean-square error on poses that no network was
trained on. Two factors remain, the weights of all anchors and of all offsets relative to the
coordinates. They are searched on a grid, for the smallest mean error on those poses.

Letters: T validation poses, V vertices, n anchors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.poses import evenly
from understudy.methods.correctives.features import FeatureTable
from understudy.methods.correctives.networks import TrainedNets
from understudy.methods.correctives.session import FitSession
from understudy.methods.differential.config import DifferentialConfig
from understudy.methods.differential.reconstruction import (
    LEAST_ERROR,
    LEAST_MOTION,
    Laplacian,
    Reconstruction,
    Weights,
    rms,
)
from understudy.methods.differential.subspace import AnchorTargets, Subspace

_MEASURED_POSES = 120
_ANCHOR_FACTORS = (0.15, 0.4, 1.0, 2.5)
_OFFSET_FACTORS = (0.1, 0.3, 1.0, 3.0)
_FIRST_OFFSET_FACTOR = 0.3


@dataclass(frozen=True, eq=False)
class Predictions:
    """What the networks of the regions predict for some poses, beside the truth.

    poses    (T,) pose numbers
    unseen   whether they are validation poses; otherwise training poses
    delta    (T,V,3) predicted differential coordinates
    offsets  (T,V,3) predicted offsets
    true     (T,V,3) true displacements, without the mean
    mse      mean squared error of delta within the span of its components
    """

    poses: np.ndarray
    unseen: bool
    delta: np.ndarray
    offsets: np.ndarray
    true: np.ndarray
    mse: float


def predict_coordinates(
    session: FitSession[DifferentialConfig],
    table: FeatureTable,
    subspace: Subspace,
    coefficients: list[np.ndarray],
    nets: TrainedNets,
) -> Predictions | None:
    """The predictions for validation poses.

    coefficients  (T,P+Q) true coefficients of each region
    Without validation poses: for training poses if anchors are selected by errors, else None.
    """
    held_out = session.held_out
    unseen = bool(len(held_out))
    if not unseen and not session.config.anchors_by_errors:
        return None
    if not unseen:
        held_out = np.arange(session.poses.pose_count)
    poses = held_out[evenly(len(held_out), _MEASURED_POSES)]
    predicted = nets.predict(table, poses)
    delta = np.zeros((len(poses), session.poses.vertex_count, 3), np.float32)
    offsets, square = np.zeros_like(delta), 0.0
    for region, true, numbers in zip(subspace.regions, coefficients, nets.outputs):
        basis, split = region.components.basis, region.split
        own, other = predicted[:, numbers[:split]], predicted[:, numbers[split:]]
        delta[:, region.vertices] = (own @ basis.T).reshape(len(own), -1, 3)
        offsets[:, region.vertices] = (other @ region.offsets.T).reshape(len(own), -1, 3)
        square += float(np.square((own - true[poses, :split]) @ basis.T).sum())
    true_displacements = session.displacements.at(poses) - subspace.mean
    return Predictions(poses, unseen, delta, offsets, true_displacements, square / delta.size)


def weigh_equations(
    session: FitSession[DifferentialConfig],
    table: FeatureTable,
    subspace: Subspace,
    predictions: Predictions | None,
    anchors: AnchorTargets,
    anchor_nets: TrainedNets,
) -> tuple[Reconstruction, dict[str, float]]:
    """The reconstruction weighted by validation poses, and figures for the header of the file.

    Without validation poses, or with omega, its weights stay as they are.
    """
    figures: dict[str, float] = {}
    if predictions is not None and predictions.unseen:
        predicted = anchors.predict(anchor_nets, table, predictions.poses)
        square = np.square(predicted - anchors.displacements[predictions.poses])
        figures = {"mse_differential": predictions.mse, "mse_anchors": float(np.mean(square))}
        if session.config.holds_vertices:
            found, more = _search_factors(
                subspace.laplacian, anchors.vertices, predictions, predicted, session.height
            )
            return found, figures | more
    return Reconstruction(subspace.laplacian, anchors.vertices, subspace.weights), figures


def _search_factors(
    laplacian: Laplacian,
    anchors: np.ndarray,
    predictions: Predictions,
    predicted_anchors: np.ndarray,
    height: float,
) -> tuple[Reconstruction, dict[str, float]]:
    """The weights with the smallest mean error on the poses of `predictions`."""
    true = predictions.true
    least = 0.5 * LEAST_MOTION * height
    coordinate_error = _with_neighbours(
        laplacian, laplacian.degree * rms(predictions.delta - laplacian.coordinates(true))
    )
    offset_error = _with_neighbours(laplacian, rms(predictions.offsets - true))
    anchor_error = rms(predicted_anchors - true[:, anchors])
    middle = max(float(np.median(coordinate_error)), 1e-2 * least)
    coordinate = middle / np.maximum(coordinate_error, LEAST_ERROR * middle)
    anchor = middle / np.maximum(anchor_error, least)
    offset = middle / np.maximum(offset_error, least)
    tried: dict[tuple[float, float], tuple[float, Reconstruction]] = {}

    def error(factors: tuple[float, float]) -> float:
        if factors not in tried:
            weights = Weights(factors[0] * anchor, coordinate, factors[1] * offset)
            reconstruction = Reconstruction(laplacian, anchors, weights)
            solved = reconstruction.solve(predictions.delta, predicted_anchors, predictions.offsets)
            tried[factors] = (float(np.linalg.norm(solved - true, axis=2).mean()), reconstruction)
        return tried[factors][0]

    anchor_factor = min(_ANCHOR_FACTORS, key=lambda factor: error((factor, _FIRST_OFFSET_FACTOR)))
    for offset_factor in _OFFSET_FACTORS:
        error((anchor_factor, offset_factor))
    best = min(tried, key=lambda factors: tried[factors][0])
    figures = {"anchor_factor": best[0], "hold_factor": best[1], "error_unseen": tried[best][0]}
    return tried[best][1], figures


def _with_neighbours(laplacian: Laplacian, errors: np.ndarray) -> np.ndarray:
    """(V,) root mean square of each vertex's error and those of its neighbours.

    A vertex whose error is small by chance does not get a large weight that way.
    """
    near = (laplacian.symmetric != 0).astype(np.float64)
    return np.sqrt((near @ errors**2) / np.asarray(near.sum(axis=1)).ravel().clip(min=1.0))
