"""Bones that move one part of the body each.

A decomposition may give one bone to parts of a body that have nothing to do with each other: a leg
and the tip of the tail, if they move alike for a few frames. That lowers the error, but a skeleton
made of such bones cannot be animated. Here every bone has one connected patch of the mesh, and a
vertex may only use the bone of its own patch and those of neighbouring patches.

Parts of a mesh that no edge connects are neighbours where they are closest.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from understudy.methods.decomposition.solve.motion import Fit

_NEIGHBOURS = 8  # vertices among which those of other shells are looked for
_NEAR = 0.01  # of the size: shells this close to each other are connected
_MIN_PATCH = 4  # vertices; smaller patches belong to a neighbour


def connections(rest: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Return pairs of neighbouring vertices (n,2), by which every vertex is connected to any other.

    rest  (V,3), triangles (M,3)

    >>> line = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 0, 0]])
    >>> connections(line, np.array([[0, 1, 2]])).tolist()
    [[0, 1], [0, 2], [1, 2], [1, 3]]
    """
    pairs = [_edges(triangles)]
    shell = _parts(len(rest), pairs[0])
    if shell.max(initial=0) == 0:
        return pairs[0]
    distance, near = cKDTree(rest).query(rest, k=np.arange(1, min(_NEIGHBOURS, len(rest)) + 1))
    size = float(np.linalg.norm(np.ptp(rest, axis=0)))
    one, place = np.nonzero((distance <= _NEAR * size) & (shell[near] != shell[:, None]))
    pairs.append(_unique(np.stack([one, near[one, place]], axis=1)))
    while True:
        part = _parts(len(rest), np.concatenate(pairs))
        count = np.bincount(part)
        if len(count) == 1:
            return np.concatenate(pairs)
        own = np.flatnonzero(part == np.argmin(count))
        others = np.flatnonzero(part != np.argmin(count))
        distance, near = cKDTree(rest[others]).query(rest[own])
        best = int(np.argmin(distance))
        pairs.append(np.array([[others[near[best]], own[best]]]))


def shells(count: int, triangles: np.ndarray) -> np.ndarray:
    """Return the part (V,) of the mesh that each of `count` vertices belongs to, by its edges."""
    return _parts(count, _edges(triangles))


def _edges(triangles: np.ndarray) -> np.ndarray:
    """Return the edges (E,2) of triangles (M,3)."""
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [0, 2]]])
    return _unique(edges.reshape(-1, 2).astype(np.int64))


def _unique(pairs: np.ndarray) -> np.ndarray:
    """Return pairs (n,2) of numbers, each once and in ascending order."""
    return np.unique(np.sort(pairs, axis=1), axis=0).reshape(-1, 2)


def _parts(count: int, pairs: np.ndarray) -> np.ndarray:
    """Return the connected part (V,) of each of `count` vertices."""
    graph = csr_matrix((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), (count, count))
    return connected_components(graph, directed=False)[1]


def thinned(
    rest: np.ndarray, pairs: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the connections (m,2) between some vertices, and the nearest of these to each (V,).

    chosen  (n,) vertices; the results are numbers into these

    >>> line = np.arange(5.0)[:, None] * [1.0, 0, 0]
    >>> pairs, nearest = thinned(line, np.array([[0, 1], [1, 2], [2, 3], [3, 4]]), np.array([0, 4]))
    >>> pairs.tolist(), nearest[[0, 1, 3, 4]].tolist()
    ([[0, 1]], [0, 0, 1, 1])
    """
    count = len(rest)
    length = np.linalg.norm(rest[pairs[:, 0]] - rest[pairs[:, 1]], axis=1) + 1e-12
    graph = csr_matrix((length, (pairs[:, 0], pairs[:, 1])), (count, count))
    source = dijkstra(
        graph, directed=False, indices=chosen, min_only=True, return_predecessors=True
    )[2]
    number = np.zeros(count, np.int64)
    number[chosen] = np.arange(len(chosen))
    nearest = number[source]
    across = np.sort(nearest[pairs], axis=1)
    across = np.unique(across[across[:, 0] != across[:, 1]], axis=0)
    return across.reshape(-1, 2), nearest


def patches(label: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return connected patches (V,) of equal labels (V,); very small ones join a neighbour."""
    patch = connected_patches(label, pairs)
    one, two = np.concatenate([pairs, pairs[:, ::-1]]).T
    while True:
        count = np.bincount(patch)
        small = count < _MIN_PATCH
        if not small.any() or len(count) == 1:
            return patch
        across = (patch[one] != patch[two]) & small[patch[one]]
        border = csr_matrix(
            (np.ones(across.sum()), (patch[one[across]], patch[two[across]])),
            (len(count), len(count)),
        ).tocoo()
        # The neighbour with the longest border; among equals the larger patch.
        order = np.lexsort((count[border.col], border.data))
        joins = np.arange(len(count))
        joins[border.row[order]] = border.col[order]
        patch = _parts(len(count), np.stack([np.arange(len(count)), joins], axis=1))[patch]


def connected_patches(label: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return the connected parts (V,) of vertices with the same label (V,)."""
    return _parts(len(label), pairs[label[pairs[:, 0]] == label[pairs[:, 1]]])


def neighbours(patch: np.ndarray, pairs: np.ndarray, bones: int) -> np.ndarray:
    """Return which bones (B,B) bool have patches (V,) that touch; none is its own neighbour."""
    near = np.zeros((bones, bones), bool)
    one, two = patch[pairs].T
    near[one, two] = near[two, one] = True
    np.fill_diagonal(near, False)
    return near


def allowed_bones(patch: np.ndarray, pairs: np.ndarray, bones: int, reach: int = 1) -> np.ndarray:
    """Return the bones (V,B) bool a vertex may use: of patches within `reach` borders."""
    near = neighbours(patch, pairs, bones) | np.eye(bones, dtype=bool)
    return (np.linalg.matrix_power(near.astype(float), reach) > 0)[patch]


def dominant_bone(fit: Fit) -> np.ndarray:
    """Return the bone (V,) with the largest weight at each vertex."""
    return fit.index[np.arange(len(fit.index)), np.argmax(fit.weight, axis=1)].astype(np.int64)
