"""The weights of the reconstruction: guessed from how much everything moves, then judged on poses that no net was trained on.

Least squares weighs each equation by the inverse of its error. Before training nobody knows the errors, but a net errs by some share of what it has
to say, so the guess is the inverse of each one's size (`guessed_weights`). After training the errors of the kept-aside poses take the place of the
guess, and two factors are searched for that err least there: how much the anchors count, and how much the held offsets do (`Judge`).

Letters: T kept-aside poses, V vertices, n anchors.
"""

from __future__ import annotations

import numpy as np

from understudy.differential.laplacian import Laplacian
from understudy.differential.reconstruction import Reconstruction, Weights
from understudy.networks import NetGroups
from understudy.poses import evenly
from understudy.training.trainer import validation_poses

_LEAST_MOTION = 1e-4  # of the height: what moves less counts as moving this much
_LEAST_SIZE = 0.15  # of the median of all coordinates, likewise: few poses are measured, and a rare one may be far worse than they tell
_MEASURED_POSES = 120
_ANCHOR_FACTORS = (0.15, 0.4, 1.0, 2.5)
_HOLD_FACTORS = (0.1, 0.3, 1.0, 3.0)
_GUESSED_HOLD = 0.3  # errors of neighbours are alike, so each counts for less than an anchor's


def guessed_weights(laplacian: Laplacian, sample: np.ndarray, delta: np.ndarray, anchors: np.ndarray, height: float) -> Weights:
    """From the sizes of displacements and differential coordinates (T,V,3) over some poses."""
    motion = np.maximum(_rms(sample), _LEAST_MOTION * height)
    rows = laplacian.degree * _rms(delta)
    middle = max(float(np.median(rows)), 1e-4 * _LEAST_MOTION * height)
    return Weights(middle / motion[anchors], middle / np.maximum(rows, _LEAST_SIZE * middle), _GUESSED_HOLD * middle / motion)


class Judge:
    """The nets' words on the kept-aside poses. `figures`: their mean squared errors (delta, anchors), the factors found and the error left."""

    def __init__(self, fit, table, components, offsets, coefficients, anchors, anchored, moving, shaped, nailed, mean):
        self._laplacian, self._config, self._anchors, self.figures = fit.laplacian, fit.config, anchors, {}
        aside = validation_poses(fit.poses.pose_count, fit.schedule(fit.config.hidden, fit.config.epochs, fit.config.loss))
        self._poses = aside[evenly(len(aside), _MEASURED_POSES)] if len(aside) else aside
        if not len(self._poses):
            return
        nets, first = (*shaped.nets, *nailed.nets), sum(rows.shape[1] for rows in coefficients)
        raw = (table.standard[self._poses] * table.spread + table.centre).astype(np.float32)
        said = NetGroups(nets, len(table.columns), first + 3 * len(moving))(raw)
        self._true = fit.displacements(self._poses) - mean
        self._delta = np.zeros((len(said), fit.poses.vertex_count, 3))
        self._held = np.zeros_like(self._delta)
        wrong = 0.0
        for part, basis, rows, numbers in zip(components, offsets, coefficients, shaped.outputs):
            own, rest = said[:, numbers[: part.count]], said[:, numbers[part.count :]]
            self._delta[:, part.vertices] = (own @ part.basis.T).reshape(len(own), -1, 3)
            self._held[:, part.vertices] = (rest @ basis.T).reshape(len(own), -1, 3)
            wrong += float(np.square((own - rows[self._poses, : part.count]) @ part.basis.T).sum())
        self._said = np.zeros((len(said), len(anchors), 3))
        self._said[:, moving] = said[:, first:].reshape(len(said), -1, 3)
        self._height = fit.height
        missed = np.linalg.norm(self._said - anchored[self._poses], axis=2)
        self.figures = {"mse_differential": wrong / self._delta.size, "mse_anchors": float(np.mean(missed**2) / 3)}

    def best_reconstruction(self, guess: Weights) -> Reconstruction:
        """The one that errs least on average over the kept-aside poses; the guess where none were kept or the weights are given."""
        if self._config.omega is not None or self._config.weighing == "paper" or not len(self._poses):
            return Reconstruction(self._laplacian, self._anchors, guess)
        least = 0.5 * _LEAST_MOTION * self._height
        rows = self._around(self._laplacian.degree * _rms(self._delta - self._laplacian.coordinates(self._true)))
        middle = max(float(np.median(rows)), 1e-2 * least)
        row = middle / np.maximum(rows, _LEAST_SIZE * middle)
        anchor = middle / np.maximum(_rms(self._said - self._true[:, self._anchors]), least)
        hold = middle / np.maximum(self._around(_rms(self._held - self._true)), least)
        tried: dict[tuple[float, float], tuple[float, Reconstruction]] = {}

        def error(pair: tuple[float, float]) -> float:
            if pair not in tried:
                reconstruction = Reconstruction(self._laplacian, self._anchors, Weights(pair[0] * anchor, row, pair[1] * hold))
                apart = reconstruction.solve(self._delta, self._said, self._held) - self._true
                tried[pair] = (float(np.linalg.norm(apart, axis=2).mean()), reconstruction)
            return tried[pair][0]

        factor = min(_ANCHOR_FACTORS, key=lambda a: error((a, 0.3)))
        for hold_factor in _HOLD_FACTORS:
            error((factor, hold_factor))
        best = min(tried, key=lambda pair: tried[pair][0])
        self.figures |= {"anchor_factor": best[0], "hold_factor": best[1], "error_unseen": tried[best][0]}
        return tried[best][1]

    def _around(self, errors: np.ndarray) -> np.ndarray:
        """(V,) each vertex's error and those of its neighbours together, so that no vertex is trusted for its luck."""
        near = (self._laplacian.symmetric != 0).astype(np.float64)
        return np.sqrt((near @ errors**2) / np.asarray(near.sum(axis=1)).ravel().clip(min=1.0))


def _rms(field: np.ndarray) -> np.ndarray:
    """(T,n,3) -> (n,): the root mean square length."""
    return np.sqrt(np.einsum("tni,tni->n", field, field, optimize=True, dtype=np.float64) / max(1, len(field)))
