"""Bones, weights and fit of temporal deep skinning as published (Moutafidou et al.).

1. Section 3: every vertex gets the six labels with the highest probabilities, normalised to sum to
   one. The labels that any vertex gets are the bones.
2. Section 3.2: transforms and weights are solved for in turn, five times, both by conjugate
   gradients on linear least squares. An extra equation per vertex asks its weights to sum to one.
   The bones of a vertex never change.

What the paper leaves open, and what is done here:
- The factor of the extra equation. It is large (`CONVEXITY`), so that the weights sum to one but
  for rounding; they are divided by their sum before the transforms are solved for.
- Section 2 says that weights are non-negative, Section 3.2 solves linear systems. Here negative
  weights are set to zero and the others solved for again, until none is negative.
- When conjugate gradients stop: at a relative residual of 1e-5 for transforms, 1e-8 for weights.
- The systems of different vertices share no unknown, nor do those of different frames. They are
  solved side by side, each with its own step lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from understudy.methods.decomposition.motion import Fit, Motion, with_exact_errors
from understudy.methods.decomposition.solves import LinearSolver, solve_transforms
from understudy.system.progress import SILENT, Progress

INFLUENCES = 6  # Section 3
ITERATIONS = 5  # Section 3.2
CONVEXITY = 100.0  # squared factor of the extra equation, in units of the mesh's radius
_TOLERANCE = 1e-8  # relative residual of the weights of a vertex
_BLOCK = 4096  # vertices at a time


def highest_labels(probabilities: np.ndarray, influences: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bones (V,K) int32 of each vertex and their weights (V,K), which sum to one.

    probabilities  (V,LABELS) of each label; labels that no vertex gets are left out of the numbers
    """
    places = min(influences, probabilities.shape[1])
    label = np.argsort(-probabilities, axis=1, kind="stable")[:, :places]
    weight = np.maximum(np.take_along_axis(probabilities, label, axis=1).astype(np.float64), 1e-12)
    index = np.unique(label, return_inverse=True)[1].reshape(label.shape)
    return np.ascontiguousarray(index, np.int32), weight / weight.sum(axis=1, keepdims=True)


def fit_as_published(
    motion: Motion,
    index: np.ndarray,
    weight: np.ndarray,
    iterations: int = ITERATIONS,
    solver: LinearSolver = "conjugate_gradients",
    progress: Progress = SILENT,
) -> tuple[Fit, list[float]]:
    """Return the fit from given bones (V,K) and weights (V,K), and its squared errors.

    The errors are those of the given weights, then after each iteration.
    """
    bones = int(index.max()) + 1
    fit = Fit(np.zeros((motion.rows, 4 * bones)), index, weight, motion.square)
    solve = lambda fit: with_exact_errors(
        motion, replace(fit, transforms=solve_transforms(motion, fit, solver=solver))
    )
    fit = solve(fit)
    errors = [fit.error]
    with progress.task(f"{iterations} iterations", iterations) as bar:
        for _ in range(iterations):
            fit = solve(replace(fit, weight=published_weights(motion, fit)))
            errors.append(fit.error)
            bar.advance()
    return fit, errors


def published_weights(motion: Motion, fit: Fit) -> np.ndarray:
    """Return the weights (V,K) on the bones of `fit` that fit its transforms best."""
    by_bone = fit.transforms.reshape(motion.rows, fit.bones, 4).transpose(1, 2, 0)
    flat = np.ascontiguousarray(by_bone.reshape(4 * fit.bones, -1))
    products = (flat @ flat.T).reshape(fit.bones, 4, fit.bones, 4).transpose(0, 2, 1, 3).copy()
    result = np.empty_like(fit.weight)
    for start in range(0, motion.vertex_count, _BLOCK):
        block = slice(start, start + _BLOCK)
        index, rest = fit.index[block], motion.rest[block]
        cross = (motion.targets[block] @ flat.T).reshape(len(rest), fit.bones, 4)
        own = np.take_along_axis(cross, index[:, :, None].astype(np.int64), axis=1)
        right = np.einsum("vki,vi->vk", own, rest)
        pairs = products[index[:, :, None], index[:, None, :]]
        gram = np.einsum("vklij,vi,vj->vkl", pairs, rest, rest, optimize=True)
        result[block] = _non_negative(gram + CONVEXITY, right + CONVEXITY, fit.weight[block])
    return result / result.sum(axis=1, keepdims=True)


def _non_negative(gram: np.ndarray, right: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return non-negative x (V,K) of gram x = right; negative ones become zero one set at a time.

    gram   (V,K,K), right (V,K)
    start  (V,K) where conjugate gradients start
    """
    free = np.ones(start.shape, bool)
    values = start
    for _ in range(start.shape[1]):
        multiply = lambda x, free=free: np.einsum("vkl,vl->vk", gram, x) * free
        values = _conjugate_gradients(multiply, right * free, values * free)
        negative = values < 0
        if not negative.any():
            break
        # The last weight of a vertex stays.
        negative &= (free & ~negative).any(axis=1, keepdims=True)
        free &= ~negative
    return np.maximum(values, 0) + 1e-30


def _conjugate_gradients(
    multiply: Callable[[np.ndarray], np.ndarray], right: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Return x (V,K) of many small systems by conjugate gradients, side by side."""
    values, residual = start.copy(), right - multiply(start)
    direction, size = residual.copy(), np.einsum("vk,vk->v", residual, residual)
    small = _TOLERANCE**2 * np.einsum("vk,vk->v", right, right)
    for _ in range(2 * start.shape[1]):
        going = size > small
        if not going.any():
            break
        image = multiply(direction)
        curvature = np.einsum("vk,vk->v", direction, image)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=going & (curvature > 0))
        values += step[:, None] * direction
        residual -= step[:, None] * image
        previous, size = size, np.einsum("vk,vk->v", residual, residual)
        ratio = np.divide(size, previous, out=np.zeros_like(size), where=going & (previous > 0))
        direction = residual + ratio[:, None] * direction
    return values
