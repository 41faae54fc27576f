"""Rounds: weights for given bones, bones for given weights, each solved exactly, so that the error
never rises.

With X the design matrix, X_i = [w_ib v~_i]_b (V,4B), and M the bones (R,4B) side by side, the
squared error is |Y - X M^T|^2:
    bones    affine: (X^T X + e) M^T = X^T Y + e M_before for all frames at once, from one Gram
             matrix
             rigid:  one bone at a time, by the rotation that fits best, in every frame (Le & Deng
                     2012, section 4.3), from the same Gram matrix
    rest     where it is free: one vertex at a time, from the same Gram matrix of the bones
    weights  per vertex, w^T R w on the simplex with at most K bones (see `_native/decompose.h`),
             the support searched anew
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.methods.decomposition import kernels
from understudy.methods.decomposition.motion import Motion

_RIDGE = 1e-9
_VERTICES = 2000  # whose rest is solved for at a time
_RESIDUAL = (
    1e-5  # of the right-hand side, where conjugate gradients stop: rounds go on from there anyway
)


@dataclass(eq=False)
class Fit:
    """columns (R,4B), index (V,K) int32, weight (V,K), value (V,) squared errors (with the
    smoothness term where there is one).
    """

    columns: np.ndarray
    index: np.ndarray
    weight: np.ndarray
    value: np.ndarray

    @property
    def bones(self) -> int:
        return self.columns.shape[1] // 4

    @property
    def error(self) -> float:
        return float(self.value.sum())


@dataclass(frozen=True)
class Search:
    """How hard to look for each vertex's bones. influences None: all."""

    influences: int | None = 4
    candidates: int = 2
    exchanges: int = 3
    from_all: bool = False


def predict(motion: Motion, fit: Fit) -> np.ndarray:
    """Where the fit puts the vertices: (V,R)."""
    design = np.zeros((motion.vertex_count, fit.bones, 4))
    rows = np.arange(motion.vertex_count)
    for k in range(fit.index.shape[1]):
        design[rows, fit.index[:, k]] += fit.weight[:, k, None] * motion.rest
    return design.reshape(motion.vertex_count, -1) @ fit.columns.T


def dense_weights(fit: Fit) -> np.ndarray:
    """(V,B), zeros where a bone has nothing of a vertex."""
    result = np.zeros((len(fit.index), fit.bones))
    np.add.at(result, (np.arange(len(result))[:, None], fit.index), fit.weight)
    return result


def with_weights(
    motion: Motion,
    columns: np.ndarray,
    index: np.ndarray,
    weight: np.ndarray,
    search: Search,
    smooth=None,
) -> Fit:
    """The best weights found for these bones, from those given. `smooth`: a function of (index,
    weight) to (anchor, strength).
    """
    bones = columns.shape[1] // 4
    places = bones if search.influences is None else min(search.influences, bones)
    if index.shape[1] < places:
        more = ((0, 0), (0, places - index.shape[1]))
        index, weight = np.pad(index, more), np.pad(weight, more)
    anchor, strength = (None, None) if smooth is None else smooth(index, weight, bones)
    index, weight, value = kernels.solve_weights(
        motion.rest,
        motion.targets,
        columns,
        index,
        weight,
        search.candidates,
        search.exchanges,
        search.from_all,
        anchor,
        strength,
        motion.square,
    )
    return Fit(columns, index, weight, value)


def affine_bones(
    motion: Motion,
    fit: Fit,
    moving: np.ndarray | None = None,
    alone: float = 0.0,
    solver: str = "direct",
) -> np.ndarray:
    """All bones of all rows by least squares, those in `moving` where it is given; the ridge holds
    what the vertices leave open where it was.

    alone:  adds  alone * sum over i, b of w_ib |M_b v~_i - y_i|^2:  a bone should also do a little
            by itself, not only against others
    solver: of all bones at once, "direct" or "conjugate_gradients"
    """
    gram, cross = kernels.normal_equations(
        motion.rest, fit.index, fit.weight, motion.targets, fit.bones
    )
    columns = fit.columns
    if alone:
        blocks = gram.reshape(fit.bones, 4, fit.bones, 4)
        every = np.arange(fit.bones)
        blocks[every, :, every, :] += alone * kernels.moments(
            motion.rest, fit.index, fit.weight, fit.bones
        )
        cross *= 1 + alone
    if moving is not None and not moving.all():
        free = np.repeat(moving, 4)
        cross = cross[free] - gram[np.ix_(free, ~free)] @ columns[:, ~free].T
        gram = gram[np.ix_(free, free)]
        columns = columns.copy()
        if free.any():
            columns[:, free] = _solve(gram, cross, columns[:, free])
        return columns
    return _solve(gram, cross, columns, solver)


def _solve(
    gram: np.ndarray, cross: np.ndarray, before: np.ndarray, solver: str = "direct"
) -> np.ndarray:
    ridge = _RIDGE * np.trace(gram) / len(gram) + 1e-300
    if solver == "conjugate_gradients":
        return np.ascontiguousarray(
            _conjugate_gradients(
                gram + ridge * np.eye(len(gram)), cross + ridge * before.T, before.T
            ).T
        )
    return np.ascontiguousarray(kernels.solve_positive(gram, cross + ridge * before.T, ridge).T)


def _conjugate_gradients(gram: np.ndarray, right: np.ndarray, start: np.ndarray) -> np.ndarray:
    """X of gram X = right, every column on its own path but all at once; each bone's 4x4 block of
    the diagonal is the preconditioner.
    """
    bones = len(gram) // 4
    every = np.arange(bones)
    blocks = np.linalg.pinv(gram.reshape(bones, 4, bones, 4)[every, :, every, :], hermitian=True)
    eased = lambda left: (blocks @ left.reshape(bones, 4, -1)).reshape(left.shape)
    result, left = start.copy(), right - gram @ start
    step = eased(left)
    size = np.einsum("nr,nr->r", left, step)
    enough = _RESIDUAL**2 * np.einsum("nr,nr->r", right, eased(right))
    for _ in range(len(gram)):
        if (size <= enough).all():
            break
        ahead = gram @ step
        bend = np.einsum("nr,nr->r", step, ahead)
        length = np.divide(size, bend, out=np.zeros_like(size), where=bend > 0)
        result += length * step
        left -= length * ahead
        after = eased(left)
        before, size = size, np.einsum("nr,nr->r", left, after)
        step = after + np.divide(size, before, out=np.zeros_like(size), where=before > 0) * step
    return result


def best_rest(motion: Motion, fit: Fit, near: np.ndarray, hold: float) -> np.ndarray:
    """The rest shape (V,4) for these bones and weights: every vertex by least squares over all
    rows, with  hold |v - near_i|^2  added, near (V,4).
    """
    bones, weights, result = fit.bones, dense_weights(fit), near.copy()
    gram = (
        (fit.columns.T @ fit.columns)
        .reshape(bones, 4, bones, 4)
        .transpose(0, 2, 1, 3)
        .reshape(bones, -1)
    )
    for start in range(0, len(weights), _VERTICES):
        part = slice(start, start + _VERTICES)
        weight = weights[part]
        square = np.einsum("vb,vbij->vij", weight, (weight @ gram).reshape(-1, bones, 4, 4))
        pull = np.einsum(
            "vb,vbi->vi",
            weight,
            kernels.product(motion.targets[part], fit.columns).reshape(-1, bones, 4),
        )
        right = pull[:, :3] - square[:, :3, 3] + hold * near[part, :3]
        result[part, :3] = np.linalg.solve(square[:, :3, :3] + hold * np.eye(3), right[..., None])[
            ..., 0
        ]
    return result


def rigid_bones(
    motion: Motion, fit: Fit, sweeps: int, moving: np.ndarray | None = None
) -> np.ndarray:
    """Sweeps over the bones, from where they are."""
    gram, cross = kernels.normal_equations(
        motion.rest, fit.index, fit.weight, motion.targets, fit.bones
    )
    by_frame = lambda columns: np.ascontiguousarray(columns).reshape(-1, 3, 4 * fit.bones)
    moving = np.ones(fit.bones, bool) if moving is None else moving
    return kernels.rigid_sweeps(
        gram, by_frame(cross.T), moving, by_frame(fit.columns), sweeps
    ).reshape(fit.columns.shape)


def nearest_rigid(columns: np.ndarray, moving: np.ndarray, else_columns: np.ndarray) -> np.ndarray:
    """Bones (3F,4B) with their 3x3 parts made rotations; those not `moving` as in
    `else_columns`.
    """
    bones = columns.reshape(-1, 3, len(moving), 4).transpose(0, 2, 1, 3).copy()
    bones[..., :3] = kernels.nearest_rotations(bones[..., :3])
    kept = else_columns.reshape(-1, 3, len(moving), 4).transpose(0, 2, 1, 3)
    bones[:, ~moving] = kept[:, ~moving]
    return np.ascontiguousarray(bones.transpose(0, 2, 1, 3)).reshape(columns.shape)
