"""`geometry`: the K bones that fit the example poses best, with weights fitted to those poses.

Paper: James & Twigg 2005, "Skinning mesh animations", as Le & Deng 2013 (section 4) describe its
weight reduction: from the dense weights select K bones, normalise their weights, then minimise

    sum_t |sum_b w_b M_tb [rest, 1] - y_t|^2       over the K weights of each vertex

Selection: bones are removed one at a time, each time the bone whose removal (the others scaled to
sum to one) moves the vertex least in the example poses.

Departure: the weights are convex; the minimum is exact (`geometry/simplex_qp.py`).

The name of the method is a row of the paper's tables and of the benchmark `two-layer`. It has
nothing to do with the package `understudy.geometry`.
"""

from __future__ import annotations

import numpy as np

from understudy.geometry.simplex_qp import SimplexQP, Supports, solve_on_support
from understudy.methods.skin_fitting.skin_weights import NormalEquations
from understudy.methods.sparse_skinning.dense import DenseSkin
from understudy_benchmarks.baselines.reduction import Reduction, largest, need_poses

_ROUNDING = 1e-9  # of the largest squared residual of a single bone


class Geometry(Reduction):
    """The K bones that fit the example poses best, with weights fitted to those poses."""

    name = "geometry"
    needs_examples = True

    def keep(self, dense: DenseSkin, influences: int) -> tuple[np.ndarray, np.ndarray]:
        """The K bones that remain after the removals, with fitted weights."""
        equations = NormalEquations.of(need_poses(dense, self.name), dense.chosen)
        index = np.zeros((len(dense.weights), influences), np.int64)
        weight = np.zeros((len(dense.weights), influences))
        for span in equations.chunks():
            problems = equations.problems(span)
            remaining = _remove_bones(problems, dense.weights[span], influences)
            bones, kept = largest(remaining, influences)
            support = Supports(np.where(kept > 0, bones, 0), kept, kept > 0)
            fitted = solve_on_support(problems, np.arange(problems.count), support)
            fitted = fitted.compact(influences)
            index[span], weight[span] = fitted.index, fitted.weight
        return index, weight


def _remove_bones(problems: SimplexQP, weights: np.ndarray, influences: int) -> np.ndarray:
    """The weights (n,B) after removals down to at most K bones per vertex.

    Removing bone b and scaling the others to sum to one changes the objective f = w^T R w to
    (f - 2 w_b (R w)_b + w_b^2 R_bb) / (1 - w_b)^2. The bone with the smallest result is removed.
    """
    weights = weights.copy()
    slope = np.matmul(problems.matrix, weights[:, :, None])[..., 0]  # R w
    square = problems.diagonal
    unfinished = np.flatnonzero((weights > 0).sum(axis=1) > influences)
    while len(unfinished):
        now, slope_now = weights[unfinished], slope[unfinished]
        others = 1.0 - now
        value = np.sum(now * slope_now, axis=1)[:, None]
        change = now**2 * square[unfinished] - 2 * now * slope_now
        # Where the fit is exact, the objective is rounding noise, and dividing the noise of a
        # dominant bone by its small rest would look like a gain.
        noise = _ROUNDING * square[unfinished].max(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            after = (np.maximum(value + change, 0) + noise) / others**2
        bone = np.argmin(np.where((now > 0) & (others > 0), after, np.inf), axis=1)
        rows = np.arange(len(unfinished))
        total = others[rows, bone][:, None]
        removed = now[rows, bone][:, None] * problems.matrix[unfinished, bone]
        slope[unfinished] = (slope_now - removed) / total
        now[rows, bone] = 0.0
        weights[unfinished] = now / total
        unfinished = unfinished[(now > 0).sum(axis=1) > influences]
    return weights
