"""Fewer bones: take away the ones that others can stand in for, one after the other."""

from __future__ import annotations

import numpy as np

from understudy.methods.decomposition.alternating_solve import (
    Fit,
    Search,
    affine_bones,
    with_weights,
)
from understudy.methods.decomposition.motion import Motion

_TRIED = 4  # bones whose going is tried out before one goes
_AT_ONCE = 12  # while there are many, a twelfth of them goes at a time
_BYTES = 2**26


def pruned(motion: Motion, fit: Fit, bones: int, influences: int, rounds: int = 2) -> Fit:
    """The fit with at most `bones` bones; after each removal a few rounds let the others take
    over.
    """
    search = lambda count: Search(min(influences, count), candidates=2, exchanges=1)
    while fit.bones > bones:
        order = np.argsort(standing_in(motion, fit), kind="stable")
        at_once = min(fit.bones - bones, max(1, fit.bones // _AT_ONCE))
        tried = (
            [order[:at_once]]
            if at_once > 1
            else [order[k : k + 1] for k in range(min(_TRIED, fit.bones))]
        )
        fits = [
            with_weights(motion, *_without(fit, gone, influences), search(fit.bones - len(gone)))
            for gone in tried
        ]
        fit = min(fits, key=lambda fit: fit.error)
        for _ in range(rounds):
            fit = with_weights(
                motion, affine_bones(motion, fit), fit.index, fit.weight, search(fit.bones)
            )
    return fit


def standing_in(motion: Motion, fit: Fit) -> np.ndarray:
    """(B,): about what squared error is added where a bone goes, each of its vertices taking the
    bone nearest to it instead: sum over i of w_ib^2 min_c |(M_b - M_c) v~_i|^2.
    """
    count, bones = motion.vertex_count, fit.bones
    gram = (fit.columns.T @ fit.columns).reshape(bones, 4, bones, 4).transpose(0, 2, 1, 3)
    cost = np.zeros(bones)
    if bones == 1:
        return cost
    step = max(1, _BYTES // (8 * bones * bones))
    for start in range(0, count, step):
        rest = motion.rest[start : start + step]
        inner = np.einsum("vi,bcij,vj->vbc", rest, gram, rest, optimize=True)
        own = np.einsum("vbb->vb", inner).copy()
        away = own[:, :, None] + own[:, None, :] - 2 * inner
        away[:, np.arange(bones), np.arange(bones)] = np.inf
        nearest = np.maximum(away.min(axis=2), 0)
        index, weight = fit.index[start : start + step], fit.weight[start : start + step]
        added = weight**2 * np.take_along_axis(nearest, index.astype(np.int64), axis=1)
        cost += np.bincount(index.ravel(), added.ravel(), bones)
    return cost


def _without(
    fit: Fit, gone: np.ndarray, influences: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, index and weight without some bones; a vertex that had nothing else is left to the
    weights' solver (no weight at all).
    """
    kept = np.setdiff1d(np.arange(fit.bones), gone)
    number = np.full(fit.bones, -1)
    number[kept] = np.arange(len(kept))
    index = number[fit.index]
    weight = np.where(index < 0, 0.0, fit.weight)
    order = np.argsort(-weight, axis=1, kind="stable")[:, : min(influences, len(kept))]
    index, weight = (
        np.take_along_axis(np.maximum(index, 0), order, axis=1),
        np.take_along_axis(weight, order, axis=1),
    )
    total = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 1e-9)
    columns = fit.columns.reshape(len(fit.columns), fit.bones, 4)[:, kept].reshape(
        len(fit.columns), -1
    )
    return (
        np.ascontiguousarray(columns),
        np.ascontiguousarray(index, np.int32),
        np.ascontiguousarray(weight),
    )
