"""`poisson`: the bones of `geometry`, with weights that match the Laplacians of the example poses.

Paper: Landreneau & Schaefer 2010, "Poisson-based weight reduction of animated meshes", as Le & Deng
2013 (section 4) describe it: like `smooth`, but for the vertices V_t of the example poses,

    minimise over w   sum_t |L (V'_t - V_t)|^2 + mu |V'_t - V_t|^2      on the K bones kept, convex

Departures: uniform Laplacian weights, and the bones kept are those of `geometry`, which fit the
poses; the paper finds them by a separate iteration.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.sparse_skinning.dense import DenseSkin, Examples, mesh_adjacency
from understudy_benchmarks.baselines.fairness import fair_weights, random_walk_laplacian
from understudy_benchmarks.baselines.geometry import Geometry
from understudy_benchmarks.baselines.reduction import Reduction, need_poses

_VERTEX_BLOCK = 1024  # vertices whose residuals are computed at a time


class Poisson(Reduction):
    """The bones of `geometry`, with weights that match the Laplacians of the example poses."""

    name = "poisson"
    needs_examples = True

    def keep(self, dense: DenseSkin, influences: int) -> tuple[np.ndarray, np.ndarray]:
        """The bones of `geometry`, with weights whose residual is smooth over the mesh."""
        index, weight = Geometry(self.config).keep(dense, influences)
        examples = Examples.of(need_poses(dense, self.name), dense.chosen)
        features = np.empty((*index.shape, examples.target.shape[1]), np.float32)
        for start in range(0, len(index), _VERTEX_BLOCK):
            part = slice(start, start + _VERTEX_BLOCK)
            moved = np.matmul(examples.point[part, None, None, :], examples.bones[index[part]])
            features[part] = moved[:, :, 0] - examples.target[part, None]
        laplacian = random_walk_laplacian(mesh_adjacency(dense.deformer.mesh))
        return index, fair_weights(features, weight, weight > 0, laplacian)
