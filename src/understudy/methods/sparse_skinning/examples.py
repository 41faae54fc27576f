"""Example poses as a small linear map from weights to residuals (two-layer paper, section 3.5).

Vertex i with weights w misses its example positions by  x_i(w) = sum_b w_b A_b u_i - y_i,  where
                                                         A_b (3T x 4) stacks bone b's transforms
                                                         over the
poses and u_i = [rest_i, 1]. All bones together span at most 4 B directions of the 3T, so A = Q R is
factorised once and everything is written in those: R_b (q x 4), Q^T y_i (q), and a constant, the
part of y that no bone can reach. Each pose is taken about its own centroid (weights sum to one, so
nothing changes but the rounding), and lengths are in units of half the diagonal of the rest
bounding box, as in the measure E.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.poses import Poses
from understudy.methods.skin_fitting.best_bone import centred_blocks, centred_rest


@dataclass(frozen=True, eq=False)
class Examples:
    """What the example poses ask of the weights.

    point      (V,4) float64, u
    target     (V,q) float64, y in the bones' directions
    bones      (B,4,q) float64, A in the bones' directions
    constant   squared distance, over all vertices and poses, that no weights can remove
    values     3 T V, the number of coordinates behind it
    """

    point: np.ndarray
    target: np.ndarray
    bones: np.ndarray
    constant: float
    values: int

    @staticmethod
    def of(poses: Poses, chosen: np.ndarray | None = None) -> Examples:
        """Two passes over the poses, or over the `chosen` ones: (n,) increasing numbers."""
        size = (
            0.5 * float(np.linalg.norm(np.ptp(poses.mesh.vertices.astype(np.float64), axis=0)))
            or 1.0
        )
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

    def square(self, weights: np.ndarray) -> float:
        """The squared distance that weights (V,B) leave, without the constant."""
        total = 0.0
        for start in range(0, len(weights), 4096):
            part = slice(start, start + 4096)
            spread = (weights[part, :, None] * self.point[part, None, :]).reshape(
                -1, 4 * self.bone_count
            )
            total += float(
                np.sum(
                    (spread @ self.bones.reshape(4 * self.bone_count, -1) - self.target[part]) ** 2
                )
            )
        return total

    def error(self, square: float) -> float:
        """E, in thousandths, of a squared distance without the constant."""
        return 1000.0 * float(np.sqrt((square + self.constant) / self.values))
