"""Virtual bones between which every vertex lies, for engines that have no negative weights.

A vertex of `two_layer` blends virtual bones with weights of both signs, w_i = a_i D over the bones
of the deformer. Engines need a_i >= 0 and few non-zero weights. Convex weights on the same virtual
bones leave the vertices outside their convex hull behind. So the virtual bones move outwards, by
alternating two steps:

    a_i  convex, at most K of the nearest virtual bones, that follows the vertex best in the poses
    D    least squares:  minimise  |A D - W|^2 + damping |D - D_before|^2

The error in the poses needs no vertices of the poses: with ata the products of the bone transforms
(as in `methods.skin_fitting.skin_weights`) and u_i the rest position of vertex i with a one,

    |x_i(a)|^2 = (a D - w_i) G_i (a D - w_i)^T,     G_i = u_i^T ata u_i

Letters: F frames, V vertices, B bones, N virtual bones, K influences, C candidates of a vertex.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree

from understudy.core.deformer import Deformer
from understudy.core.poses import evenly
from understudy.core.skin import Skin, skin_weights
from understudy.export.bones import EngineBones, plays_as_it_is
from understudy.export.clips import SourceClip
from understudy.geometry.simplex_qp import SimplexQP, solve_sparse_simplex_qp
from understudy.geometry.skinning import float32_influences, weight_matrix
from understudy.geometry.transforms import compose
from understudy.system import tasks
from understudy.system.progress import SILENT, Progress

_ROUNDS = 24
_ENOUGH = 1e-6  # root mean square error, as a fraction of the mesh's height, that ends the rounds
_GAIN = 0.02  # a round that lowers the error by less is the last
_CANDIDATES = 24  # virtual bones that a vertex may blend
_FREE_INFLUENCES = 8  # per vertex where their number has no limit
_DAMPING = 1e-3  # vertices with weight 1 that hold a virtual bone where it is
_FRAMES = 100  # of the clips that are looked at
_BLOCK_VALUES = 4_000_000  # numbers of the matrices G_i at a time


def convex_virtual_bones(
    bones: EngineBones,
    deformer: Deformer,
    clips: Sequence[SourceClip],
    influences: int,
    progress: Progress = SILENT,
) -> EngineBones:
    """Return bones whose skin engines play; unchanged if they do, or if none are virtual.

    bones       of `deformer`
    clips       what the skin has to follow
    influences  largest number of bones per vertex; 0: no limit
    """
    moved = [clip.world_from_bone for clip in clips if clip.world_from_bone is not None]
    if bones.virtual is None or bones.skin.blend != "linear" or not moved:
        return bones
    if plays_as_it_is(bones.skin, influences):
        return bones
    skeleton, skin = deformer.need_skin()
    weights = skin_weights(skin, skeleton.bone_count).toarray()
    motion = np.concatenate([some[evenly(len(some), _FRAMES)] for some in moved])
    problem = _Problem.of(deformer, weights, compose(motion, skeleton.bone_from_world))
    count = influences or _FREE_INFLUENCES
    virtual = bones.virtual.toarray()
    found = problem.convex_weights(virtual, count)
    with progress.task("moving virtual bones outwards", _ROUNDS) as task:
        for _ in range(_ROUNDS):
            if found.error <= _ENOUGH * deformer.mesh.height:
                break
            trial = _moved(virtual, found, weights)
            better = problem.convex_weights(trial, count)
            if better.error > found.error:
                break
            small = better.error > (1 - _GAIN) * found.error
            virtual, found = trial, better
            task.advance()
            if small:
                break
    made = Skin(*float32_influences(found.index, found.weight))
    return bones.with_virtual(sp.csr_matrix(virtual), made, deformer.mesh.vertices)


@dataclass(frozen=True, eq=False)
class _Convex:
    """Convex weights on virtual bones.

    index, weight  (V,K)
    error          root mean square distance from the deformer
    """

    index: np.ndarray
    weight: np.ndarray
    error: float


@dataclass(frozen=True, eq=False)
class _Problem:
    """What vertices have to follow.

    weights  (V,B) float64, the weights of the deformer
    ata      (10,B B) float64, products of bone transforms for the ten products of u_i
    pairs    (V,10) float64, those products
    frames   F
    """

    weights: np.ndarray
    ata: np.ndarray
    pairs: np.ndarray
    frames: int

    @staticmethod
    def of(deformer: Deformer, weights: np.ndarray, since_rest: np.ndarray) -> _Problem:
        """The problem of a deformer; since_rest (F,B,3,4) are bones relative to their rest pose."""
        rest = deformer.mesh.vertices.astype(np.float64)
        centre = rest.mean(axis=0)
        matrix = since_rest.astype(np.float64)
        matrix[..., 3] += matrix[..., :3] @ centre
        # Weights sum to one, so what all bones share cancels.
        matrix[..., 3] -= matrix[..., 3].mean(axis=1, keepdims=True)
        frames, bones = matrix.shape[:2]
        rows = matrix.transpose(0, 2, 1, 3).reshape(3 * frames, -1)
        both = (rows.T @ rows).reshape(bones, 4, bones, 4).transpose(1, 3, 0, 2)
        row, column = np.triu_indices(4)
        twice = both[row, column] + np.where(row == column, 0, 1)[:, None, None] * both[column, row]
        points = np.column_stack([rest - centre, np.ones(len(rest))])
        pairs = points[:, row] * points[:, column]
        return _Problem(weights, twice.reshape(len(row), -1), pairs, frames)

    def convex_weights(self, virtual: np.ndarray, influences: int) -> _Convex:
        """The convex weights on virtual bones (N,B) that follow the deformer best."""
        near = self._candidates(virtual)
        bones = virtual.shape[1]
        size = max(1, _BLOCK_VALUES // (bones**2 + near.shape[1] * bones))
        parts = [slice(start, start + size) for start in range(0, len(near), size)]

        def solve(part: slice) -> tuple[np.ndarray, np.ndarray, float]:
            metric = (self.pairs[part] @ self.ata).reshape(-1, bones, bones)
            metric = (metric + metric.transpose(0, 2, 1)) / 2
            apart = virtual[near[part]] - self.weights[part, None]
            matrix = apart @ metric @ apart.transpose(0, 2, 1)
            scale = np.einsum("ncc->nc", matrix).max(axis=1)
            count = min(influences, near.shape[1])
            found = solve_sparse_simplex_qp(SimplexQP(matrix, scale), count)[-1].compact(count)
            chosen = np.take_along_axis(matrix, found.index[:, :, None], axis=1)
            chosen = np.take_along_axis(chosen, found.index[:, None, :], axis=2)
            square = np.einsum("nk,nkl,nl->", found.weight, chosen, found.weight)
            index = np.take_along_axis(near[part], found.index, axis=1)
            return index, found.weight, max(0.0, float(square))

        index, weight, squares = zip(*tasks.parallel_map(solve, parts))
        error = np.sqrt(sum(squares) / (self.frames * len(near)))
        return _Convex(np.concatenate(index), np.concatenate(weight), float(error))

    def _candidates(self, virtual: np.ndarray) -> np.ndarray:
        """The virtual bones (V,C) that are nearest to each vertex in the poses."""
        bones = virtual.shape[1]
        metric = (self.pairs.mean(axis=0) @ self.ata).reshape(bones, bones)
        values, vectors = np.linalg.eigh((metric + metric.T) / 2)
        root = vectors * np.sqrt(np.maximum(values, 0))
        count = min(_CANDIDATES, len(virtual))
        near = cKDTree(virtual @ root).query(self.weights @ root, k=count)[1]
        return near.reshape(len(self.weights), count)


def _moved(virtual: np.ndarray, found: _Convex, weights: np.ndarray) -> np.ndarray:
    """Virtual bones (N,B) that blend to `weights` (V,B) by the weights that were found."""
    blend = weight_matrix(found.index, found.weight, len(virtual))
    normal = sp.csc_matrix(blend.T @ blend + _DAMPING * sp.eye(len(virtual)))
    return virtual + splu(normal).solve(np.asarray(blend.T @ (weights - blend @ virtual)))
