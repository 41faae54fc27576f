"""`geometry`: the K bones that keep each vertex nearest to its example positions, their weights
fitted to those.

Follows James & Twigg 2005, "Skinning mesh animations", as Le & Deng 2013 (section 4) describe the
reduction: from the dense weights select the K bones with the best approximation, normalise their
weights, then minimise the error in the example poses by least squares.

Selection here: bones leave one at a time, each time the one whose loss (the others scaled to sum to
one) moves the vertex least in the example poses. The least squares are over convex weights, solved
exactly (`geometry.hull_point`).
"""

from __future__ import annotations

import numpy as np

from understudy.geometry.simplex_qp import Hulls, Supports, settle
from understudy.methods.skin_fitting.skin_weights import Grams
from understudy.methods.sparse_skinning.dense import DenseSkin
from understudy.methods.sparse_skinning.reduction import Reduction, largest


class Geometry(Reduction):
    """The K bones that keep each vertex nearest to its example positions."""

    name = "geometry"
    needs_examples = True

    def keep(self, dense: DenseSkin, influences: int) -> tuple[np.ndarray, np.ndarray]:
        grams = Grams.of(dense.poses, dense.chosen)
        index, weight = (
            np.zeros((len(dense.weights), influences), np.int64),
            np.zeros((len(dense.weights), influences)),
        )
        for span in grams.chunks():
            hulls = grams.residuals(span)
            index[span], kept = largest(_few(hulls, dense.weights[span], influences), influences)
            fitted = settle(
                hulls,
                np.arange(hulls.count),
                Supports(np.where(kept > 0, index[span], 0), kept, kept > 0),
            ).packed(influences)
            index[span], weight[span] = fitted.index, fitted.weight
        return index, weight


def _few(hulls: Hulls, weights: np.ndarray, influences: int) -> np.ndarray:
    """Weights (n,B) with at most K above zero: bones leave one at a time, the least missed first,
    the others scaled up.
    """
    weights = weights.copy()
    pull = np.matmul(hulls.products, weights[:, :, None])[..., 0]
    square = np.einsum("nbb->nb", hulls.products)
    live = np.flatnonzero((weights > 0).sum(axis=1) > influences)
    while len(live):
        now, towards = weights[live], pull[live]
        left = 1.0 - now
        value = np.sum(now * towards, axis=1)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            after = (value - 2 * now * towards + now**2 * square[live]) / left**2
        bone = np.argmin(np.where((now > 0) & (left > 0), after, np.inf), axis=1)
        rows = np.arange(len(live))
        share = left[rows, bone][:, None]
        pull[live] = (towards - now[rows, bone][:, None] * hulls.products[live, bone]) / share
        now[rows, bone] = 0.0
        weights[live] = now / share
        live = live[(now > 0).sum(axis=1) > influences]
    return weights
