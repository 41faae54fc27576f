"""Folds the reconstruction into the bases of the deformer and truncates them.

The folded basis F (3V,P) of a region moves vertices all over the mesh, but smoothly far from the
region; and near it, coordinates and offsets carry nearly the same information. So near and far rows
are each truncated to their rank. With C (P,P) the second moments of the coefficients c over the
training poses:

    F C^1/2 = A,    A ~ (A V_r) V_r^T,    F c ~ Q T c      Q = A V_r (3n,r),  T = V_r^T C^-1/2 (r,P)

T goes into the last layer of the region's networks:  T c = (T W_last) h + T b_last. r is the
smallest rank that leaves no vertex more than `tolerance` (root mean square over the poses). Rows
that move their vertex less than that are dropped.

Letters: V vertices, n some of them, P coefficients of a region, r rank, m anchors that move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from understudy.core.networks import Basis, Net
from understudy.methods.correctives.networks import TrainedNets
from understudy.methods.differential.reconstruction import Reconstruction
from understudy.methods.differential.subspace import AnchorTargets, Region

_RINGS = 2  # of edges around a region that are near
_ROUNDING = 1e-10  # second moments below this fraction of the largest are rounding errors
# Standard deviation of each coefficient on its own, relative to its size, that is added to the
# moments: new poses may combine coefficients in other ways.
_INDEPENDENT = 0.01


@dataclass(frozen=True, eq=False)
class TruncatedBasis:
    """A part of a folded basis: vertices (n,), matrix Q (3n,r), remap T (r,P)."""

    vertices: np.ndarray
    matrix: np.ndarray
    remap: np.ndarray


def fold_regions(
    reconstruction: Reconstruction,
    regions: Sequence[Region],
    coefficients: Sequence[np.ndarray],
    trained: TrainedNets,
    tolerance: float,
) -> tuple[list[Net], list[Basis]]:
    """The networks and bases of regions with coefficients (T,P), truncated within `tolerance`."""
    neighbours = sp.csr_matrix(reconstruction.laplacian.symmetric != 0).astype(np.float64)
    bases: list[Basis] = []
    # First coefficient of a region as its networks write it -> the remap, and the new coefficients.
    remaps: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    free = 0
    for region, rows, numbers in zip(regions, coefficients, trained.outputs):
        if not len(numbers):
            continue
        folded = np.concatenate(
            [
                reconstruction.fold_coordinates(region.components.basis, region.vertices),
                reconstruction.fold_offsets(region.offsets, region.vertices),
            ],
            axis=1,
        ).reshape(-1, 3, len(numbers))
        parts = near_and_far(folded, _second_moments(rows), region.vertices, neighbours, tolerance)
        first, transfers = free, [np.zeros((0, len(numbers)))]
        for part in parts:
            rank = len(part.remap)
            bases.append(Basis(part.vertices, part.matrix, np.arange(free, free + rank)))
            transfers.append(part.remap)
            free += rank
        remaps[int(numbers[0])] = np.concatenate(transfers), np.arange(first, free)
    nets = [remapped(net, *remaps[int(net.outputs[0])]) for net in trained.nets]
    # A region that moves nothing has no coefficients left.
    return [net for net in nets if len(net.outputs)], bases


def fold_anchors(
    reconstruction: Reconstruction,
    regions: Sequence[Region],
    anchors: AnchorTargets,
    trained: TrainedNets,
    first_output: int,
    tolerance: float,
) -> tuple[list[Net], list[Basis]]:
    """The networks of the anchors from coefficient `first_output` on, and their basis in blocks."""
    if not len(anchors.moving):
        return [], []
    owner = np.empty(len(reconstruction.laplacian.degree), int)
    for number, region in enumerate(regions):
        owner[region.vertices] = number
    owner = owner[anchors.vertices[anchors.moving]]
    blocks = [np.flatnonzero(owner == number) for number in np.unique(owner)]
    moved = np.square(anchors.displacements[:, anchors.moving], dtype=np.float64)
    size = np.sqrt(np.mean(moved.sum(axis=2), axis=0))
    numbers = np.concatenate(trained.outputs)
    shift = first_output - int(numbers[0])
    nets = [replace(net, outputs=net.outputs + shift) for net in trained.nets]
    matrix = reconstruction.anchor_basis()[:, anchors.moving]
    outputs = (numbers + shift).reshape(-1, 3).T  # of x, y and z of each anchor
    bases = []
    for block in blocks:  # with the vertices that it moves
        rows = np.flatnonzero(np.linalg.norm(matrix[:, block] * size[block], axis=1) > tolerance)
        if len(rows):
            bases.append(Basis(rows, matrix[np.ix_(rows, block)], outputs[:, block]))
    return nets, bases


def near_and_far(
    folded: np.ndarray,
    moments: np.ndarray,
    region: np.ndarray,
    neighbours: sp.csr_matrix,
    tolerance: float,
) -> list[TruncatedBasis]:
    """The rows of a folded basis (V,3,P) near a region (n,) and far from it, truncated.

    moments     (P,P) second moments of the coefficients
    neighbours  (V,V) non-zero for neighbouring vertices
    tolerance   a part that moves no vertex by more is left out
    """
    values, vectors = np.linalg.eigh(moments)
    root = np.sqrt(np.maximum(values, _ROUNDING * max(values[-1], 1e-300)))
    # C^1/2 up to a rotation, which V_r absorbs.
    shapes = folded.reshape(-1, len(moments)) @ (vectors * root)
    back = (vectors / root).T
    shapes = shapes.reshape(*folded.shape[:2], -1)
    reach = np.linalg.norm(shapes, axis=(1, 2))
    inside = np.zeros(len(folded))
    inside[region] = 1.0
    for _ in range(_RINGS):
        inside = inside + neighbours @ inside
    near = np.flatnonzero((inside > 0) & (reach > tolerance))
    far = np.flatnonzero((inside == 0) & (reach > tolerance))
    parts = []
    for rows in (near, far):
        if len(rows):
            matrix, rotation = _truncated(shapes[rows], tolerance)
            parts.append(TruncatedBasis(rows, matrix, rotation.T @ back))
    return parts


def _truncated(shapes: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """A (n,3,P) -> A V_r (3n,r) and V_r (P,r), with the smallest r within `tolerance`."""
    flat = shapes.reshape(-1, shapes.shape[2])
    vectors = np.linalg.eigh(flat.T @ flat)[1][:, ::-1]
    turned = flat @ vectors
    square = np.square(turned).reshape(len(shapes), 3, -1).sum(axis=1)
    # Largest squared error over the vertices if column k and those after it are left out.
    left = square[:, ::-1].cumsum(axis=1)[:, ::-1].max(axis=0)
    small = np.flatnonzero(left <= tolerance**2)
    rank = max(1, int(small[0])) if small.size else turned.shape[1]
    return turned[:, :rank], vectors[:, :rank]


def remapped(net: Net, remap: np.ndarray, outputs: np.ndarray) -> Net:
    """A net that writes `remap` (r,P) times its output, as coefficients `outputs` (r,)."""
    weights = (*net.weights[:-1], remap @ net.weights[-1].astype(np.float64))
    biases = (*net.biases[:-1], remap @ net.biases[-1].astype(np.float64))
    return replace(net, weights=weights, biases=biases, outputs=outputs)


def _second_moments(rows: np.ndarray) -> np.ndarray:
    """(T,P) -> (P,P) float64, plus a small independent variance of each coefficient."""
    rows = rows.astype(np.float64)
    moments = rows.T @ rows / max(1, len(rows))
    return moments + _INDEPENDENT**2 * np.diag(np.diag(moments))
