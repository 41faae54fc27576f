"""Convex quadratic programs over the simplex, many at once, by Wolfe's active-set method.

Each problem has B variables, the weights w, and a positive semi-definite matrix R (B,B):

    minimise  f(w) = w^T R w    subject to    w >= 0,   sum_b w_b = 1

With R_bc = <D_b, D_c> this is simplex-constrained least squares: the point of the convex hull of
the vectors D_b that is nearest to the origin (Wolfe 1976, "Finding the nearest point in a
polytope"). The support of w is the set of variables that are not held at zero. Wolfe's method
repeats:

1. add to the support the variable with the smallest (R w)_b;
2. minimise f exactly over the weights of the support, which sum to one (signs free);
3. step towards that minimum until a weight reaches zero, remove that variable, go to 2;

and ends when no (R w)_b is below w^T R w (the KKT gap) by more than rounding. Each step is taken
for all problems together; solved problems are left out of the next one.

With at most K of w above zero, the choice of the K variables is combinatorial. For K = 1 and K = 2
all choices are tried. For each larger K two heuristics run, and the better result of each problem
is kept:

- backward: from the minimum over all variables, remove the variable whose loss costs least (exact
  while signs are free), solve again, down to K;
- forward: to the best K-1 variables add the one that lowers f most.

Both are followed by exchanges of single variables while those lower f. The forward search starts
from the better result for K-1, so a larger K never gives a larger objective.

Letters: n problems, m of them chosen by `rows`, B variables, s slots of a support.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# KKT gap relative to f at which a problem is solved: sqrt(f), a distance, is then right to 1e-7.
KKT_GAP = 1e-7
# Relative to the numbers that cancelled in R: a smaller difference is rounding noise.
ROUNDING = 1e-14
_SWEEPS = 4  # of exchanges, at most
# Supports up to this size try to exchange each variable, larger ones the cheapest to remove.
_EXCHANGED = 4
_PAIR_BLOCK = 2**17  # pairs tried at a time: small enough for the processor's cache
_MIN_GAIN = 1e-6  # relative gain below which an exchange is not made


@dataclass(eq=False)
class SimplexQP:
    """n problems of B variables.

    matrix  (n,B,B) float64, R
    scale   (n,) magnitude of the numbers whose differences gave R; sets what counts as rounding
    """

    matrix: np.ndarray
    scale: np.ndarray

    @property
    def count(self) -> int:
        """The number of problems, n."""
        return len(self.matrix)

    @property
    def variables(self) -> int:
        """The number of variables of each problem, B."""
        return self.matrix.shape[1]

    @property
    def diagonal(self) -> np.ndarray:
        """R_bb: (n,B), the objective of each variable alone."""
        return np.einsum("nbb->nb", self.matrix)

    def submatrix(self, rows: np.ndarray, index: np.ndarray) -> np.ndarray:
        """R restricted to a support: rows (m,), index (m,s) -> (m,s,s)."""
        first = (rows[:, None] * self.variables + index) * self.variables
        return np.take(self.matrix.reshape(-1), first[:, :, None] + index[:, None, :])

    def support_rows(self, rows: np.ndarray, index: np.ndarray) -> np.ndarray:
        """The rows of R that belong to a support: rows (m,), index (m,s) -> (m,s,B)."""
        return np.take(
            self.matrix.reshape(-1, self.variables), rows[:, None] * self.variables + index, axis=0
        )


@dataclass(eq=False)
class Supports:
    """The non-zero weights of n problems, in s slots each.

    index   (n,s) int64, the variable in each slot; 0 in an unused slot
    weight  (n,s) float64; 0 in an unused slot
    used    (n,s) bool
    """

    index: np.ndarray
    weight: np.ndarray
    used: np.ndarray

    @staticmethod
    def single(index: np.ndarray) -> Supports:
        """One variable per problem with weight one: index (n,)."""
        shape = (len(index), 1)
        return Supports(index.reshape(shape).astype(np.int64), np.ones(shape), np.ones(shape, bool))

    @property
    def sizes(self) -> np.ndarray:
        """(n,) the number of used slots."""
        return self.used.sum(axis=1)

    def take(self, rows: np.ndarray) -> Supports:
        """A copy of the supports of some problems: rows (m,) indices or (n,) bool."""
        return Supports(self.index[rows], self.weight[rows], self.used[rows])

    def assign(self, rows: np.ndarray, other: Supports) -> None:
        """Overwrite the problems `rows` (m,) with `other`, adding slots if `other` has more."""
        self.widen(other.index.shape[1])
        for mine, theirs in (
            (self.index, other.index),
            (self.weight, other.weight),
            (self.used, other.used),
        ):
            mine[rows] = 0
            mine[rows, : theirs.shape[1]] = theirs

    def widen(self, slots: int) -> None:
        """Append unused slots until there are at least `slots`."""
        if slots <= self.index.shape[1]:
            return
        more = ((0, 0), (0, slots - self.index.shape[1]))
        self.index, self.weight, self.used = (
            np.pad(self.index, more),
            np.pad(self.weight, more),
            np.pad(self.used, more),
        )

    def compact(self, slots: int | None = None) -> Supports:
        """A copy with the used slots first, in order of decreasing weight.

        slots  the number of slots of the copy; smaller weights that do not fit are dropped. None:
               as many as the largest support needs
        """
        order = np.argsort(np.where(self.used, -self.weight, 1.0), axis=1, kind="stable")
        order = order[:, : max(1, int(self.sizes.max(initial=0))) if slots is None else slots]
        index, weight, used = (
            np.take_along_axis(a, order, axis=1) for a in (self.index, self.weight, self.used)
        )
        result = Supports(np.where(used, index, 0), np.where(used, weight, 0.0), used)
        result.widen(slots or 1)
        return result

    def add(self, variable: np.ndarray) -> Supports:
        """A copy with one more variable per problem, at weight zero: variable (n,)."""
        return Supports(
            np.column_stack([self.index, variable]),
            np.column_stack([self.weight, np.zeros(len(variable))]),
            np.column_stack([self.used, np.ones(len(variable), bool)]),
        )

    def drop(self, slot: np.ndarray) -> Supports:
        """A copy without one slot (n,) per problem, the other weights scaled to sum to one."""
        index, weight, used = self.index.copy(), self.weight.copy(), self.used.copy()
        rows = np.arange(len(slot))
        index[rows, slot], weight[rows, slot], used[rows, slot] = 0, 0.0, False
        total = weight.sum(axis=1, keepdims=True)
        uniform = np.where(used, 1.0 / np.maximum(used.sum(axis=1, keepdims=True), 1), 0.0)
        return Supports(
            index, np.where(total > 0, weight / np.where(total > 0, total, 1), uniform), used
        )


def objective(problems: SimplexQP, rows: np.ndarray, supports: Supports) -> np.ndarray:
    """f(w) = w^T R w of the problems `rows`: (m,)."""
    return np.einsum(
        "ms,mst,mt->m",
        supports.weight,
        problems.submatrix(rows, supports.index),
        supports.weight,
        optimize=True,
    )


def half_gradient(
    problems: SimplexQP, rows: np.ndarray, supports: Supports
) -> tuple[np.ndarray, np.ndarray]:
    """R w, half the gradient of f, for every variable (m,B), and f itself (m,)."""
    slope = np.matmul(supports.weight[:, None, :], problems.support_rows(rows, supports.index))
    slope = slope[:, 0]
    return slope, np.sum(
        np.take_along_axis(slope, supports.index, axis=1) * supports.weight, axis=1
    )


def shifted_submatrix(problems: SimplexQP, rows: np.ndarray, supports: Supports) -> np.ndarray:
    """R of each support plus a multiple of the all-ones matrix: (m,s,s), safely invertible.

    Rows and columns of unused slots are those of the identity. On weights that sum to one the shift
    is a constant, so it moves no minimum; it makes R regular where the affine hull of the support's
    vectors D_b contains the origin.
    """
    inner = problems.submatrix(rows, supports.index)
    both = supports.used[:, :, None] & supports.used[:, None, :]
    diagonal = np.arange(inner.shape[1])
    size = np.where(supports.used, inner[:, diagonal, diagonal], 0.0).max(axis=1)
    noise = ROUNDING * problems.scale[rows] + np.finfo(float).tiny ** 0.5
    size = np.maximum(size, noise)
    inner += size[:, None, None]
    inner *= both
    inner[:, diagonal, diagonal] += np.where(
        supports.used, (1e-13 * size + 0.1 * noise)[:, None], 1.0
    )
    return inner


def solve_on_support(problems: SimplexQP, rows: np.ndarray, supports: Supports) -> Supports:
    """The minimum over the variables of each support, from feasible weights (steps 2 and 3).

    Variables whose weight reaches zero leave the support. The objective never rises.
    """
    result = Supports(supports.index.copy(), supports.weight.copy(), supports.used.copy())
    unsolved = np.arange(len(rows))
    while len(unsolved):
        now = result.take(unsolved)
        ones = now.used[:, :, None].astype(float)
        goal = np.linalg.solve(shifted_submatrix(problems, rows[unsolved], now), ones)[..., 0]
        goal /= goal.sum(axis=1, keepdims=True)
        out = now.used & (goal <= 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(out, now.weight / (now.weight - goal), np.inf)
        ratio[np.isnan(ratio)] = 0.0  # weight and goal are both zero: drop the variable
        step = np.minimum(ratio.min(axis=1), 1.0)[:, None]
        now.weight += step * (goal - now.weight)
        now.used &= ratio > step
        now.weight = np.where(now.used, np.maximum(now.weight, 0.0), 0.0)
        now.weight /= now.weight.sum(axis=1, keepdims=True)
        now.index = np.where(now.used, now.index, 0)
        result.assign(unsolved, now)
        unsolved = unsolved[out.any(axis=1)]
    return result


def solve_simplex_qp(problems: SimplexQP) -> Supports:
    """The minimum of every problem over all its variables.

    The origin is nearest to the middle of the segment between (1, 1) and (1, -1):

    >>> corners = np.array([[1.0, 1.0], [1.0, -1.0], [5.0, 0.0]])
    >>> found = solve_simplex_qp(SimplexQP((corners @ corners.T)[None], np.ones(1)))
    >>> found.index.tolist(), found.weight.round(6).tolist()
    ([[0, 1]], [[0.5, 0.5]])
    """
    best = Supports.single(np.argmin(problems.diagonal, axis=1))
    unsolved = np.arange(problems.count)
    before = np.full(problems.count, np.inf)
    while len(unsolved):
        now = best.take(unsolved).compact()
        slope, value = half_gradient(problems, unsolved, now)
        variable = np.argmin(slope, axis=1)
        gap = value - slope[np.arange(len(unsolved)), variable]
        # Where a step no longer lowers the objective, only rounding is left.
        improves = (gap > KKT_GAP * value + ROUNDING * problems.scale[unsolved]) & (
            value < before[unsolved]
        )
        before[unsolved] = value
        unsolved, now, variable = unsolved[improves], now.take(improves), variable[improves]
        if len(unsolved):
            best.assign(unsolved, solve_on_support(problems, unsolved, now.add(variable)))
    return best.compact()


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
    """Supports of at most 3 ... `max_support` variables: the cheapest is removed, one at a time."""
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
