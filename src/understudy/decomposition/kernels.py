"""The loops over vertices and frames: compiled where the package was built with a compiler, else the NumPy reference, which says so once."""

from __future__ import annotations

import os
import warnings

import numpy as np

from understudy.decomposition import reference

try:
    from understudy._native import _decompose as compiled
except ImportError:  # put together without a compiler
    compiled = None

_warned = False


def threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def solve_weights(rest, targets, columns, index, weight, candidates: int, exchanges: int, from_all: bool = False, anchor=None, strength=None):
    """Weights of every vertex on the simplex with at most K bones, never worse than those given.

    rest (V,4); targets (V,R); columns (R,4B); index (V,K) int32 and weight (V,K): feasible start, weight 0 where a place is free
    candidates, exchanges   bones tried for entry at a time, and how many times
    from_all                also come down from the best weights over all bones, and keep the better
    anchor (V,B), strength (V,): adds strength |w - anchor|^2
    returns index (V,K), weight (V,K) heaviest first, and the squared error (V,)
    """
    native = _native()
    if native is None:
        return reference.solve_weights(rest, targets, columns, index, weight, candidates, exchanges, from_all, anchor, strength)
    index, weight, value = index.copy(), weight.copy(), np.empty(len(rest))
    native.solve_weights(rest, targets, columns, index, weight, value, candidates, exchanges, from_all, threads(), anchor, strength)
    return index, weight, value


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
    gram, cross = np.empty((4 * bones, 4 * bones)), np.empty((4 * bones, motion.shape[1]))
    native.normal_equations(rest, index, weight, motion, threads(), gram, cross)
    return gram, cross


def rigid_sweeps(gram, cross, moving, transforms, sweeps: int) -> np.ndarray:
    """Rigid bones, one at a time and exactly, in every frame: cross and transforms (F,3,4B), moving (B,) bool; returns new transforms."""
    native = _native()
    if native is None:
        return reference.rigid_sweeps(gram, cross, moving, transforms, sweeps)
    transforms = transforms.copy()
    native.rigid_sweeps(gram, np.ascontiguousarray(cross), np.ascontiguousarray(moving, np.uint8), transforms, sweeps, threads())
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
        warnings.warn("understudy was installed without its compiled kernels: decomposition runs in NumPy, many times slower", stacklevel=3)
    return compiled
