"""The weights of the reconstruction: guessed from how much everything moves, then judged on poses
that no net was trained on.

Least squares weighs each equation by the inverse of its error. Before training nobody knows the
errors, but a net errs by some share of what it has to say, so the guess is the inverse of each
one's size (`guessed_weights`). After training the errors of the kept-aside poses take the place of
the guess, and two factors are searched for that err least there: how much the anchors count, and
how much the held offsets do (`Judge`).

Letters: T kept-aside poses, V vertices, n anchors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.networks import NetGroups
from understudy.core.poses import evenly
from understudy.methods.differential.laplacian import Laplacian
from understudy.methods.differential.reconstruction import Reconstruction, Weights
from understudy.training.trainer import validation_poses

_LEAST_MOTION = 1e-4  # of the height: what moves less counts as moving this much
# of the median of all coordinates, likewise: few poses are measured, and a rare one may be far
# worse than they tell
_LEAST_SIZE = 0.15
_MEASURED_POSES = 120
_ANCHOR_FACTORS = (0.15, 0.4, 1.0, 2.5)
_HOLD_FACTORS = (0.1, 0.3, 1.0, 3.0)
_GUESSED_HOLD = 0.3  # errors of neighbours are alike, so each counts for less than an anchor's


def guessed_weights(
    laplacian: Laplacian, sample: np.ndarray, delta: np.ndarray, anchors: np.ndarray, height: float
) -> Weights:
    """From the sizes of displacements and differential coordinates (T,V,3) over some poses."""
    motion = np.maximum(_rms(sample), _LEAST_MOTION * height)
    rows = laplacian.degree * _rms(delta)
    middle = max(float(np.median(rows)), 1e-4 * _LEAST_MOTION * height)
    return Weights(
        middle / motion[anchors],
        middle / np.maximum(rows, _LEAST_SIZE * middle),
        _GUESSED_HOLD * middle / motion,
    )


@dataclass(frozen=True, eq=False)
class Words:
    """What the nets of the regions say of some poses (T,), as a rule kept aside: coordinates delta
    and offsets held (T,V,3), beside the true displacements (T,V,3); unseen: whether no net was
    trained on them; wrong: the mean squared error of delta, but for what the components leave.
    """

    poses: np.ndarray
    unseen: bool
    delta: np.ndarray
    held: np.ndarray
    true: np.ndarray
    wrong: float

    @staticmethod
    def of(
        fit, table, components, offsets, coefficients, shaped, mean, anyway: bool = False
    ) -> Words | None:
        """Of poses kept aside; where there are none, of some that were trained on if they are
        wanted `anyway`, else None.
        """
        aside = validation_poses(
            fit.poses.pose_count,
            fit.schedule(fit.config.hidden, fit.config.epochs, fit.config.loss),
        )
        unseen = bool(len(aside))
        if not unseen and not anyway:
            return None
        aside = aside if unseen else np.arange(fit.poses.pose_count)
        poses = aside[evenly(len(aside), _MEASURED_POSES)]
        said = _said(table, poses, shaped.nets, sum(rows.shape[1] for rows in coefficients))
        delta = np.zeros((len(said), fit.poses.vertex_count, 3), np.float32)
        held, wrong = np.zeros_like(delta), 0.0
        for part, basis, rows, numbers in zip(components, offsets, coefficients, shaped.outputs):
            own, rest = said[:, numbers[: part.count]], said[:, numbers[part.count :]]
            delta[:, part.vertices] = (own @ part.basis.T).reshape(len(own), -1, 3)
            held[:, part.vertices] = (rest @ basis.T).reshape(len(own), -1, 3)
            wrong += float(np.square((own - rows[poses, : part.count]) @ part.basis.T).sum())
        return Words(
            poses, unseen, delta, held, fit.displacements(poses) - mean, wrong / delta.size
        )


def _said(table, poses: np.ndarray, nets, count: int) -> np.ndarray:
    """(t,count): what nets write for some poses."""
    raw = (table.standard[poses] * table.spread + table.centre).astype(np.float32)
    return NetGroups(nets, len(table.columns), count)(raw)


class Judge:
    """The nets' words on the kept-aside poses. `figures`: their mean squared errors (delta,
    anchors), the factors found and the error left.
    """

    def __init__(self, fit, table, words: Words | None, anchors, anchored, moving, nailed):
        self._laplacian, self._config, self._anchors, self._words, self._height = (
            fit.laplacian,
            fit.config,
            anchors,
            words,
            fit.height,
        )
        self.figures = {}
        self._unseen = words is not None and words.unseen
        if not self._unseen:
            return
        self._said = np.zeros((len(words.poses), len(anchors), 3))
        if len(moving):
            first = int(nailed.outputs[0][0])
            self._said[:, moving] = _said(table, words.poses, nailed.nets, first + 3 * len(moving))[
                :, first:
            ].reshape(len(words.poses), -1, 3)
        missed = np.linalg.norm(self._said - anchored[words.poses], axis=2)
        self.figures = {
            "mse_differential": words.wrong,
            "mse_anchors": float(np.mean(missed**2) / 3),
        }

    def best_reconstruction(self, guess: Weights) -> Reconstruction:
        """The one that errs least on average over the kept-aside poses; the guess where none were
        kept or the weights are given.
        """
        words = self._words
        if not self._config.holding or not self._unseen:
            return Reconstruction(self._laplacian, self._anchors, guess)
        least = 0.5 * _LEAST_MOTION * self._height
        rows = self._around(
            self._laplacian.degree * _rms(words.delta - self._laplacian.coordinates(words.true))
        )
        middle = max(float(np.median(rows)), 1e-2 * least)
        row = middle / np.maximum(rows, _LEAST_SIZE * middle)
        anchor = middle / np.maximum(_rms(self._said - words.true[:, self._anchors]), least)
        hold = middle / np.maximum(self._around(_rms(words.held - words.true)), least)
        tried: dict[tuple[float, float], tuple[float, Reconstruction]] = {}

        def error(pair: tuple[float, float]) -> float:
            if pair not in tried:
                reconstruction = Reconstruction(
                    self._laplacian, self._anchors, Weights(pair[0] * anchor, row, pair[1] * hold)
                )
                apart = reconstruction.solve(words.delta, self._said, words.held) - words.true
                tried[pair] = (float(np.linalg.norm(apart, axis=2).mean()), reconstruction)
            return tried[pair][0]

        factor = min(_ANCHOR_FACTORS, key=lambda a: error((a, 0.3)))
        for hold_factor in _HOLD_FACTORS:
            error((factor, hold_factor))
        best = min(tried, key=lambda pair: tried[pair][0])
        self.figures |= {
            "anchor_factor": best[0],
            "hold_factor": best[1],
            "error_unseen": tried[best][0],
        }
        return tried[best][1]

    def _around(self, errors: np.ndarray) -> np.ndarray:
        """(V,) each vertex's error and those of its neighbours together, so that no vertex is
        trusted for its luck.
        """
        near = (self._laplacian.symmetric != 0).astype(np.float64)
        return np.sqrt((near @ errors**2) / np.asarray(near.sum(axis=1)).ravel().clip(min=1.0))


def _rms(field: np.ndarray) -> np.ndarray:
    """(T,n,3) -> (n,): the root mean square length."""
    return np.sqrt(
        np.einsum("tni,tni->n", field, field, optimize=True, dtype=np.float64) / max(1, len(field))
    )
