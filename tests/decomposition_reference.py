"""The compiled kernels of `methods/decomposition/native` in NumPy: what they are tested against.

`solve/kernels.py` documents the arguments; `geometry.simplex_qp` solves the weights within a given
set of bones.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from understudy.geometry.simplex_qp import (
    SimplexQP,
    Supports,
    half_gradient,
    objective,
    solve_on_support,
    solve_simplex_qp,
)
from understudy.methods.decomposition.solve.motion import WeightProblem, WeightSearch

_BLOCK_BYTES = 2**26  # of the residual products (n,B,B) in memory at a time
_MIN_GAIN = 1e-9  # relative decrease below which an exchange of bones is not made
_BARRED = 1e3  # times the largest products: the residuals of bones that a vertex may not use
_ROUNDING = 1e-14  # relative to the numbers that cancelled: smaller differences are noise


def solve_weights(
    problem: WeightProblem, search: WeightSearch, index: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return index (V,K), weight (V,K) and the minimised value (V,)."""
    places = index.shape[1]
    index, weight, value = index.copy(), weight.copy(), np.empty(problem.vertex_count)
    block = max(1, _BLOCK_BYTES // (8 * problem.bones * problem.bones))
    for start in range(0, problem.vertex_count, block):
        part = slice(start, start + block)
        qp = _simplex_qp(problem.part(part))
        found = _start(qp, index[part], weight[part])
        every = np.arange(qp.count)
        if search.from_all and places < problem.bones:
            other = _exchange(qp, _reduce(qp, solve_simplex_qp(qp), places), places, search)
            found = _exchange(qp, found, places, search)
            better = np.flatnonzero(objective(qp, every, other) < objective(qp, every, found))
            found.assign(better, other.take(better))
        else:
            found = _exchange(qp, found, places, search)
        found = found.compact(places)
        index[part], weight[part] = found.index, found.weight
        value[part] = np.maximum(objective(qp, every, found), 0)
    return index, weight, value


def design(rest: np.ndarray, index: np.ndarray, weight: np.ndarray, bones: int) -> np.ndarray:
    """Return the design matrix (V,4B)."""
    result = np.zeros((len(rest), bones, 4))
    rows = np.arange(len(rest))
    for k in range(index.shape[1]):
        np.add.at(result, (rows, index[:, k]), weight[:, k, None] * rest)
    return result.reshape(len(rest), -1)


def normal_equations(
    rest: np.ndarray, index: np.ndarray, weight: np.ndarray, targets: np.ndarray, bones: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return X^T X (4B,4B) and X^T Y (4B,R)."""
    matrix = design(rest, index, weight, bones)
    return matrix.T @ matrix, matrix.T @ targets


def solve_positive(gram: np.ndarray, right: np.ndarray, ridge: float) -> np.ndarray:
    """Return X (n,R) of (gram + ridge I) X = right."""
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), right)


def rigid_sweeps(
    gram: np.ndarray, cross: np.ndarray, transforms: np.ndarray, sweeps: int
) -> np.ndarray:
    """Return rigid transforms (F,3,4B) after some sweeps of exact updates of one bone at a time."""
    transforms = transforms.copy()
    for _ in range(sweeps):
        for bone in range(gram.shape[0] // 4):
            own = slice(4 * bone, 4 * bone + 4)
            block = gram[own, own]
            mass = block[3, 3]
            if not mass > 0:
                continue
            before = transforms[:, :, own]
            # What the other bones leave for this one. The small multiple of the present rotation
            # decides where the vertices of the bone do not determine the new one.
            residual = cross[:, :, own] - transforms @ gram[:, own] + before @ block
            correlation = (
                residual[..., :3]
                - residual[..., 3:] * (block[3, :3] / mass)
                + 1e-9 * np.trace(block[:3, :3]) * before[..., :3]
            )
            rotation = nearest_rotations(correlation)
            translation = (residual[..., 3] - rotation @ block[3, :3]) / mass
            transforms[:, :, own] = np.concatenate([rotation, translation[..., None]], axis=2)
    return transforms


def nearest_rotations(matrices: np.ndarray) -> np.ndarray:
    """Return for each H of (...,3,3) the rotation R that maximises tr(R^T H)."""
    left, _, right = np.linalg.svd(matrices)
    flip = np.linalg.det(left) * np.linalg.det(right) < 0
    left[..., :, 2] *= np.where(flip, -1.0, 1.0)[..., None]
    return left @ right


def _simplex_qp(problem: WeightProblem) -> SimplexQP:
    """Return R of every vertex: R_bc = <M_b v~ - y, M_c v~ - y>.

    On weights w that sum to one, w^T R w is the value to minimise.
    """
    bones, rest, transforms = problem.bones, problem.rest, problem.transforms
    gram = (transforms.T @ transforms).reshape(bones, 4, bones, 4)
    products = np.einsum("bjck,vj,vk->vbc", gram, rest, rest, optimize=True)
    linear = np.einsum("vbj,vj->vb", (problem.targets @ transforms).reshape(-1, bones, 4), rest)
    square = problem.square
    scale = square + np.einsum("vbb->vb", products).max(axis=1)
    residuals = products - linear[:, :, None] - linear[:, None, :] + square[:, None, None]
    if problem.allowed is not None:  # no other bone gains anything by entering
        barred = ~(problem.allowed[:, :, None] & problem.allowed[:, None, :])
        residuals = np.where(barred, _BARRED * scale[:, None, None], residuals)
    return SimplexQP(residuals, scale)


def _start(qp: SimplexQP, index: np.ndarray, weight: np.ndarray) -> Supports:
    """Return the best weights on the given bones, or on the best single bone if none are given."""
    single = Supports.single(np.argmin(qp.diagonal, axis=1))
    given = Supports(np.where(weight > 0, index, 0).astype(np.int64), weight.copy(), weight > 0)
    none = np.flatnonzero(~given.used.any(axis=1))
    given.assign(none, single.take(none))
    return solve_on_support(qp, np.arange(qp.count), given.compact())


def _exchange(qp: SimplexQP, found: Supports, influences: int, search: WeightSearch) -> Supports:
    """Add bones, and remove another one where there are already K, while that lowers the value."""
    live = np.arange(qp.count)
    for _ in range(search.exchanges):
        if not len(live):
            break
        held = found.take(live).compact()
        value = objective(qp, live, held)
        best, best_value = held.take(np.arange(len(live))), value.copy()
        ranked, promising = _entering_bones(qp, live, held, search.candidates)
        for column in range(ranked.shape[1]):
            rows = np.flatnonzero(promising[:, column])
            entering = ranked[rows, column]
            for other, at in _with_bone(qp, live, held, rows, entering, influences):
                other_value = objective(qp, live[at], other)
                better = other_value < best_value[at]
                best.assign(at[better], other.take(better))
                best_value[at[better]] = other_value[better]
        going = best_value < value - _MIN_GAIN * value - _ROUNDING * qp.scale[live]
        found.assign(live[going], best.take(going))
        live = live[going]
    return found


def _with_bone(
    qp: SimplexQP,
    live: np.ndarray,
    held: Supports,
    rows: np.ndarray,
    entering: np.ndarray,
    influences: int,
) -> Iterator[tuple[Supports, np.ndarray]]:
    """Yield supports with one more bone, and the rows they belong to.

    Supports that then have more than K bones appear once for each bone that can be removed.
    """
    if not len(rows):
        return
    wide = solve_on_support(qp, live[rows], held.take(rows).add(entering)).compact()
    fits = wide.sizes <= influences
    yield wide.take(fits), rows[fits]
    over = np.flatnonzero(~fits)
    for place in range(wide.index.shape[1]):
        able = over[wide.used[over, place] & (wide.index[over, place] != entering[over])]
        if len(able):
            without = wide.take(able).drop(np.full(len(able), place))
            yield solve_on_support(qp, live[rows[able]], without).compact(), rows[able]


def _entering_bones(
    qp: SimplexQP, live: np.ndarray, held: Supports, candidates: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bones (n,c) with the largest gain of a line search, and which have any gain."""
    slope, value = half_gradient(qp, live, held)
    gap = value[:, None] - slope
    noise = _ROUNDING * qp.scale[live][:, None]
    length = np.maximum(qp.diagonal[live] - 2 * slope + value[:, None], noise + 1e-290)
    gain = np.where(gap < length, gap**2 / length, 2 * gap - length)
    gain = np.where(gap > 1e-9 * value[:, None] + noise, gain, -1.0)
    inside = np.zeros(gain.shape, bool)
    np.logical_or.at(inside, (np.arange(len(live))[:, None], held.index), held.used)
    gain[inside] = -1.0
    order = np.argsort(-gain, axis=1, kind="stable")[:, :candidates]
    return order, np.take_along_axis(gain, order, axis=1) > 0


def _reduce(qp: SimplexQP, found: Supports, influences: int) -> Supports:
    """Reduce supports to K bones, removing the least useful bone each time."""
    found = found.compact()
    while (found.sizes > influences).any():
        rows = np.flatnonzero(found.sizes > influences)
        part, best_value, best = found.take(rows), np.full(len(rows), np.inf), found.take(rows)
        for place in range(part.index.shape[1]):
            able = np.flatnonzero(part.used[:, place])
            if len(able):
                fewer = part.take(able).drop(np.full(len(able), place))
                without = solve_on_support(qp, rows[able], fewer)
                value = objective(qp, rows[able], without)
                better = value < best_value[able]
                best.assign(able[better], without.take(better))
                best_value[able[better]] = value[better]
        found.assign(rows, best)
        found = found.compact()
    return found
