"""Selection of anchors: the vertices whose displacement is predicted directly.

Anchors fix the position of the reconstruction. The paper leaves their choice to an artist; here it
is automatic. Letters: V vertices, K components, n anchors; a shell is a connected component of the
mesh. Every shell gets at least one anchor, since L_s is singular there.

In the reconstruction of the paper, nothing but the anchors fixes the mesh. There pivots are a bad
choice: they concentrate where the mesh moves most, their own networks have the largest errors
there, and the rest of the mesh drifts. Errors of differential coordinates accumulate along the
edges, so `even_anchors` keeps every vertex within few edges of an anchor. Half of the anchors
suffice for that. `add_anchors_by_errors` places the others where the trained networks of the
coordinates have the largest errors on validation poses. A new anchor j changes S^-1 and the
residual r by one outer product:

    g = S^-1 e_j,    gamma = omega^2 / (1 + omega^2 g_j)
    S^-1 <- S^-1 - gamma g g^T,    r <- r - gamma g r_j

The first anchors are the seeds of the regions (`correctives/regions.py`), whose differential
coordinates one network predicts each. The paper has one network for the whole face. It reads every
control and must learn that a brow does not move the chin, which takes more than a few thousand
poses. Differential coordinates are local, so each region can have its own network that reads only
the inputs that move it. Unlike regions of positions, they need no blending at the borders, because
the reconstruction joins them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from understudy.methods.differential.reconstruction import Reconstruction
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress


def even_anchors(
    symmetric: sp.csr_matrix, motion: np.ndarray, shell: np.ndarray, count: int
) -> np.ndarray:
    """Farthest points along the edges, (n,): in every shell the vertex that moves most comes first.

    symmetric  (V,V) L_s
    motion     (V,) how much each vertex moves
    shell      (V,) the shell of each vertex

    >>> chain = sp.csr_matrix(np.eye(7, k=1) + np.eye(7, k=-1))
    >>> even_anchors(chain, np.eye(7)[0], np.zeros(7, int), 3).tolist()
    [0, 6, 3]
    """
    edges = abs(symmetric)
    chosen = [
        int(at[motion[at].argmax()])
        for at in (np.flatnonzero(shell == one) for one in np.unique(shell))
    ]
    nearest = np.min(
        [dijkstra(edges, unweighted=True, indices=vertex) for vertex in chosen], axis=0
    )
    while len(chosen) < min(count, len(shell)):
        chosen.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, dijkstra(edges, unweighted=True, indices=chosen[-1]))
    return np.array(chosen, dtype=np.int64)


def add_anchors_by_errors(
    start: Reconstruction,
    omega: float,
    delta: np.ndarray,
    true: np.ndarray,
    count: int,
    progress: Progress = SILENT,
) -> np.ndarray:
    """The anchors of `start`, then those at the largest errors of the predicted coordinates: (n,).

    omega  weight of every anchor
    delta  (T,V,3) predicted differential coordinates
    true   (T,V,3) the true displacements
    count  number of anchors in the result
    Each added anchor is the vertex with the largest root-mean-square error of the reconstruction
    from `delta` and the true displacements of the anchors so far.
    """
    chosen = [int(vertex) for vertex in start.anchors]
    residual = (true - start.solve(delta, true[:, start.anchors])).astype(np.float32)  # r (T,V,3)
    added = count - len(chosen)
    columns, gains = np.empty((added, residual.shape[1]), np.float32), np.empty(added)  # g, gamma
    with progress.task("selecting anchors", added) as task:
        for known in range(added):
            error = np.einsum("tvi,tvi->v", residual, residual)
            error[chosen] = -1.0
            pick = int(error.argmax())
            column = (
                start.response(pick) - (gains[:known] * columns[:known, pick]) @ columns[:known]
            )
            gains[known] = omega**2 / (1 + omega**2 * column[pick])
            columns[known] = column
            update = (gains[known] * column).astype(np.float32)[:, None]
            for pose in residual:
                pose -= update * pose[pick]
            chosen.append(pick)
            task.advance()
    return np.array(chosen, dtype=np.int64)


def checked_anchors(anchors: Sequence[int], shell: np.ndarray) -> np.ndarray:
    """A user's list of anchors (n,); an error if it is out of range, has duplicates or misses a
    shell.
    """
    result = checks.index(
        np.asarray(anchors, dtype=np.int64), "anchors", len(shell), dtype=np.int64
    )
    if not len(result):
        raise InputError(
            "anchors: the list is empty; name at least one vertex, or leave the choice to the "
            "method"
        )
    numbers, times = np.unique(result, return_counts=True)
    if (times > 1).any():
        raise InputError(f"anchors: duplicate vertex {int(numbers[times > 1][0])}")
    missing = np.setdiff1d(np.unique(shell), shell[result])
    if missing.size:
        at = np.flatnonzero(shell == missing[0])
        raise InputError(
            f"anchors: {missing.size} connected component{'s' if missing.size > 1 else ''} of the "
            f"mesh without an anchor, the first around vertex {int(at[0])} ({len(at)} vertices); "
            f"add a vertex of each to the list"
        )
    return result
