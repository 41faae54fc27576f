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

Letters: n problems, m of them chosen by `rows`, B variables, s slots of a support.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# KKT gap relative to f at which a problem is solved: sqrt(f), a distance, is then right to 1e-7.
KKT_GAP = 1e-7
# Relative to the numbers that cancelled in R: a smaller difference is rounding noise.
ROUNDING = 1e-14


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
            self.matrix.reshape(-1, self.variables),
            rows[:, None] * self.variables + index,
            axis=0,
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
