"""Regions of a mesh, and the networks that predict several of them.

Regions are the cells of the mesh nearest to their seeds along the edges. Seeds come from QR with
column pivoting of the displacements, so that regions are small where the mesh moves most. The first
seeds alone give the coarser cells of the networks.

Letters: T poses, V vertices, R regions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.poses import evenly
from understudy.geometry.pca import principal_components
from understudy.methods.differential.anchors import pivot_anchors
from understudy.methods.differential.regions import mesh_regions

_SEED_POSES = 600
_SEED_MODES = 100
_LEAST_VERTICES = 16  # of a region, on average


@dataclass(frozen=True, eq=False)
class Regions:
    """The division of a mesh.

    labels      (V,) the region of each vertex, 0..R-1
    network_of  (R,) the network that predicts each region
    """

    labels: np.ndarray
    network_of: np.ndarray


def find_regions(mesh: Mesh, displacements: np.ndarray, regions: int, networks: int) -> Regions:
    """The division of a mesh whose vertices move by `displacements` (T,V,3), less their mean."""
    few = displacements[evenly(len(displacements), _SEED_POSES)].reshape(-1, 3 * mesh.vertex_count)
    directions, sizes = principal_components(few, _SEED_MODES)
    seeds = pivot_anchors(
        directions * sizes,
        mesh.vertices.astype(np.float64),
        np.zeros(mesh.vertex_count, int),
        min(regions, max(1, mesh.vertex_count // _LEAST_VERTICES)),
    )
    labels = cell_labels(mesh, seeds)
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
