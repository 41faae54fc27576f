"""Simplex-constrained quadratic programs with a bounded support, many at once.

    minimise  f(w) = w^T R w    subject to    w >= 0,   sum_b w_b = 1,   at most K of w above zero

The choice of the K variables is combinatorial. For K = 1 and K = 2 all choices are tried. For each
larger K two heuristics run, and the better result of each problem is kept:

- backward: from the minimum over all variables, remove the variable whose loss costs least (exact
  while signs are free), solve again, down to K;
- forward: to the best K-1 variables add the one that lowers f most.

Both are followed by exchanges of single variables while those lower f. The forward search starts
from the better result for K-1, so a larger K never gives a larger objective. Letters as in
`simplex_qp.py`.
"""

from __future__ import annotations

import numpy as np

from understudy.geometry.simplex_qp import (
    ROUNDING,
    SimplexQP,
    Supports,
    objective,
    shifted_submatrix,
    solve_on_support,
    solve_simplex_qp,
)

_SWEEPS = 4  # of exchanges, at most
# Supports up to this size try to exchange each variable, larger ones the cheapest to remove.
_EXCHANGED = 4
_PAIR_BLOCK = 2**17  # pairs tried at a time: small enough for the processor's cache
_MIN_GAIN = 1e-6  # relative gain below which an exchange is not made


def solve_sparse_simplex_qp(problems: SimplexQP, max_support: int) -> list[Supports]:
    """The minima found with at most 1, 2, ..., `max_support` variables: a list of Supports.

    >>> corners = np.array([[1.0, 1.0], [1.0, -1.0], [5.0, 0.0]])
    >>> one, two = solve_sparse_simplex_qp(SimplexQP((corners @ corners.T)[None], np.ones(1)), 2)
    >>> one.index.tolist(), two.weight.round(6).tolist()
    ([[0]], [[0.5, 0.5]])
    """
    rows = np.arange(problems.count)
    levels = [Supports.single(np.argmin(problems.diagonal, axis=1))]
    if max_support > 1:
        levels.append(_best_pair(problems))
    if max_support < 3:
        return levels
    best, optimum = levels[-1], solve_simplex_qp(problems)
    backward = _backward(problems, optimum, max_support)
    for size in range(3, max_support + 1):
        solved = optimum.sizes <= size  # the minimum over all variables is sparse enough
        result = best.take(rows)
        open_rows = rows[~solved]
        if len(open_rows):
            one = _exchange(
                problems, open_rows, _forward(problems, open_rows, best.take(open_rows))
            )
            two = _exchange(problems, open_rows, backward[size].take(open_rows))
            better = objective(problems, open_rows, two) < objective(problems, open_rows, one)
            result.assign(open_rows[~better], one.take(~better))
            result.assign(open_rows[better], two.take(better))
        result.assign(rows[solved], optimum.take(solved).compact(size))
        best = result.compact()
        levels.append(best)
    return levels


def _best_pair(problems: SimplexQP) -> Supports:
    """The best pair of variables of each problem, over all pairs.

    For the vectors x and y of a pair, the minimum on the segment between them lies at the weight
    (|x|^2 - <x,y>) / |x - y|^2 of y, clipped to [0, 1].
    """
    rows = np.arange(problems.count)
    square = problems.diagonal
    first, second, share = (
        np.zeros(problems.count, np.int64),
        np.zeros(problems.count, np.int64),
        np.zeros(problems.count),
    )
    at_once = max(1, _PAIR_BLOCK // problems.variables**2)
    for start in range(0, problems.count, at_once):
        part = slice(start, start + at_once)
        across = square[part, :, None] - problems.matrix[part]  # |x|^2 - <x,y>
        value = across + across.transpose(0, 2, 1)  # |x - y|^2
        noise = ROUNDING * problems.scale[part] + np.finfo(float).tiny
        np.maximum(value, noise[:, None, None], out=value)
        weight = across / value
        np.clip(weight, 0.0, 1.0, out=weight)  # of y
        # f = |x|^2 + weight (weight |x - y|^2 - 2 across), in place
        value *= weight
        value -= across
        value -= across
        value *= weight
        value += square[part, :, None]
        first[part], second[part] = np.divmod(
            value.reshape(len(weight), -1).argmin(axis=1), problems.variables
        )
        share[part] = weight[np.arange(len(weight)), first[part], second[part]]
    weights = np.column_stack([1 - share, share])
    pair = Supports(np.column_stack([first, second]), weights, weights > 0)
    pair.used[:, 1] &= first != second
    pair.weight = np.where(pair.used, weights, 0.0)
    pair.weight /= pair.weight.sum(axis=1, keepdims=True)
    return solve_on_support(problems, rows, pair).compact()


def _backward(problems: SimplexQP, optimum: Supports, max_support: int) -> dict[int, Supports]:
    """Supports of at most 3 ... `max_support` variables, by removals from the optimum.

    One variable is removed at a time, the cheapest first.
    """
    now, levels = optimum.compact(), {}
    for size in range(now.index.shape[1], 2, -1):
        rows = np.flatnonzero(now.sizes > size)
        if len(rows):
            part = now.take(rows)
            fewer = part.drop(np.argmin(_removal_cost(problems, rows, part), axis=1)).compact()
            now.assign(rows, solve_on_support(problems, rows, fewer))
            now = now.compact()
        if size <= max_support:
            levels[size] = now.compact()
    for size in range(3, max_support + 1):
        levels.setdefault(size, optimum)
    return levels


def _plane_inverse(
    problems: SimplexQP, rows: np.ndarray, supports: Supports
) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of R in the plane sum w = 1 (m,s,s), and the minimum in that plane (m,s)."""
    inverse = np.linalg.inv(shifted_submatrix(problems, rows, supports))
    inverse *= supports.used[:, :, None] & supports.used[:, None, :]
    summed = inverse.sum(axis=2)
    total = summed.sum(axis=1)[:, None]
    return inverse - summed[:, :, None] * (summed / total)[:, None, :], summed / total


def _removal_cost(problems: SimplexQP, rows: np.ndarray, supports: Supports) -> np.ndarray:
    """The rise of f if a variable is removed and the others solved again: (m,s).

    With P the inverse of R in the plane sum w = 1, holding w_b at zero costs w_b^2 / P_bb. The cost
    of an unused slot is infinite.
    """
    inverse, _ = _plane_inverse(problems, rows, supports)
    diagonal = np.maximum(np.einsum("mss->ms", inverse), np.finfo(float).tiny)
    return np.where(supports.used, supports.weight**2 / diagonal, np.inf)


def _best_addition(
    problems: SimplexQP, rows: np.ndarray, supports: Supports, without: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The variable (m,) whose addition lowers f most, and a bound (m,) on the f that it reaches.

    without  (m,) a variable not to add

    Adding variable c moves the weights along d = e_c - a, where a (summing to one) is the
    projection of c onto the plane of the support. Along d the objective is the parabola
    f - 2 t (f - (R w)_c) + t^2 d^T R d, followed to its minimum or until a weight reaches zero.
    """
    inverse, middle = _plane_inverse(problems, rows, supports)
    used = supports.used[:, :, None]
    reach = problems.support_rows(rows, supports.index) * used
    slope = np.matmul(supports.weight[:, None, :], reach)[:, 0]
    value = np.sum(np.take_along_axis(slope, supports.index, axis=1) * supports.weight, axis=1)
    projection = np.matmul(inverse, reach) + middle[:, :, None]
    inner = problems.submatrix(rows, supports.index)
    square = problems.diagonal[rows]
    curvature = square + np.sum(projection * (np.matmul(inner, projection) - 2 * reach), axis=1)
    noise = ROUNDING * problems.scale[rows][:, None] + np.finfo(float).tiny
    curvature = np.maximum(curvature, noise)
    descent = np.maximum(value[:, None] - slope, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.where(
            used & (projection > 0), supports.weight[:, :, None] / projection, np.inf
        ).min(axis=1)
    step = np.minimum(descent / curvature, limit)
    gain = 2 * step * descent - step**2 * curvature
    np.put_along_axis(
        gain, np.where(supports.used, supports.index, supports.index[:, :1]), -1.0, axis=1
    )
    if without is not None:
        gain[np.arange(len(rows)), without] = -1.0
    variable = np.argmax(gain, axis=1)
    return variable, value - gain[np.arange(len(rows)), variable]


def _forward(problems: SimplexQP, rows: np.ndarray, supports: Supports) -> Supports:
    """The supports with the best additional variable, solved again."""
    variable, _ = _best_addition(problems, rows, supports)
    return solve_on_support(problems, rows, supports.add(variable)).compact()


def _exchange(problems: SimplexQP, rows: np.ndarray, supports: Supports) -> Supports:
    """The supports after exchanges of one variable for another, while those lower f."""
    best = supports.compact()
    value = objective(problems, rows, best)
    unsettled = np.arange(len(rows))
    for _ in range(_SWEEPS):
        changed = np.zeros(len(rows), bool)
        cheapest = np.argsort(
            _removal_cost(problems, rows[unsettled], best.take(unsettled)), axis=1
        )
        for turn in range(min(_EXCHANGED, best.index.shape[1])):
            slot = cheapest[:, turn : turn + 1]
            leaving = np.take_along_axis(best.index[unsettled], slot, axis=1)[:, 0]
            # An earlier exchange of this sweep may have moved the variable, or dropped it.
            here = (best.index[unsettled] == leaving[:, None]) & best.used[unsettled]
            able = here.any(axis=1) & (best.sizes[unsettled] > 1)
            at, slots, leaving = unsettled[able], here[able].argmax(axis=1), leaving[able]
            if not len(at):
                continue
            fewer = solve_on_support(problems, rows[at], best.take(at).drop(slots)).compact()
            entering, bound = _best_addition(problems, rows[at], fewer, leaving)
            noise = ROUNDING * problems.scale[rows[at]]
            promising = bound < value[at] * (1 - _MIN_GAIN) - noise
            at, fewer, entering = at[promising], fewer.take(promising), entering[promising]
            if not len(at):
                continue
            tried = solve_on_support(problems, rows[at], fewer.add(entering)).compact()
            reached = objective(problems, rows[at], tried)
            lower = reached < value[at] * (1 - _MIN_GAIN)
            best.assign(at[lower], tried.take(lower))
            value[at[lower]], changed[at[lower]] = reached[lower], True
        unsettled = np.flatnonzero(changed)
        if not len(unsettled):
            break
    return best.compact()
