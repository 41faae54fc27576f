"""Removing bones: those that the other bones replace best go first."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from understudy.methods.decomposition.solve.motion import Fit, Motion, WeightSearch, chosen_bones
from understudy.methods.decomposition.solve.solves import solve_transforms, solve_weights

_CANDIDATES = 4  # bones whose removal is tried before one is removed
_BATCH = 12  # while there are many bones, one twelfth of them is removed at a time
_BLOCK_BYTES = 2**26
_ITERATIONS = 2  # after each removal
_FAINT = 0.02  # largest weight of a bone; in 8 bits it is five steps


def prune_bones(motion: Motion, fit: Fit, bones: int, influences: int) -> Fit:
    """Return the fit with at most `bones` affine bones and `influences` per vertex.

    A few alternating iterations after each removal adapt the remaining bones.
    """
    while fit.bones > bones:
        batch = min(fit.bones - bones, max(1, fit.bones // _BATCH))
        if batch > 1:
            fit = _without(motion, fit, _cheapest(motion, fit)[:batch], influences)
        else:
            tried = without_one_bone(motion, fit, influences, _CANDIDATES)
            fit = min(tried, key=lambda fit: fit.error)
        for _ in range(_ITERATIONS):
            transforms = solve_transforms(motion, fit)
            search = _search(influences, fit.bones)
            fit = solve_weights(motion, transforms, (fit.index, fit.weight), search)
    return fit


def without_one_bone(motion: Motion, fit: Fit, influences: int, tries: int) -> Iterator[Fit]:
    """Yield the fits without one of the `tries` bones that the others replace best."""
    for bone in _cheapest(motion, fit)[: min(tries, fit.bones)]:
        yield _without(motion, fit, np.array([bone]), influences)


def _cheapest(motion: Motion, fit: Fit) -> np.ndarray:
    """Return the bones (B,), those that the others replace best first."""
    return np.argsort(removal_costs(motion, fit), kind="stable")


def _search(influences: int, bones: int) -> WeightSearch:
    return WeightSearch(min(influences, bones), candidates=2, exchanges=1)


def without_faint_bones(fit: Fit) -> np.ndarray:
    """Return the transforms (3F,4B) of the bones that have more than faint weights.

    A bone of an affine fit may have faint weights and, to be of use, transforms that move vertices
    very far. Such transforms need more bits than all others, and engines with weights of 8 bits
    round the product of the two coarsely.
    """
    largest = np.zeros(fit.bones)
    np.maximum.at(largest, fit.index.reshape(-1), fit.weight.reshape(-1))
    return chosen_bones(fit.transforms, largest >= _FAINT)


def removal_costs(motion: Motion, fit: Fit) -> np.ndarray:
    """Return an estimate (B,) of the squared error that removing each bone adds.

    Each vertex takes the bone that moves it most similarly instead:
    sum over i of w_ib^2 min_c |(M_b - M_c) v~_i|^2.
    """
    bones = fit.bones
    gram = (fit.transforms.T @ fit.transforms).reshape(bones, 4, bones, 4).transpose(0, 2, 1, 3)
    cost = np.zeros(bones)
    if bones == 1:
        return cost
    step = max(1, _BLOCK_BYTES // (8 * bones * bones))
    for start in range(0, motion.vertex_count, step):
        rest = motion.rest[start : start + step]
        inner = np.einsum("vi,bcij,vj->vbc", rest, gram, rest, optimize=True)
        own = np.einsum("vbb->vb", inner).copy()
        distance = own[:, :, None] + own[:, None, :] - 2 * inner
        distance[:, np.arange(bones), np.arange(bones)] = np.inf
        nearest = np.maximum(distance.min(axis=2), 0)
        index, weight = fit.index[start : start + step], fit.weight[start : start + step]
        added = weight**2 * np.take_along_axis(nearest, index.astype(np.int64), axis=1)
        cost += np.bincount(index.ravel(), added.ravel(), bones)
    return cost


def _without(motion: Motion, fit: Fit, removed: np.ndarray, influences: int) -> Fit:
    """Return the fit without some bones (n,), with weights solved for again.

    Vertices that followed only removed bones get no weight, so the weight step starts afresh for
    them.
    """
    kept = np.setdiff1d(np.arange(fit.bones), removed)
    new_index = np.full(fit.bones, -1)
    new_index[kept] = np.arange(len(kept))
    index = new_index[fit.index]
    weight = np.where(index < 0, 0.0, fit.weight)
    order = np.argsort(-weight, axis=1, kind="stable")[:, : min(influences, len(kept))]
    index = np.take_along_axis(np.maximum(index, 0), order, axis=1)
    weight = np.take_along_axis(weight, order, axis=1)
    total = weight.sum(axis=1, keepdims=True)
    weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 1e-9)
    start = np.ascontiguousarray(index, np.int32), np.ascontiguousarray(weight)
    search = _search(influences, len(kept))
    return solve_weights(motion, chosen_bones(fit.transforms, kept), start, search)
