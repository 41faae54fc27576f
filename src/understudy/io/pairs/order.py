"""The order of the vertices of a cache, where it is not that of the character.

First the axes, the scale and the frame offset are found from what does not depend on the order: the
mean, the covariance and the third moments of the positions of every frame. Then vertices are
matched by their paths over several frames, one to one. A cache differs from the skinned animation
by its correctives, which can exceed the distance of vertices; they are smooth, so matching
alternates with smoothing the difference over the mesh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from scipy.spatial import cKDTree

from understudy.core.poses import evenly
from understudy.io.pairs.alignment import (
    AXES,
    Alignment,
    Overlap,
    choose_offset,
    fit_axes,
    offsets_to_try,
    some_vertices,
)

_CANDIDATES = 12
_TRIED = 3  # candidates whose vertices are matched
_FEW = 500  # vertices
_HOPELESS = 0.05  # distance of the better half of the vertices, as a fraction of the size
_MATCH_FRAMES = 8
_CLEARLY = 1.3  # a partner this much nearer than any other is certain
_LOST_EDGES = 1e3  # cost of a partner none of whose edges fits
_FIT_FRAMES = 60
_NEAR = 40  # frame offsets tried on each side
_NEIGHBOURS = 12
# Rounds of smoothing before each matching: wide while many vertices are wrong, narrow at the end.
_SMOOTHING = (0, 8, 8, 4, 2, 1, 1)
_MOST_OFFSETS = 400
_MOST_FRAMES = 120


def align_reordered(
    reference: np.ndarray,
    cache: np.ndarray,
    edges: Edges,
    size: float,
    expected: int = 0,
    frame: int | None = None,
) -> Alignment | None:
    """Return the best alignment of a cache with vertices in any order; None: none comes near.

    Arguments as for `alignment.align`, and the edges.
    """
    best: Alignment | None = None
    guesses = _guesses(reference, cache, size, expected, frame)
    guesses.sort(key=lambda guess: _first_distance(reference, cache, guess))
    for start in guesses[:_TRIED]:
        found = _matched(reference, cache, start, edges, size)
        if found is not None and (best is None or found.score < best.score):
            best = found
        if best is not None and best.score < 1e-4 * size:
            break
    if best is None or frame is not None:
        return best
    return _best_offset(reference, cache, best, size, expected)


def _best_offset(
    reference: np.ndarray, cache: np.ndarray, best: Alignment, size: float, expected: int
) -> Alignment:
    """Return the alignment with the frame offset that fits its order best."""
    possible = offsets_to_try(len(reference), len(cache))
    near = np.minimum(np.abs(possible - best.frame), np.abs(possible - expected))
    still, moving = some_vertices(reference)
    some = np.concatenate([still, moving])
    found = []
    for offset in possible[near <= _NEAR]:
        at, where = Overlap.of(len(reference), len(cache), int(offset)).some(_FIT_FRAMES)
        a = reference[where][:, some].astype(np.float64)
        b = cache[at][:, best.order][:, some].astype(np.float64)
        found.append(fit_axes(a, b, best.axes, int(offset), size, len(still)))
    chosen = choose_offset(found, expected, size)
    return replace(chosen, order=best.order, doubtful=best.doubtful)


def _guesses(
    reference: np.ndarray, cache: np.ndarray, size: float, expected: int, frame: int | None
) -> list[Alignment]:
    """Return the best candidates by moments, without an order."""
    a, b = _moments(reference), _moments(cache)
    spread = lambda m: float(np.sqrt(np.median(np.trace(m[1], axis1=1, axis2=2))))
    scale = spread(a) / max(spread(b), 1e-300)
    offsets = np.array([frame]) if frame is not None else offsets_to_try(len(a[0]), len(b[0]))
    if len(offsets) > _MOST_OFFSETS:
        offsets = offsets[np.argsort(np.abs(offsets - expected), kind="stable")[:_MOST_OFFSETS]]
    want = _described(a, size)
    scored = []
    for number, axes in enumerate(AXES):
        turned = (scale * b[0] @ axes.T, scale**2 * axes @ b[1] @ axes.T, scale**3 * b[2] @ axes.T)
        have = _described(turned, size)
        for offset in offsets:
            at, where = Overlap.of(len(want), len(have), int(offset)).some(_MOST_FRAMES)
            off = want[where] - have[at]
            shift = off[:, :3].mean(axis=0)
            off = off - np.concatenate([shift, np.zeros(9)])
            # Mirrored axes come second where a symmetric pose does not tell them apart.
            penalty = 1.05 if number >= 24 else 1.0
            scored.append((penalty * float((off**2).mean()), number, int(offset), shift))
    scored.sort(key=lambda one: one[0])
    chosen: list[Alignment] = []
    per_axes: dict[int, int] = {}
    for _, number, offset, shift in scored:
        if per_axes.get(number, 0) < 2:  # neighbouring offsets look alike
            per_axes[number] = per_axes.get(number, 0) + 1
            chosen.append(Alignment(AXES[number], scale, shift, offset))
        if len(chosen) == _CANDIDATES:
            break
    return chosen


def _first_distance(reference: np.ndarray, cache: np.ndarray, guess: Alignment) -> float:
    """Return the median distance of some vertices to the nearest of the cache, by their paths."""
    at, where = Overlap.of(len(reference), len(cache), guess.frame).some(_MATCH_FRAMES)
    some = evenly(reference.shape[1], _FEW)
    tree = cKDTree(_paths(guess.apply(cache[at])))
    return float(np.median(tree.query(_paths(reference[where][:, some]))[0]))


def _paths(points: np.ndarray) -> np.ndarray:
    """Return positions (n,V,3) as one row per vertex, (V,3n)."""
    return np.swapaxes(points, 0, 1).reshape(points.shape[1], -1).astype(np.float64)


def _moments(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean (F,3), covariance (F,3,3) and third moment of each axis (F,3)."""
    mean = np.empty((len(points), 3))
    covariance, third = np.empty((len(points), 3, 3)), np.empty((len(points), 3))
    for number, frame in enumerate(points):
        frame = frame.astype(np.float64)
        mean[number] = frame.mean(axis=0)
        frame = frame - mean[number]
        covariance[number] = frame.T @ frame / len(frame)
        third[number] = (frame**3).mean(axis=0)
    return mean, covariance, third


def _described(moments: tuple[np.ndarray, np.ndarray, np.ndarray], size: float) -> np.ndarray:
    """Return the moments as lengths, (F,12)."""
    mean, covariance, third = moments
    second = covariance.reshape(-1, 9)[:, [0, 4, 8, 1, 2, 5]] / (0.2 * size)
    return np.concatenate([mean, second, third / (0.2 * size) ** 2], axis=1)


def _matched(
    reference: np.ndarray, cache: np.ndarray, start: Alignment, edges: Edges, size: float
) -> Alignment | None:
    """Return an alignment with an order of the vertices, or None if they cannot be matched."""
    overlap = Overlap.of(len(reference), len(cache), start.frame)
    at, where = overlap.some(_MATCH_FRAMES)
    a, b = reference[where].astype(np.float64), cache[at].astype(np.float64)
    fit_at, fit_where = overlap.some(_FIT_FRAMES)
    smooth = np.zeros_like(a)
    average = edges.averaging(reference.shape[1])
    current, order, doubtful = start, None, 0
    for rounds in _SMOOTHING:
        for _ in range(rounds):
            smooth = np.stack([average @ frame for frame in smooth])
        kept = None if order is None else edges.kept(order)
        found, doubtful = _match(a + smooth, current.apply(b), kept)
        if found is None:
            return None
        same = order is not None and np.array_equal(found, order)
        order = found
        if same and rounds <= 2:
            break
        current = fit_axes(a, b[:, order], start.axes, start.frame, size)
        if current.score > _HOPELESS * size:
            return None
        smooth = current.apply(b[:, order]) - a
    assert order is not None  # the loop ran
    a, b = reference[fit_where].astype(np.float64), cache[fit_at][:, order].astype(np.float64)
    last = fit_axes(a, b, start.axes, start.frame, size)
    return replace(last, order=order, doubtful=doubtful)


def order_strays(
    reference: np.ndarray, cache: np.ndarray, alignment: Alignment, stray: np.ndarray
) -> Alignment:
    """Return the alignment with some vertices, stray (n,), exchanged among each other."""
    at, where = Overlap.of(len(reference), len(cache), alignment.frame).some(_FIT_FRAMES)
    moved = alignment.apply(cache[at][:, stray])
    found, _ = _match(reference[where][:, stray].astype(np.float64), moved)
    if found is None:
        return alignment
    order = np.arange(reference.shape[1])
    order[stray] = stray[found]
    return replace(alignment, order=order)


def _match(
    a: np.ndarray, b: np.ndarray, kept: sp.csr_matrix | None = None
) -> tuple[np.ndarray | None, int]:
    """Return for each vertex of a its own vertex of b, (V,), and how many could be another one.

    a, b  paths (n,V,3)
    kept  (V,V) the share of edges that a partner keeps; None: the cache has no polygons

    No order at all is None.
    """
    count = a.shape[1]
    many = min(_NEIGHBOURS, count)
    apart, near = cKDTree(_paths(b)).query(_paths(a), k=many)
    apart, near = apart.reshape(count, many), near.reshape(count, many)
    cost = (apart / max(float(np.median(apart)), 1e-300)) ** 2 + 1e-6
    if kept is not None:
        rows = np.repeat(np.arange(count), many)
        share = np.asarray(kept[rows, near.ravel()]).reshape(count, many)
        cost = cost + _LOST_EDGES * (1 - np.minimum(share, 1))
    order = near[np.arange(count), cost.argmin(axis=1)]
    if len(np.unique(order)) < count:
        graph = sp.csr_matrix(
            (cost.ravel(), near.ravel(), np.arange(0, count * many + 1, many)), (count, count)
        )
        try:
            rows, columns = min_weight_full_bipartite_matching(graph)
        except ValueError:  # some vertex has no partner left among its neighbours
            return None, 0
        order = np.empty(count, np.int64)
        order[rows] = columns
    own = near == order[:, None]
    mine = np.where(own, cost, 0).sum(axis=1)
    other = np.where(own, np.inf, cost).min(axis=1) if many > 1 else np.full(count, np.inf)
    return order, int((other < _CLEARLY**2 * mine).sum())


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of a character (E,2), and those of the cache if it has polygons."""

    own: np.ndarray
    cache: np.ndarray | None = None

    def averaging(self, count: int) -> sp.csr_matrix:
        """Return the matrix (V,V) that takes the mean of the neighbours, without the vertex."""
        adjacent = _adjacent(self.own, count)
        degree = np.asarray(adjacent.sum(axis=1)).reshape(-1)
        return sp.csr_matrix(sp.diags(1.0 / np.maximum(degree, 1.0)) @ adjacent)

    def kept(self, order: np.ndarray) -> sp.csr_matrix | None:
        """Return the share of its edges (V,V) that a vertex keeps with each partner near it."""
        if self.cache is None:
            return None
        count = len(order)
        every = np.arange(count)
        partner = sp.csr_matrix((np.ones(count), (every, order)), (count, count))
        theirs = partner @ _adjacent(self.cache, count)
        share = sp.csr_matrix(self.averaging(count) @ theirs)
        # Neighbours that have lost many edges themselves say nothing.
        sound = np.asarray(share[every, order]).reshape(-1) > 0.6
        mine = sp.csr_matrix(_adjacent(self.own, count) @ sp.diags(sound.astype(float)))
        degree = np.asarray(mine.sum(axis=1)).reshape(-1)
        return sp.csr_matrix(sp.diags(1.0 / np.maximum(degree, 1.0)) @ mine @ theirs)

    def confirm(self, order: np.ndarray) -> bool:
        """Return whether the edges of the cache, in this order, are those of the character."""
        if self.cache is None or len(self.cache) != len(self.own):
            return False
        count = np.int64(len(order))
        code = lambda edges: np.sort(edges.min(axis=1).astype(np.int64) * count + edges.max(axis=1))
        return np.array_equal(code(order[self.own]), code(self.cache))


def _adjacent(edges: np.ndarray, count: int) -> sp.csr_matrix:
    """Return the matrix (V,V) of ones where an edge is."""
    half = sp.coo_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (count, count))
    return sp.csr_matrix(half + half.T)
