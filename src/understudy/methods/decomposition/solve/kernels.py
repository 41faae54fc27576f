"""The loops over vertices and frames, which are compiled; `native/decompose.h` documents them."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.methods.compiled import compiled_part
from understudy.methods.decomposition.solve.motion import WeightProblem, WeightSearch
from understudy.system import tasks, threads

_BLOCK_BYTES = 2**25  # of an array with one row per vertex and one entry per bone
_PARALLEL = 2e7  # multiply-adds from which a matrix product is split over threads
# Up to this many bones per influence, a dense product is faster than skipping the zeros of the
# design matrix.
_DENSE = 12


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return left @ right, computed on all threads if it is large."""
    rows, columns, count = len(left), right.shape[1], threads.count()
    if count == 1 or rows * left.shape[1] * columns < _PARALLEL:
        return left @ right
    result = np.empty((rows, columns))
    by_row = rows >= columns
    edges = np.linspace(0, max(rows, columns), count + 1).astype(int)
    parts = [slice(*pair) for pair in zip(edges[:-1], edges[1:])]
    multiply = lambda part: (
        np.matmul(left[part], right, out=result[part])
        if by_row
        else np.matmul(left, right[:, part], out=result[:, part])
    )
    tasks.parallel_map(multiply, parts)
    return result


def solve_weights(
    problem: WeightProblem, search: WeightSearch, index: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights on at most K bones per vertex, never worse than the given ones.

    problem  what to minimise
    search   how thoroughly to search
    index    (V,K) int32 and weight (V,K): feasible start; weight zero marks an unused place

    Returns index (V,K), weight (V,K) with the largest first, and the minimised value (V,).
    """
    native = compiled()
    index, weight, value = index.copy(), weight.copy(), np.empty(problem.vertex_count)
    gram = problem.transforms.T @ problem.transforms
    for part in _blocks(problem.vertex_count, len(gram)):
        some = problem.part(part)
        native.solve_weights(
            rest=some.rest,
            square=some.square,
            linear=product(some.targets, some.transforms),
            gram=gram,
            index=index[part],
            weight=weight[part],
            value=value[part],
            candidates=search.candidates,
            exchanges=search.exchanges,
            from_all=search.from_all,
            threads=threads.count(),
            allowed=None if some.allowed is None else some.allowed.view(np.uint8),
        )
    return index, weight, value


def _blocks(vertices: int, width: int) -> list[slice]:
    """Return consecutive ranges of vertices; an array (n,width) of one range stays small."""
    step = max(1, _BLOCK_BYTES // (8 * width))
    return [slice(start, min(start + step, vertices)) for start in range(0, vertices, step)]


def solve_positive(gram: np.ndarray, right: np.ndarray, ridge: float) -> np.ndarray:
    """Return X (n,R) of (gram + ridge I) X = right; gram (n,n) positive semi-definite."""
    result = np.array(right, np.float64, order="C")
    compiled().solve_positive(np.ascontiguousarray(gram), result, ridge, threads.count())
    return result


def normal_equations(
    rest: np.ndarray, index: np.ndarray, weight: np.ndarray, targets: np.ndarray, bones: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return X^T X (4B,4B) and X^T Y (4B,R) of the design matrix X_i = [w_ib v~_i]_b.

    rest     (V,4) homogeneous rest positions
    index    (V,K) int32 and weight (V,K): the skin weights
    targets  (V,R), Y
    bones    B
    """
    gram, cross = np.zeros((4 * bones, 4 * bones)), np.zeros((4 * bones, targets.shape[1]))
    if bones <= _DENSE * index.shape[1]:
        for part in _blocks(len(rest), 4 * bones):
            design = _design(rest[part], index[part], weight[part], bones)
            gram += product(design.T, design)
            cross += product(design.T, targets[part])
        return gram, cross
    compiled().normal_equations(rest, index, weight, targets, threads.count(), gram, cross)
    return gram, cross


def moments(rest: np.ndarray, index: np.ndarray, weight: np.ndarray, bones: int) -> np.ndarray:
    """Return the weighted second moments (B,4,4) of each bone: sum over i of w_ib v~_i v~_i^T."""
    total = np.zeros((4 * bones, 4))
    for part in _blocks(len(rest), 4 * bones):
        total += product(_design(rest[part], index[part], weight[part], bones).T, rest[part])
    return total.reshape(bones, 4, 4)


def _design(rest: np.ndarray, index: np.ndarray, weight: np.ndarray, bones: int) -> np.ndarray:
    """Return the design matrix (V,4B): w_ib [v_i, 1] for the bones of vertex i, else zero."""
    design = np.empty((len(rest), 4 * bones))
    compiled().design(rest, index, weight, design)
    return design


def rigid_sweeps(
    gram: np.ndarray, cross: np.ndarray, transforms: np.ndarray, sweeps: int
) -> np.ndarray:
    """Return rigid transforms (F,3,4B) after some sweeps of exact updates of one bone at a time.

    gram        (4B,4B) and cross (F,3,4B): the normal equations
    transforms  (F,3,4B) rigid transforms to start from
    sweeps      how often every bone is updated
    """
    transforms = transforms.copy()
    compiled().rigid_sweeps(gram, np.ascontiguousarray(cross), transforms, sweeps, threads.count())
    return transforms


def nearest_rotations(matrices: np.ndarray) -> np.ndarray:
    """Return for each H of (...,3,3) the rotation R that maximises tr(R^T H)."""
    flat = np.ascontiguousarray(matrices, np.float64).reshape(-1, 3, 3)
    rotations = np.empty_like(flat)
    compiled().nearest_rotations(flat, rotations)
    return rotations.reshape(matrices.shape)


def compiled() -> Any:
    """Return the compiled kernels."""
    return compiled_part("decomposition._decompose")
