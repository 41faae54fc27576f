"""The point of a convex hull nearest to the origin, for many hulls at once (Wolfe 1976, "Finding
the nearest point in a polytope").

A hull is given by the products R_bc = <D_b, D_c> of its B corners, and the point by its weights:
minimise w^T R w over w >= 0, sum w = 1. Active set: add the corner with the smallest (R w)_b, solve
for the support exactly, walk towards that solution until a weight reaches zero, drop that corner,
and so on, until no corner has (R w)_b below w^T R w (the KKT gap) by more than rounding.

Every step is done for all hulls together; a hull that is finished leaves the work. Letters: n
hulls, B corners, s places of a support.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# KKT gap relative to w^T R w at which a hull is solved: its square root, a distance, is then right
# to 1e-7
GAP = 1e-7
ROUNDING = 1e-14  # relative to the numbers that cancelled in R: below this, a difference is noise


@dataclass(eq=False)
class Hulls:
    """n hulls of B corners: products (n,B,B) float64, and scale (n,), the size of the numbers that
    cancelled to give them.
    """

    products: np.ndarray
    scale: np.ndarray

    @property
    def count(self) -> int:
        return len(self.products)

    @property
    def corners(self) -> int:
        return self.products.shape[1]

    def between(self, rows: np.ndarray, index: np.ndarray) -> np.ndarray:
        """R among the corners of a support: rows (m,), index (m,s) -> (m,s,s)."""
        first = (rows[:, None] * self.corners + index) * self.corners
        return np.take(self.products.reshape(-1), first[:, :, None] + index[:, None, :])

    def against_all(self, rows: np.ndarray, index: np.ndarray) -> np.ndarray:
        """R of the corners of a support with every corner: rows (m,), index (m,s) -> (m,s,B)."""
        return np.take(
            self.products.reshape(-1, self.corners), rows[:, None] * self.corners + index, axis=0
        )


@dataclass(eq=False)
class Supports:
    """Weights of n hulls on s places: index (n,s) int64, weight (n,s) float64, used (n,s) bool.
    Unused places have index 0 and weight 0.
    """

    index: np.ndarray
    weight: np.ndarray
    used: np.ndarray

    @staticmethod
    def single(index: np.ndarray) -> Supports:
        """One corner each, with all the weight: index (n,)."""
        shape = (len(index), 1)
        return Supports(index.reshape(shape).astype(np.int64), np.ones(shape), np.ones(shape, bool))

    @property
    def sizes(self) -> np.ndarray:
        """(n,) corners in use."""
        return self.used.sum(axis=1)

    def take(self, rows: np.ndarray) -> Supports:
        """A copy of some hulls."""
        return Supports(self.index[rows], self.weight[rows], self.used[rows])

    def put(self, rows: np.ndarray, other: Supports) -> None:
        """Write `other` into the hulls `rows`, growing where it has more places."""
        self.widen(other.index.shape[1])
        for mine, theirs in (
            (self.index, other.index),
            (self.weight, other.weight),
            (self.used, other.used),
        ):
            mine[rows] = 0
            mine[rows, : theirs.shape[1]] = theirs

    def widen(self, places: int) -> None:
        """At least this many places."""
        if places <= self.index.shape[1]:
            return
        more = ((0, 0), (0, places - self.index.shape[1]))
        self.index, self.weight, self.used = (
            np.pad(self.index, more),
            np.pad(self.weight, more),
            np.pad(self.used, more),
        )

    def packed(self, places: int | None = None) -> Supports:
        """Used places first, heaviest first, and no more places than needed (or exactly `places`,
        cutting what is lighter).
        """
        order = np.argsort(np.where(self.used, -self.weight, 1.0), axis=1, kind="stable")
        order = order[:, : max(1, int(self.sizes.max(initial=0))) if places is None else places]
        index, weight, used = (
            np.take_along_axis(a, order, axis=1) for a in (self.index, self.weight, self.used)
        )
        result = Supports(np.where(used, index, 0), np.where(used, weight, 0.0), used)
        result.widen(places or 1)
        return result

    def add(self, corner: np.ndarray) -> Supports:
        """With one corner more per hull, at weight 0: corner (n,)."""
        return Supports(
            np.column_stack([self.index, corner]),
            np.column_stack([self.weight, np.zeros(len(corner))]),
            np.column_stack([self.used, np.ones(len(corner), bool)]),
        )

    def drop(self, place: np.ndarray) -> Supports:
        """Without one place per hull, its weight shared out among the others in proportion: place
        (n,).
        """
        index, weight, used = self.index.copy(), self.weight.copy(), self.used.copy()
        rows = np.arange(len(place))
        index[rows, place], weight[rows, place], used[rows, place] = 0, 0.0, False
        total = weight.sum(axis=1, keepdims=True)
        flat = np.where(used, 1.0 / np.maximum(used.sum(axis=1, keepdims=True), 1), 0.0)
        return Supports(
            index, np.where(total > 0, weight / np.where(total > 0, total, 1), flat), used
        )


def values(hulls: Hulls, rows: np.ndarray, supports: Supports) -> np.ndarray:
    """w^T R w of the hulls `rows`: (m,)."""
    return np.einsum(
        "ms,mst,mt->m",
        supports.weight,
        hulls.between(rows, supports.index),
        supports.weight,
        optimize=True,
    )


def gradients(hulls: Hulls, rows: np.ndarray, supports: Supports) -> tuple[np.ndarray, np.ndarray]:
    """R w for every corner (m,B), and w^T R w (m,)."""
    slope = np.matmul(supports.weight[:, None, :], hulls.against_all(rows, supports.index))[:, 0]
    return slope, np.sum(
        np.take_along_axis(slope, supports.index, axis=1) * supports.weight, axis=1
    )


def shifted(hulls: Hulls, rows: np.ndarray, supports: Supports) -> np.ndarray:
    """R of each support plus a multiple of the all-ones matrix: (m,s,s), safely invertible; unused
    places are rows of the identity.

    On weights that sum to one the shift is a constant, so it moves no minimum; it makes R regular
    where the hull's plane contains the origin.
    """
    inner = hulls.between(rows, supports.index)
    both = supports.used[:, :, None] & supports.used[:, None, :]
    diagonal = np.arange(inner.shape[1])
    size = np.where(supports.used, inner[:, diagonal, diagonal], 0.0).max(axis=1)
    noise = ROUNDING * hulls.scale[rows] + np.finfo(float).tiny ** 0.5
    size = np.maximum(size, noise)
    inner += size[:, None, None]
    inner *= both
    inner[:, diagonal, diagonal] += np.where(
        supports.used, (1e-13 * size + 0.1 * noise)[:, None], 1.0
    )
    return inner


def settle(hulls: Hulls, rows: np.ndarray, supports: Supports) -> Supports:
    """The nearest point within each support, from feasible weights; corners that are not needed are
    dropped. Never moves away from the origin.
    """
    result = Supports(supports.index.copy(), supports.weight.copy(), supports.used.copy())
    live = np.arange(len(rows))
    while len(live):
        now = result.take(live)
        goal = np.linalg.solve(shifted(hulls, rows[live], now), now.used[:, :, None].astype(float))[
            ..., 0
        ]
        goal /= goal.sum(axis=1, keepdims=True)
        out = now.used & (goal <= 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(out, now.weight / (now.weight - goal), np.inf)
        ratio[np.isnan(ratio)] = 0.0  # weight and goal both zero: drop it
        step = np.minimum(ratio.min(axis=1), 1.0)[:, None]
        now.weight += step * (goal - now.weight)
        now.used &= ratio > step
        now.weight = np.where(now.used, np.maximum(now.weight, 0.0), 0.0)
        now.weight /= now.weight.sum(axis=1, keepdims=True)
        now.index = np.where(now.used, now.index, 0)
        result.put(live, now)
        live = live[out.any(axis=1)]
    return result


def nearest(hulls: Hulls) -> Supports:
    """The nearest point of every hull, over all its corners."""
    best = Supports.single(np.argmin(np.einsum("nbb->nb", hulls.products), axis=1))
    live = np.arange(hulls.count)
    before = np.full(hulls.count, np.inf)
    while len(live):
        now = best.take(live).packed()
        slope, value = gradients(hulls, live, now)
        corner = np.argmin(slope, axis=1)
        gap = value - slope[np.arange(len(live)), corner]
        # Where a step no longer lowers the value, rounding has taken over.
        going = (gap > GAP * value + ROUNDING * hulls.scale[live]) & (value < before[live])
        before[live] = value
        live, now, corner = live[going], now.take(going), corner[going]
        if len(live):
            best.put(live, settle(hulls, live, now.add(corner)))
    return best.packed()
