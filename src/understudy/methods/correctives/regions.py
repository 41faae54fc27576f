"""Regions of a mesh: cells around the vertices whose motion says most about the shape.

`pivot_anchors` is QR with column pivoting on the deformation basis, three rows (x, y, z of a
vertex) at a time. It repeatedly selects the vertex whose motion those so far explain least:

    B_i (3,K)    rows of vertex i in the PCA basis, each column times its singular value
    next         argmax_i |B_i|_F;   then  B <- B (I - Q Q^T),  Q an orthonormal basis of the rows
                 of the selected B_i

Neighbours of a selected vertex get a lower score (`spread`), since a network has similar errors on
both. Regions are the cells of the mesh nearest to such seeds along the edges, so that they are
small where the mesh moves most. The first seeds alone give the coarser cells of networks that
predict several regions.

Letters: T poses, V vertices, K components, R regions; a shell is a connected component of the mesh.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from understudy.core.mesh import Mesh
from understudy.core.poses import evenly
from understudy.geometry.pca import principal_components
from understudy.methods.correctives.session import FitSession

# Of the first pivot: below this the basis explains nothing more, and distance decides.
_EXHAUSTED = 1e-4
_PIVOT_POSES, _SEED_MODES = 600, 100


@dataclass(frozen=True, eq=False)
class Regions:
    """The division of a mesh.

    labels      (V,) the region of each vertex, 0..R-1
    network_of  (R,) the network that predicts each region
    """

    labels: np.ndarray
    network_of: np.ndarray


def find_regions(session: FitSession, count: int, networks: int | None = None) -> Regions:
    """About `count` regions around pivots of the displacements.

    networks  that predict them; None: each region has its own
    """
    mesh = session.poses.mesh
    with session.progress.task("finding regions", 1) as task:
        seeds = displacement_pivots(mesh, session.basis_sample()[1], count)
        labels = cell_labels(mesh, seeds)
        task.advance()
    if networks is None:
        return Regions(labels, np.arange(labels.max() + 1))
    coarse = cell_labels(mesh, seeds[:networks])
    # A region belongs to the network whose cell holds most of its vertices.
    votes = np.zeros((labels.max() + 1, coarse.max() + 1), int)
    np.add.at(votes, (labels, coarse), 1)
    return Regions(labels, np.unique(votes.argmax(axis=1), return_inverse=True)[1].reshape(-1))


def cell_labels(mesh: Mesh, seeds: np.ndarray) -> np.ndarray:
    """The number (V,) of the cell that each vertex belongs to, from 0 without gaps."""
    labels = np.zeros(mesh.vertex_count, int)
    for number, cell in enumerate(mesh_regions(mesh, seeds)):
        labels[cell] = number
    return labels


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
