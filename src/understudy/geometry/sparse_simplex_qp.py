"""The point of a convex hull nearest to the origin using few of its corners, for many hulls at
once.

Which K corners are best is a combinatorial question, so two searches are run and, per hull, the
better result is kept:
  start:    one and two corners are few enough to try them all;
  backward: from the nearest point over all corners, drop the corner whose loss costs least (exact
  for the affine problem), solve again, down to K; forward:  to the best K-1 corners add the one
  that gains most, then exchange single corners while that brings the point nearer.
As the forward search starts from the better result for K-1, more corners never give a worse point.
See `hull_point` for the letters.
"""

from __future__ import annotations

import numpy as np

from understudy.geometry.simplex_qp import (
    ROUNDING,
    Hulls,
    Supports,
    nearest,
    settle,
    shifted,
    values,
)

_SWEEPS = 4  # of exchanges; nearly every hull is at rest after two
_ALL_PLACES = 4  # up to this many corners each is tried for exchange, above it the cheapest to lose
_PAIRS_AT_ONCE = 2**17  # small enough for the processor's cache
_WORTH = 1e-6  # relative gain below which an exchange is not made


def nearest_few(hulls: Hulls, most: int) -> list[Supports]:
    """The nearest points found with at most 1, 2, ..., `most` corners: a list of `most`
    Supports.
    """
    rows = np.arange(hulls.count)
    levels = [Supports.single(np.argmin(np.einsum("nbb->nb", hulls.products), axis=1))]
    if most > 1:
        levels.append(_best_pair(hulls))
    if most < 3:
        return levels
    best, optimum = levels[-1], nearest(hulls)
    backward = _backward(hulls, optimum, most)
    for most_now in range(3, most + 1):
        solved = optimum.sizes <= most_now  # the optimum itself is sparse enough
        result = best.take(rows)
        open_rows = rows[~solved]
        if len(open_rows):
            one = _exchange(hulls, open_rows, _grow(hulls, open_rows, best.take(open_rows)))
            two = _exchange(hulls, open_rows, backward[most_now].take(open_rows))
            better = values(hulls, open_rows, two) < values(hulls, open_rows, one)
            result.put(open_rows[~better], one.take(~better))
            result.put(open_rows[better], two.take(better))
        result.put(rows[solved], optimum.take(solved).packed(most_now))
        best = result.packed()
        levels.append(best)
    return levels


def _best_pair(hulls: Hulls) -> Supports:
    """The best segment between two corners of each hull, over all pairs: |x|^2 |y|^2 - <x,y>^2 over
    |x - y|^2 where the foot lies between them.
    """
    rows = np.arange(hulls.count)
    square = np.einsum("nbb->nb", hulls.products)
    first, second, share = (
        np.zeros(hulls.count, np.int64),
        np.zeros(hulls.count, np.int64),
        np.zeros(hulls.count),
    )
    at_once = max(1, _PAIRS_AT_ONCE // hulls.corners**2)
    for start in range(0, hulls.count, at_once):
        part = slice(start, start + at_once)
        across = square[part, :, None] - hulls.products[part]  # |x|^2 - <x,y>
        length = across + across.transpose(0, 2, 1)  # |x - y|^2
        np.maximum(
            length, (ROUNDING * hulls.scale[part] + np.finfo(float).tiny)[:, None, None], out=length
        )
        foot = across / length
        np.clip(foot, 0.0, 1.0, out=foot)  # the weight of y
        length *= foot
        length -= across
        length -= across
        length *= foot
        length += square[part, :, None]
        first[part], second[part] = np.divmod(
            length.reshape(len(foot), -1).argmin(axis=1), hulls.corners
        )
        share[part] = foot[np.arange(len(foot)), first[part], second[part]]
    weight = np.column_stack([1 - share, share])
    pair = Supports(np.column_stack([first, second]), weight, weight > 0)
    pair.used[:, 1] &= first != second
    pair.weight = np.where(pair.used, weight, 0.0)
    pair.weight /= pair.weight.sum(axis=1, keepdims=True)
    return settle(hulls, rows, pair).packed()


def _backward(hulls: Hulls, optimum: Supports, most: int) -> dict[int, Supports]:
    """Supports of at most 3 ... `most` corners by dropping the cheapest corner of the optimum, one
    at a time.
    """
    now, levels = optimum.packed(), {}
    for most_now in range(now.index.shape[1], 2, -1):
        rows = np.flatnonzero(now.sizes > most_now)
        if len(rows):
            part = now.take(rows)
            now.put(
                rows,
                settle(
                    hulls, rows, part.drop(np.argmin(_loss(hulls, rows, part), axis=1)).packed()
                ),
            )
            now = now.packed()
        if most_now <= most:
            levels[most_now] = now.packed()
    for most_now in range(3, most + 1):
        levels.setdefault(most_now, optimum)
    return levels


def _plane_inverse(
    hulls: Hulls, rows: np.ndarray, supports: Supports
) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of R on directions that keep the sum of the weights, (m,s,s), and the affine
    minimum of the support, (m,s).
    """
    inverse = np.linalg.inv(shifted(hulls, rows, supports))
    inverse *= supports.used[:, :, None] & supports.used[:, None, :]
    summed = inverse.sum(axis=2)
    total = summed.sum(axis=1)[:, None]
    return inverse - summed[:, :, None] * (summed / total)[:, None, :], summed / total


def _loss(hulls: Hulls, rows: np.ndarray, supports: Supports) -> np.ndarray:
    """(m,s): how much w^T R w rises when a place is given up and the others are solved again;
    infinite where unused.

    With P the inverse within the plane sum w = 1, holding w_b at zero costs w_b^2 / P_bb.
    """
    inverse, _ = _plane_inverse(hulls, rows, supports)
    diagonal = np.maximum(np.einsum("mss->ms", inverse), np.finfo(float).tiny)
    return np.where(supports.used, supports.weight**2 / diagonal, np.inf)


def _best_addition(
    hulls: Hulls, rows: np.ndarray, supports: Supports, without: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The corner (m,) whose addition lowers w^T R w most, and a bound (m,) on the value it reaches.
    `without` (m,): a corner not to take.

    Adding corner c moves the weights along d = e_c - a, where a (summing to one) is c's projection
    onto the support's plane; the value along d is the parabola f - 2 t (f - (R w)_c) + t^2 d^T R d,
    followed until its lowest point or until a weight reaches zero.
    """
    inverse, middle = _plane_inverse(hulls, rows, supports)
    used = supports.used[:, :, None]
    reach = hulls.against_all(rows, supports.index) * used
    slope = np.matmul(supports.weight[:, None, :], reach)[:, 0]
    value = np.sum(np.take_along_axis(slope, supports.index, axis=1) * supports.weight, axis=1)
    projection = np.matmul(inverse, reach) + middle[:, :, None]
    inner = hulls.between(rows, supports.index)
    corner_square = np.einsum("nbb->nb", hulls.products)[rows]
    length = corner_square + np.sum(projection * (np.matmul(inner, projection) - 2 * reach), axis=1)
    length = np.maximum(length, ROUNDING * hulls.scale[rows][:, None] + np.finfo(float).tiny)
    descent = np.maximum(value[:, None] - slope, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.where(
            used & (projection > 0), supports.weight[:, :, None] / projection, np.inf
        ).min(axis=1)
    step = np.minimum(descent / length, limit)
    gain = 2 * step * descent - step**2 * length
    np.put_along_axis(
        gain, np.where(supports.used, supports.index, supports.index[:, :1]), -1.0, axis=1
    )
    if without is not None:
        gain[np.arange(len(rows)), without] = -1.0
    corner = np.argmax(gain, axis=1)
    return corner, value - gain[np.arange(len(rows)), corner]


def _grow(hulls: Hulls, rows: np.ndarray, supports: Supports) -> Supports:
    """With the best corner more, solved again."""
    corner, _ = _best_addition(hulls, rows, supports)
    return settle(hulls, rows, supports.add(corner)).packed()


def _exchange(hulls: Hulls, rows: np.ndarray, supports: Supports) -> Supports:
    """Exchange one corner for another while that lowers w^T R w."""
    best = supports.packed()
    value = values(hulls, rows, best)
    live = np.arange(len(rows))
    for _ in range(_SWEEPS):
        changed = np.zeros(len(rows), bool)
        order = np.argsort(_loss(hulls, rows[live], best.take(live)), axis=1)
        for turn in range(min(_ALL_PLACES, best.index.shape[1])):
            leaving = np.take_along_axis(best.index[live], order[:, turn : turn + 1], axis=1)[:, 0]
            # Earlier exchanges of this sweep may have moved the corner to another place, or dropped
            # it.
            here = (best.index[live] == leaving[:, None]) & best.used[live]
            able = here.any(axis=1) & (best.sizes[live] > 1)
            at, place, corner = live[able], here[able].argmax(axis=1), leaving[able]
            if not len(at):
                continue
            rest = settle(hulls, rows[at], best.take(at).drop(place)).packed()
            coming, promise = _best_addition(hulls, rows[at], rest, corner)
            worth = promise < value[at] * (1 - _WORTH) - ROUNDING * hulls.scale[rows[at]]
            at, rest, coming = at[worth], rest.take(worth), coming[worth]
            if not len(at):
                continue
            tried = settle(hulls, rows[at], rest.add(coming)).packed()
            reached = values(hulls, rows[at], tried)
            lower = reached < value[at] * (1 - _WORTH)
            best.put(at[lower], tried.take(lower))
            value[at[lower]], changed[at[lower]] = reached[lower], True
        live = np.flatnonzero(changed)
        if not len(live):
            break
    return best.packed()
