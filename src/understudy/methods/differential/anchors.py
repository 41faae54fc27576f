"""Selection of anchors: the vertices whose displacement is predicted directly.

Anchors fix the position of the reconstruction. The paper leaves their choice to an artist; here it
is automatic. Letters: V vertices, K components, n anchors; a shell is a connected component of the
mesh. Every shell gets at least one anchor, since L_s is singular there.

`pivot_anchors` is QR with column pivoting on the deformation basis, three rows (x, y, z of a
vertex) at a time. It repeatedly selects the vertex whose motion the anchors so far explain least:

    B_i (3,K)    rows of vertex i in the PCA basis, each column times its singular value
    next         argmax_i |B_i|_F;   then  B <- B (I - Q Q^T),  Q an orthonormal basis of the rows
                 of the selected B_i

Neighbours of an anchor get a lower score (`spread`), since a network has similar errors on both.

In the reconstruction of the paper, nothing but the anchors fixes the mesh. There pivots are a bad
choice: they concentrate where the mesh moves most, their own networks have the largest errors
there, and the rest of the mesh drifts. Errors of differential coordinates accumulate along the
edges, so `even_anchors` keeps every vertex within few edges of an anchor. Half of the anchors
suffice for that. `add_anchors_by_errors` places the others where the trained networks of the
coordinates have the largest errors on validation poses. A new anchor j changes S^-1 and the
residual r by one outer product:

    g = S^-1 e_j,    gamma = omega^2 / (1 + omega^2 g_j)
    S^-1 <- S^-1 - gamma g g^T,    r <- r - gamma g r_j

The first anchors are the seeds of the regions (`mesh_regions`), whose differential coordinates one
network predicts each. The paper has one network for the whole face. It reads every control and must
learn that a brow does not move the chin, which takes more than a few thousand poses. Differential
coordinates are local, so each region can have its own network that reads only the inputs that move
it. Unlike regions of positions, they need no blending at the borders, because the reconstruction
joins them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from understudy.core.mesh import Mesh
from understudy.core.poses import evenly
from understudy.geometry.pca import principal_components
from understudy.methods.differential.reconstruction import Reconstruction
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

# Of the first pivot: below this the basis explains nothing more, and distance decides.
_EXHAUSTED = 1e-4
_PIVOT_POSES, _SEED_MODES = 600, 100


def pivot_anchors(
    basis: np.ndarray, points: np.ndarray, shell: np.ndarray, count: int, spread: float = 0.5
) -> np.ndarray:
    """The anchors (n,) that determine the shape, most important first; at least one per shell.

    basis   (3V,K) principal components, each times its singular value
    points  (V,3) rest vertices
    shell   (V,) the shell of each vertex
    count   number of anchors; at least the number of shells and at most V are returned
    spread  0: pivots only; 1: the score of a vertex is zero at an anchor and unchanged far from it
    """
    vertices = len(points)
    count = int(min(max(count, shell.max() + 1), vertices))
    left = basis.reshape(vertices, 3, -1).astype(np.float64)
    chosen: list[int] = []
    nearest = np.full(vertices, np.inf)
    width = np.linalg.norm(np.ptp(points, axis=0)) / np.sqrt(max(count, 1)) / 2
    first = None
    for _ in range(count):
        missing = np.setdiff1d(np.unique(shell), shell[chosen])
        size = np.linalg.norm(left, axis=(1, 2))
        first = size.max() if first is None else first
        score = size if size.max() > _EXHAUSTED * max(first, 1e-30) else nearest.clip(max=1e30)
        if chosen:
            score = score * (1.0 - spread * np.exp(-((nearest / max(width, 1e-30)) ** 2)))
        score = np.where(np.isin(np.arange(vertices), chosen), -1.0, score)
        if len(missing) >= count - len(chosen):  # the remaining anchors go to shells without one
            score = np.where(np.isin(shell, missing), np.maximum(score, 0), -2.0)
        pick = int(score.argmax())
        chosen.append(pick)
        nearest = np.minimum(nearest, np.linalg.norm(points - points[pick], axis=1))
        rows = left[pick]
        directions, sizes, _ = np.linalg.svd(rows.T, full_matrices=False)
        directions = directions[:, sizes > 1e-9 * max(first, 1e-30)]
        if directions.shape[1]:
            left = left - (left @ directions) @ directions.T
    return np.array(chosen, dtype=np.int64)


def displacement_pivots(
    mesh: Mesh,
    displacements: np.ndarray,
    count: int,
    shell: np.ndarray | None = None,
    modes: int = _SEED_MODES,
) -> np.ndarray:
    """The anchors (n,) that determine displacements (T,V,3), less their mean.

    shell  (V,) the shell of each vertex; None: all are one
    modes  principal components that are looked at
    """
    few = displacements[evenly(len(displacements), _PIVOT_POSES)].reshape(-1, 3 * mesh.vertex_count)
    directions, sizes = principal_components(few, modes)
    shell = np.zeros(mesh.vertex_count, int) if shell is None else shell
    return pivot_anchors(directions * sizes, mesh.vertices.astype(np.float64), shell, count)


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


def random_anchors(shell: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Random anchors (n,), for comparison: one in every shell, the others anywhere."""
    order = np.random.default_rng([seed, 7]).permutation(len(shell))
    first = order[np.unique(shell[order], return_index=True)[1]]
    return np.concatenate([first, order[~np.isin(order, first)]])[: max(count, len(first))]


def mesh_regions(mesh: Mesh, seeds: np.ndarray) -> list[np.ndarray]:
    """The vertices (m,) of each region, those nearest to its seed along the edges.

    Regions are disjoint, and together they have all vertices.

    seeds  (n,) vertices; a connected component without a seed joins the seed nearest in space
    """
    if len(seeds) <= 1:
        return [np.arange(mesh.vertex_count)]
    edges = mesh.edges
    points = mesh.vertices.astype(np.float64)
    # A length of zero would mean "no edge".
    length = np.maximum(np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1), 1e-12)
    graph = sp.csr_matrix((length, (edges[:, 0], edges[:, 1])), shape=(mesh.vertex_count,) * 2)
    distance = dijkstra(graph, directed=False, indices=seeds)
    owner = distance.argmin(axis=0)
    lost = np.flatnonzero(~np.isfinite(distance.min(axis=0)))
    if lost.size:
        owner[lost] = np.linalg.norm(points[lost][:, None] - points[seeds][None], axis=2).argmin(
            axis=1
        )
    return [cell for cell in (np.flatnonzero(owner == s) for s in range(len(seeds))) if len(cell)]
