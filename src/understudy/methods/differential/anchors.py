"""Anchors: the points whose displacement is learned as it is, and that nail the reconstruction in
place.

The paper leaves their choice to an artist. Here it is automatic, by QR with pivoting on the
deformation basis, three rows (x, y, z of a vertex) at a time: of all vertices, take the one whose
motion is explained least by the points taken so far, remove from every vertex what that point
explains, and go on. So the chosen points determine the shape: what is left once they are known is
small.

    B_i (3,K)    the rows of vertex i in the PCA basis, each column times its singular value
    next         argmax_i |B_i|_F;   then  B <- B (I - Q Q^T),  Q an orthonormal basis of the chosen
                 B_i's rows

Two things the basis cannot know are added: neighbours of an anchor are held back (`spread`), since
a net errs alike on both, and every connected piece of the mesh gets at least one anchor, since
without one its place is undetermined (L_s is singular there).

Where nothing but the anchors holds the mesh (the paper's reconstruction), such points are the wrong
ones: they crowd where the mesh moves most, their own nets err most there, and all else drifts. The
errors of the coordinates add up along the edges, so `even_anchors` lets no vertex be many edges
from an anchor. Half of the anchors are enough for that; the others go, once the nets of the
coordinates are trained, where these err most on poses kept aside (`anchors_by_errors`). With a new
anchor j the reconstruction S^-1 changes by one outer product, and so does what is left of the
error:

    g = S^-1 e_j,    gamma = omega^2 / (1 + omega^2 g_j),    S^-1 <- S^-1 - gamma g g^T,    r <- r -
                     gamma g r_j

Letters: V vertices, K components, n anchors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from understudy.core import checks
from understudy.core.errors import InputError
from understudy.core.progress import SILENT, Progress

if TYPE_CHECKING:
    from understudy.methods.differential.reconstruction import Reconstruction
    from understudy.methods.differential.validation import Words

_EXHAUSTED = (
    1e-4  # of the first pivot: below this the basis has nothing more to say, and distance decides
)


def choose_anchors(
    basis: np.ndarray, points: np.ndarray, piece: np.ndarray, count: int, spread: float = 0.5
) -> np.ndarray:
    """(n,) vertices in the order chosen, most important first; at least one in every piece.

    basis   (3V,K) columns already scaled by how much they are used
    points  (V,3) at rest; piece (V,) the connected piece of each vertex
    spread  0: the pivots alone; 1: the motion left is multiplied by the whole of a bump that is 0
            at the anchors and 1 far from them
    """
    vertices = len(points)
    count = int(min(max(count, piece.max() + 1), vertices))
    left = basis.reshape(vertices, 3, -1).astype(np.float64)
    chosen: list[int] = []
    nearest = np.full(vertices, np.inf)
    width = np.linalg.norm(np.ptp(points, axis=0)) / np.sqrt(max(count, 1)) / 2
    first = None
    for _ in range(count):
        missing = np.setdiff1d(np.unique(piece), piece[chosen])
        size = np.linalg.norm(left, axis=(1, 2))
        first = size.max() if first is None else first
        score = size if size.max() > _EXHAUSTED * max(first, 1e-30) else nearest.clip(max=1e30)
        if chosen:
            score = score * (1.0 - spread * np.exp(-((nearest / max(width, 1e-30)) ** 2)))
        score = np.where(np.isin(np.arange(vertices), chosen), -1.0, score)
        if len(missing) >= count - len(
            chosen
        ):  # only as many places left as pieces without an anchor
            score = np.where(np.isin(piece, missing), np.maximum(score, 0), -2.0)
        pick = int(score.argmax())
        chosen.append(pick)
        nearest = np.minimum(nearest, np.linalg.norm(points - points[pick], axis=1))
        rows = left[pick]
        directions, sizes, _ = np.linalg.svd(rows.T, full_matrices=False)
        directions = directions[:, sizes > 1e-9 * max(first, 1e-30)]
        if directions.shape[1]:
            left = left - (left @ directions) @ directions.T
    return np.array(chosen, dtype=np.int64)


def even_anchors(
    symmetric: sp.csr_matrix, motion: np.ndarray, piece: np.ndarray, count: int
) -> np.ndarray:
    """(n,) farthest points along the edges: in every piece the vertex that moves most, then always
    the one most edges away from those taken.

    symmetric  (V,V) L_s; motion (V,) how much each vertex moves

    >>> chain = sp.csr_matrix(np.eye(7, k=1) + np.eye(7, k=-1))
    >>> even_anchors(chain, np.eye(7)[0], np.zeros(7, int), 3).tolist()
    [0, 6, 3]
    """
    edges = abs(symmetric)
    chosen = [
        int(at[motion[at].argmax()])
        for at in (np.flatnonzero(piece == one) for one in np.unique(piece))
    ]
    nearest = np.min(
        [dijkstra(edges, unweighted=True, indices=vertex) for vertex in chosen], axis=0
    )
    while len(chosen) < min(count, len(piece)):
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, dijkstra(edges, unweighted=True, indices=chosen[-1]))
    return np.array(chosen, dtype=np.int64)


def anchors_by_errors(
    start: Reconstruction, omega: float, words: Words, count: int, progress: Progress = SILENT
) -> np.ndarray:
    """(n,) the anchors of `start`, then always the vertex whose error, root mean square over the
    poses of `words`, is largest: where the coordinates are those that nets predict, and the anchors
    are where they should be.
    """
    chosen = list(start.anchors)
    left = (words.true - start.solve(words.delta, words.true[:, start.anchors])).astype(
        np.float32
    )  # r (T,V,3)
    added = count - len(chosen)
    columns, gains = (
        np.empty((added, left.shape[1]), np.float32),
        np.empty(added),
    )  # g and gamma of the anchors added
    with progress.task("choosing anchors", added) as bar:
        for known in range(added):
            error = np.einsum("tvi,tvi->v", left, left)
            error[chosen] = -1.0
            pick = int(error.argmax())
            column = (
                start.response(pick) - (gains[:known] * columns[:known, pick]) @ columns[:known]
            )
            gains[known] = omega**2 / (1 + omega**2 * column[pick])
            columns[known] = column
            push = (gains[known] * column).astype(np.float32)[:, None]
            for pose in left:
                pose -= push * pose[pick]
            chosen.append(pick)
            bar.advance()
    return np.array(chosen, dtype=np.int64)


def checked_anchors(anchors: Sequence[int], piece: np.ndarray) -> np.ndarray:
    """A user's list: every index in range, none twice, and every piece of the mesh with at least
    one; else an error that says which.
    """
    result = checks.index(
        np.asarray(anchors, dtype=np.int64), "anchors", len(piece), dtype=np.int64
    )
    if not len(result):
        raise InputError(
            "anchors: the list is empty; name at least one vertex, or leave the choice to the "
            "method"
        )
    numbers, times = np.unique(result, return_counts=True)
    if (times > 1).any():
        raise InputError(f"anchors: vertex {int(numbers[times > 1][0])} stands twice")
    missing = np.setdiff1d(np.unique(piece), piece[result])
    if missing.size:
        at = np.flatnonzero(piece == missing[0])
        raise InputError(
            f"anchors: none lies in the mesh piece around vertex {int(at[0])} ({len(at)} vertices, "
            f"{missing.size} such "
            f"piece{'s' if missing.size > 1 else ''}); without one its place is undetermined. Add "
            f"a vertex of it to the list"
        )
    return result


def random_anchors(piece: np.ndarray, count: int, seed: int) -> np.ndarray:
    """(n,) for comparison: one at random in every piece, the others anywhere."""
    order = np.random.default_rng([seed, 7]).permutation(len(piece))
    first = order[np.unique(piece[order], return_index=True)[1]]
    return np.concatenate([first, order[~np.isin(order, first)]])[: max(count, len(first))]
