"""`poisson`: the bones of `geometry`, their weights fitted so that the mesh bends in the example
poses as it should.

Follows Landreneau & Schaefer 2010, "Poisson-based weight reduction of animated meshes", as Le &
Deng 2013 (section 4) describe it: like `smooth`, but the Laplacians matched are those of the
example poses,

    minimise over w   sum_t |L (V'_t - V_t)|^2 + mu |V'_t - V_t|^2      on the K bones kept, convex

Departure: uniform Laplacian weights, and the bones kept are those of `geometry`, which suit the
poses, rather than found by a separate iteration.
"""

from __future__ import annotations

import numpy as np

from understudy.geometry.laplacian import random_walk_laplacian
from understudy.methods.sparse_skinning.dense import DenseSkin, mesh_adjacency
from understudy.methods.sparse_skinning.examples import Examples
from understudy.methods.sparse_skinning.fairness import fair_weights
from understudy.methods.sparse_skinning.geometry import Geometry
from understudy.methods.sparse_skinning.reduction import Reduction

_AT_ONCE = 1024  # vertices


class Poisson(Reduction):
    """The bones of `geometry`, with weights fitted to the mesh's differential coordinates."""

    name = "poisson"
    needs_examples = True

    def keep(self, dense: DenseSkin, influences: int) -> tuple[np.ndarray, np.ndarray]:
        index, weight = Geometry(self.config).keep(dense, influences)
        examples = Examples.of(dense.poses, dense.chosen)
        features = np.empty((*index.shape, examples.target.shape[1]), np.float32)
        for start in range(0, len(index), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            moved = np.matmul(examples.point[part, None, None, :], examples.bones[index[part]])[
                :, :, 0
            ]
            features[part] = moved - examples.target[part, None]
        return index, fair_weights(
            features, weight, weight > 0, random_walk_laplacian(mesh_adjacency(dense.deformer.mesh))
        )
