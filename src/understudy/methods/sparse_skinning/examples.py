"""Example poses as a small linear map from weights to residuals.

Paper: Le & Deng 2013, section 3.5. Vertex i with weights w has, over all poses, the residual

    x_i(w) = sum_b w_b A_b u_i - y_i

where A_b (3T,4) stacks the transforms of bone b, u_i = [rest_i, 1], and y_i (3T) stacks the
positions of the vertex. All bones together span at most 4B of the 3T directions, so A = Q R is
factorised once, and everything is expressed in the q columns of Q: R_b (q,4) and Q^T y_i (q). The
part of y that no bone reaches is a constant.

Each pose is taken about its own centroid; weights sum to one, so only the rounding changes. Lengths
are in units of half the diagonal of the rest bounding box, as in the error E.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.poses import Poses
from understudy.geometry.error_norms import half_diagonal
from understudy.methods.skin_fitting.best_bone import centred_blocks, centred_rest

_VERTEX_BLOCK = 4096  # vertices whose residuals are computed at a time


@dataclass(frozen=True, eq=False)
class Examples:
    """Example poses in the directions that the bones reach.

    point        (V,4) float64, u
    target       (V,q) float64, Q^T y
    bones        (B,4,q) float64, the transposes of R_b
    constant     squared distance, over all vertices and poses, that no weights can remove
    value_count  3 T V, the number of coordinates
    """

    point: np.ndarray
    target: np.ndarray
    bones: np.ndarray
    constant: float
    value_count: int

    @staticmethod
    def of(poses: Poses, chosen: np.ndarray | None = None) -> Examples:
        """The examples of some poses, in two passes over them.

        chosen  (n,) increasing indices of the poses to use; None: all
        """
        size = half_diagonal(poses.mesh.vertices)
        point = centred_rest(poses).copy()
        point[:, :3] /= size
        columns = np.concatenate([block for block, _ in centred_blocks(poses, chosen)])
        columns = columns.reshape(len(columns), -1, 4)
        columns[..., 3] /= size
        columns = columns.reshape(len(columns), -1)
        directions, triangle = np.linalg.qr(columns)
        target, square, row = np.zeros((directions.shape[1], len(point))), 0.0, 0
        for block, targets in centred_blocks(poses, chosen):
            span = directions[row : row + len(block)]
            for where, part in targets:
                part = part / size
                target[:, where] += span.T @ part
                square += float(np.einsum("rv,rv->", part, part))
            row += len(block)
        bones = triangle.reshape(len(triangle), -1, 4).transpose(1, 2, 0)
        constant = max(0.0, square - float(np.einsum("qv,qv->", target, target)))
        return Examples(
            point,
            np.ascontiguousarray(target.T),
            np.ascontiguousarray(bones),
            constant,
            row * len(point),
        )

    @property
    def bone_count(self) -> int:
        return len(self.bones)

    def squared_error(self, weights: np.ndarray) -> float:
        """The squared distance that weights (V,B) leave, without the constant."""
        total = 0.0
        for start in range(0, len(weights), _VERTEX_BLOCK):
            part = slice(start, start + _VERTEX_BLOCK)
            spread = (weights[part, :, None] * self.point[part, None, :]).reshape(
                -1, 4 * self.bone_count
            )
            total += float(
                np.sum(
                    (spread @ self.bones.reshape(4 * self.bone_count, -1) - self.target[part]) ** 2
                )
            )
        return total

    def box_error(self, square: float) -> float:
        """The error E of a squared distance without the constant."""
        # Lengths are in units of half the diagonal already.
        return 1000.0 * float(np.sqrt((square + self.constant) / self.value_count))
