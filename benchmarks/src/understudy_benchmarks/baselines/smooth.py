"""`smooth`: the K largest weights, fitted so that they vary over the mesh as the dense ones do.

Paper: Landreneau & Schaefer 2010, "Poisson-based weight reduction of animated meshes", the variant
without example poses, as Le & Deng 2013 (section 4) describe it: `k_largest`, but the weights match
the Laplacian of the dense weights,

    minimise over W'   |L (W' - W)|^2 + mu |W' - W|^2      on the K bones kept, convex

Departures: uniform Laplacian weights, and the bones kept are those of the K largest weights; the
paper finds them by a separate iteration.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.sparse_skinning.dense import DenseSkin, mesh_adjacency
from understudy_benchmarks.baselines.fairness import fair_weights, random_walk_laplacian
from understudy_benchmarks.baselines.reduction import Reduction, largest


class Smooth(Reduction):
    """The K largest weights, fitted so that they vary over the mesh as the dense ones do."""

    name = "smooth"

    def keep(self, dense: DenseSkin, influences: int) -> tuple[np.ndarray, np.ndarray]:
        """The bones of the K largest weights, with weights of the same Laplacian."""
        index, weight = largest(dense.weights, influences)
        features = np.eye(dense.bone_count)[index] - dense.weights[:, None, :]
        laplacian = random_walk_laplacian(mesh_adjacency(dense.deformer.mesh))
        return index, fair_weights(features, weight, weight > 0, laplacian)
