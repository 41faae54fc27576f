"""The loops over vertices and frames: compiled where the package was built with a compiler, else
the NumPy reference, which says so once.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

import numpy as np
from threadpoolctl import threadpool_limits

from understudy.methods.decomposition import reference

try:
    from understudy.methods.decomposition import _decompose as compiled
except ImportError:  # put together without a compiler
    compiled = None

_warned = False
_BYTES = 2**25  # of a block of vertices times all bones
_LARGE = 2e7  # multiply-adds from which a product is worth a second thread
# bones per influence up to which a plain product with the zeros of the design is faster than going
# round them
_DENSE = 12


def threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def own_threads():
    """Inside, BLAS keeps to the thread that calls it: its own threads go on spinning for a while
    after each product, and ours wait for them.
    """
    with threadpool_limits(1, "blas"):
        yield


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left @ right, where it is large on several threads, each with some columns of the result or
    some of its rows.
    """
    rows, columns, count = len(left), right.shape[1], threads()
    if count == 1 or rows * left.shape[1] * columns < _LARGE:
        return left @ right
    result = np.empty((rows, columns))
    by_row = rows >= columns
    edges = np.linspace(0, max(rows, columns), count + 1).astype(int)
    parts = [slice(*pair) for pair in zip(edges[:-1], edges[1:])]
    one = lambda part: (
        np.matmul(left[part], right, out=result[part])
        if by_row
        else np.matmul(left, right[:, part], out=result[:, part])
    )
    mapped(one, parts)
    return result


def mapped(work: Callable, parts: Iterable) -> list:
    """[work(part) for part in parts], on all threads; worth it for work that NumPy does without
    holding Python up.
    """
    return list(_pool(threads()).map(work, parts))


@cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="understudy")


def solve_weights(
    rest,
    targets,
    columns,
    index,
    weight,
    candidates: int,
    exchanges: int,
    from_all: bool = False,
    anchor=None,
    strength=None,
    square=None,
):
    """Weights of every vertex on the simplex with at most K bones, never worse than those given.

    rest (V,4); targets (V,R); columns (R,4B); index (V,K) int32 and weight (V,K): feasible start,
    weight 0 where a place is free candidates, exchanges   bones tried for entry at a time, and how
    many times from_all                also come down from the best weights over all bones, and keep
    the better anchor (V,B), strength (V,): adds strength |w - anchor|^2 square (V,)
    |target|^2 where it is known returns index (V,K), weight (V,K) heaviest first, and the squared
    error (V,)
    """
    native = _native()
    if native is None:
        return reference.solve_weights(
            rest, targets, columns, index, weight, candidates, exchanges, from_all, anchor, strength
        )
    index, weight, value = index.copy(), weight.copy(), np.empty(len(rest))
    square = np.einsum("vr,vr->v", targets, targets) if square is None else square
    gram = columns.T @ columns
    for part in _blocks(len(rest), len(gram)):
        given = (
            rest[part],
            square[part],
            product(targets[part], columns),
            gram,
            index[part],
            weight[part],
            value[part],
        )
        pull = (None, None) if anchor is None else (anchor[part], strength[part])
        native.solve_weights(*given, candidates, exchanges, from_all, threads(), *pull)
    return index, weight, value


def _blocks(vertices: int, width: int) -> list[slice]:
    """The vertices in stretches, so that no array of one row of `width` numbers per vertex grows
    large.
    """
    step = max(1, _BYTES // (8 * width))
    return [slice(start, min(start + step, vertices)) for start in range(0, vertices, step)]


def solve_positive(gram: np.ndarray, right: np.ndarray, ridge: float) -> np.ndarray:
    """X of (gram + ridge) X = right: gram (n,n) symmetric and positive, right (n,R)."""
    native = _native()
    if native is None:
        return reference.solve_positive(gram, right, ridge)
    result = np.array(right, np.float64, order="C")
    native.solve_positive(np.ascontiguousarray(gram), result, ridge, threads())
    return result


def normal_equations(rest, index, weight, motion, bones: int) -> tuple[np.ndarray, np.ndarray]:
    """gram (4B,4B) and cross (4B,R) of the design w_ib [v_i, 1] against motion (V,R)."""
    native = _native()
    if native is None:
        return reference.normal_equations(rest, index, weight, motion, bones)
    gram, cross = np.zeros((4 * bones, 4 * bones)), np.zeros((4 * bones, motion.shape[1]))
    if bones <= _DENSE * index.shape[1]:
        for part in _blocks(len(rest), 4 * bones):
            design = _design(rest[part], index[part], weight[part], bones)
            gram += product(design.T, design)
            cross += product(design.T, motion[part])
        return gram, cross
    native.normal_equations(rest, index, weight, motion, threads(), gram, cross)
    return gram, cross


def moments(rest, index, weight, bones: int) -> np.ndarray:
    """(B,4,4): sum over the vertices of w_ib v~_i v~_i^T."""
    total = np.zeros((4 * bones, 4))
    for part in _blocks(len(rest), 4 * bones):
        total += product(_design(rest[part], index[part], weight[part], bones).T, rest[part])
    return total.reshape(bones, 4, 4)


def _design(rest, index, weight, bones: int) -> np.ndarray:
    """(V,4B): w_ib [v_i, 1] for each of a vertex's bones, zeros elsewhere."""
    native = _native()
    if native is None:
        return reference.design(rest, index, weight, bones)
    design = np.empty((len(rest), 4 * bones))
    native.design(rest, index, weight, design)
    return design


def rigid_sweeps(gram, cross, moving, transforms, sweeps: int) -> np.ndarray:
    """Rigid bones, one at a time and exactly, in every frame: cross and transforms (F,3,4B), moving
    (B,) bool; returns new transforms.
    """
    native = _native()
    if native is None:
        return reference.rigid_sweeps(gram, cross, moving, transforms, sweeps)
    transforms = transforms.copy()
    native.rigid_sweeps(
        gram,
        np.ascontiguousarray(cross),
        np.ascontiguousarray(moving, np.uint8),
        transforms,
        sweeps,
        threads(),
    )
    return transforms


def nearest_rotations(matrices: np.ndarray) -> np.ndarray:
    """(...,3,3): the rotation R that maximises tr(R^T H) for each H."""
    native = _native()
    if native is None:
        return reference.nearest_rotations(matrices)
    flat = np.ascontiguousarray(matrices, np.float64).reshape(-1, 3, 3)
    rotations = np.empty_like(flat)
    native.nearest_rotations(flat, rotations)
    return rotations.reshape(matrices.shape)


def _native():
    global _warned
    if compiled is None and not _warned:
        _warned = True
        warnings.warn(
            "understudy was installed without its compiled kernels: decomposition runs in NumPy, "
            "many times slower",
            stacklevel=3,
        )
    return compiled
