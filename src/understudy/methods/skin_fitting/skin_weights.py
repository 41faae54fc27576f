"""Convex skin weights fitted to example poses by constrained least squares.

Paper: Mohr & Gleicher 2003, "Building Efficient, Accurate Character Skins from Examples". For every
vertex, with rest position v~ = [rest, 1], example positions y_t and bone transforms M_tb:

    minimise  f(w) = sum_t |sum_b w_b M_tb v~ - y_t|^2
    subject to  w >= 0,   sum_b w_b = 1,   at most K of w above zero

The weights sum to one, so f(w) = w^T R w with R_bc = <D_b, D_c> and D_tb = M_tb v~ - y_t: a convex
quadratic program over the simplex (`geometry/simplex_qp.py`). R is made from the normal equations.
With A (3T,4B) the bone transforms side by side and Y (3T,V) the vertices,

    R_bc = v~^T (A^T A)_bc v~ - v~^T (A^T Y)_b - v~^T (A^T Y)_c + |y|^2

so one pass over the poses serves every K.

Departures:
- Over all bones the minimum is exact. For a limited K the support is searched for that K
  (`geometry/simplex_qp.py`); the paper chooses the influences beforehand.
- No bones are added to the skeleton.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.poses import Poses
from understudy.geometry.simplex_qp import SimplexQP, solve_simplex_qp, solve_sparse_simplex_qp
from understudy.methods.skin_fitting.best_bone import centred_blocks, centred_rest
from understudy.system import checks, tasks
from understudy.system.progress import SILENT, Progress

_CHUNK_BYTES = 2**26  # of matrices R held at a time


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """The normal equations of the skin weights, summed over the example poses.

    ata   (B,4,B,4) float64, A^T A: products of the bone transforms
    aty   (4B,V) float64, A^T Y: products of the bone transforms with the vertices
    yty   (V,) float64, |y|^2
    rest  (V,4) float64, v~ about the centroid
    """

    ata: np.ndarray
    aty: np.ndarray
    yty: np.ndarray
    rest: np.ndarray

    @staticmethod
    def of(
        poses: Poses, chosen: np.ndarray | None = None, progress: Progress = SILENT
    ) -> NormalEquations:
        """The normal equations in one pass over poses; chosen (n,) increasing, None: all."""
        rest = centred_rest(poses)
        width = 4 * poses.need_skeleton("skin weights").bone_count
        ata = np.zeros((width, width))
        aty = np.zeros((width, len(rest)))
        yty = np.zeros(len(rest))
        total = poses.pose_count if chosen is None else len(chosen)
        with progress.task("reading poses", total) as task:
            for transforms, targets in centred_blocks(poses, chosen):
                ata += transforms.T @ transforms

                def add(
                    part: tuple[slice, np.ndarray], transforms: np.ndarray = transforms
                ) -> None:
                    span, target = part
                    aty[:, span] += transforms.T @ target
                    yty[span] += np.einsum("rv,rv->v", target, target)

                deque(tasks.parallel_results(add, targets), maxlen=0)
                task.advance(len(transforms) // 3)
        return NormalEquations(ata.reshape(width // 4, 4, width // 4, 4), aty, yty, rest)

    @property
    def bone_count(self) -> int:
        return self.ata.shape[0]

    @property
    def vertex_count(self) -> int:
        return len(self.rest)

    def problems(self, vertices: slice) -> SimplexQP:
        """The quadratic programs of some vertices, with R (n,B,B)."""
        rest = self.rest[vertices]
        bones = self.bone_count
        # v~_j v~_k = v~_k v~_j: ten products instead of sixteen
        row, column = np.triu_indices(4)
        both = self.ata.transpose(1, 3, 0, 2)
        twice = both[row, column] + np.where(row == column, 0, 1)[:, None, None] * both[column, row]
        matrix = ((rest[:, row] * rest[:, column]) @ twice.reshape(10, -1)).reshape(
            -1, bones, bones
        )
        scale = self.yty[vertices] + np.einsum("nbb->nb", matrix).max(axis=1)
        cross = np.matmul(self.aty[:, vertices].T.reshape(-1, bones, 4), rest[:, :, None])[..., 0]
        matrix -= cross[:, :, None]
        matrix -= cross[:, None, :]
        matrix += self.yty[vertices, None, None]
        return SimplexQP(matrix, scale)

    def chunks(self) -> list[slice]:
        """Slices of the vertices whose matrices R fit in bounded memory."""
        size = int(np.clip(_CHUNK_BYTES // (8 * self.bone_count**2), 4, 1024))
        return [
            slice(start, min(start + size, self.vertex_count))
            for start in range(0, self.vertex_count, size)
        ]


def solve_dense(equations: NormalEquations, progress: Progress = SILENT) -> np.ndarray:
    """The best weights over all bones: (V,B) float64, rows on the simplex."""
    result = np.zeros((equations.vertex_count, equations.bone_count))
    with progress.task("weights of all bones", equations.vertex_count) as task:
        spans = equations.chunks()
        solve = lambda span: solve_simplex_qp(equations.problems(span))
        for span, best in zip(spans, tasks.parallel_results(solve, spans)):
            np.add.at(
                result[span], (np.arange(span.stop - span.start)[:, None], best.index), best.weight
            )
            task.advance(span.stop - span.start)
    return result


def solve_sparse(
    equations: NormalEquations, influences: int, progress: Progress = SILENT
) -> tuple[np.ndarray, np.ndarray]:
    """The best index (V,K) int32 and weight (V,K) with at most K bones, the largest first."""
    return solve_path(equations, [influences], progress)[0]


def solve_path(
    equations: NormalEquations, influences: Sequence[int], progress: Progress = SILENT
) -> list[tuple[np.ndarray, np.ndarray]]:
    """`solve_sparse` for several K in the order given, at little more than the cost of the largest.

    A larger K never has a larger error.
    """
    for k in influences:
        checks.between(k, "influences", 1)
    wanted = [min(int(k), equations.bone_count) for k in influences]
    result = [
        (np.zeros((equations.vertex_count, k), np.int32), np.zeros((equations.vertex_count, k)))
        for k in wanted
    ]
    with progress.task(f"weights of at most {max(wanted)} bones", equations.vertex_count) as task:
        spans = equations.chunks()
        solve = lambda span: solve_sparse_simplex_qp(equations.problems(span), max(wanted))
        for span, levels in zip(spans, tasks.parallel_results(solve, spans)):
            for k, (index, weight) in zip(wanted, result):
                found = levels[k - 1].compact(k)
                index[span], weight[span] = found.index, found.weight
            task.advance(span.stop - span.start)
    return result
