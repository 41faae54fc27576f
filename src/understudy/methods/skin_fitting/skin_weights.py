"""Convex skin weights from example poses by least squares (Mohr & Gleicher 2003, "Building
Efficient, Accurate Character Skins from Examples").

For every vertex, over the simplex (w >= 0, sum w = 1) and with at most K of the B bones:

    minimise  f(w) = sum_t |sum_b w_b M_tb v~ - y_t|^2  =  w^T R w,      R_bc = <D_b, D_c>,   D_tb =
              M_tb v~ - y_t

The second form holds because the weights sum to one: it is the point of the convex hull of the
bones' residuals D_b that is nearest to zero (Wolfe 1976). R never needs the poses: with H = A^T A
(4B,4B), X = A^T Y (4B,V) and |y|^2 (V,), A (3T,4B) being the bones' matrices side by side, R_bc =
v~^T H_bc v~ - v~^T X_b - v~^T X_c + |y|^2. `Grams` holds these; one pass over the poses serves
every K.

`hull_point` solves this over all bones, exactly; `sparse_hull_point` searches the best K bones. The
support is optimised for K, not cut down to it, and more influences never raise the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.geometry.simplex_qp import Hulls, nearest
from understudy.geometry.sparse_simplex_qp import nearest_few
from understudy.methods.skin_fitting.best_bone import centred_blocks, centred_rest

_CHUNK_BYTES = 2**26  # of normal matrices held at a time


@dataclass(frozen=True, eq=False)
class Grams:
    """Everything the poses say about skin weights.

    bones   (B,4,B,4) float64, H: products of the bones' matrices summed over poses
    cross   (4B,V) float64, X: products of the bones' matrices with the vertices
    square  (V,) float64, |y|^2
    rest    (V,4) float64, v~ about the centroid
    """

    bones: np.ndarray
    cross: np.ndarray
    square: np.ndarray
    rest: np.ndarray

    @staticmethod
    def of(poses: Poses, chosen: np.ndarray | None = None, progress: Progress = SILENT) -> Grams:
        """One pass over the poses, or over the `chosen` ones: (n,) increasing indices."""
        rest = centred_rest(poses)
        width = 4 * poses.need_skeleton("skin weights").bone_count
        bones, cross, square = (
            np.zeros((width, width)),
            np.zeros((width, len(rest))),
            np.zeros(len(rest)),
        )
        total = poses.pose_count if chosen is None else len(chosen)
        with progress.task("reading poses", total) as task:
            for columns, targets in centred_blocks(poses, chosen):
                bones += columns.T @ columns
                for span, target in targets:
                    cross[:, span] += columns.T @ target
                    square[span] += np.einsum("rv,rv->v", target, target)
                task.advance(len(columns) // 3)
        return Grams(bones.reshape(width // 4, 4, width // 4, 4), cross, square, rest)

    @property
    def bone_count(self) -> int:
        return self.bones.shape[0]

    @property
    def vertex_count(self) -> int:
        return len(self.rest)

    def residuals(self, vertices: slice) -> Hulls:
        """R of some vertices: products (n,B,B)."""
        rest = self.rest[vertices]
        bones = self.bone_count
        row, column = np.triu_indices(4)  # v~_j v~_k = v~_k v~_j: ten products, not sixteen
        both = self.bones.transpose(1, 3, 0, 2)
        twice = both[row, column] + np.where(row == column, 0, 1)[:, None, None] * both[column, row]
        products = ((rest[:, row] * rest[:, column]) @ twice.reshape(10, -1)).reshape(
            -1, bones, bones
        )
        scale = self.square[vertices] + np.einsum("nbb->nb", products).max(axis=1)
        pull = np.matmul(self.cross[:, vertices].T.reshape(-1, bones, 4), rest[:, :, None])[..., 0]
        products -= pull[:, :, None]
        products -= pull[:, None, :]
        products += self.square[vertices, None, None]
        return Hulls(products, scale)

    def chunks(self) -> list[slice]:
        """Slices of the vertices whose R fit in bounded memory."""
        size = int(np.clip(_CHUNK_BYTES // (8 * self.bone_count**2), 4, 1024))
        return [
            slice(start, min(start + size, self.vertex_count))
            for start in range(0, self.vertex_count, size)
        ]


def solve_dense(grams: Grams, progress: Progress = SILENT) -> np.ndarray:
    """The best weights over all bones: (V,B) float64, rows on the simplex."""
    result = np.zeros((grams.vertex_count, grams.bone_count))
    with progress.task("weights of all bones", grams.vertex_count) as task:
        for span in grams.chunks():
            best = nearest(grams.residuals(span))
            np.add.at(
                result[span], (np.arange(span.stop - span.start)[:, None], best.index), best.weight
            )
            task.advance(span.stop - span.start)
    return result


def solve_sparse(
    grams: Grams, influences: int, progress: Progress = SILENT
) -> tuple[np.ndarray, np.ndarray]:
    """The best weights found with at most K = `influences` bones a vertex: bone_index (V,K) int32,
    weight (V,K) float64, largest first.

    Places that are not needed hold bone 0 with weight 0. K is at most B in the result.
    """
    return solve_path(grams, [influences], progress)[0]


def solve_path(
    grams: Grams, influences: Sequence[int], progress: Progress = SILENT
) -> list[tuple[np.ndarray, np.ndarray]]:
    """`solve_sparse` for several K at little more than the price of the largest, in the order
    given.
    """
    for k in influences:
        checks.between(k, "influences", 1)
    wanted = [min(int(k), grams.bone_count) for k in influences]
    result = [
        (np.zeros((grams.vertex_count, k), np.int32), np.zeros((grams.vertex_count, k)))
        for k in wanted
    ]
    with progress.task(f"weights of at most {max(wanted)} bones", grams.vertex_count) as task:
        for span in grams.chunks():
            levels = nearest_few(grams.residuals(span), max(wanted))
            for k, (index, weight) in zip(wanted, result):
                found = levels[k - 1].packed(k)
                index[span], weight[span] = found.index, found.weight
            task.advance(span.stop - span.start)
    return result


def packed(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Dense weights (V,B) as bone_index (V,K) int32 and weight (V,K), largest first; K is the most
    bones any vertex uses.

    >>> index, weight = packed(np.array([[0.0, 1.0, 0.0], [0.75, 0.0, 0.25]]))
    >>> index.tolist(), weight.tolist()
    ([[1, 0], [0, 2]], [[1.0, 0.0], [0.75, 0.25]])
    """
    most = max(1, int((weights > 0).sum(axis=1).max(initial=0)))
    order = np.argsort(-weights, axis=1, kind="stable")[:, :most]
    weight = np.take_along_axis(weights, order, axis=1)
    return np.where(weight > 0, order, 0).astype(np.int32), weight
