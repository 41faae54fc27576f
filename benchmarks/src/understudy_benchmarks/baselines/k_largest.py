"""`k_largest`: each vertex keeps its K largest weights, scaled to sum to one.

    w'_b = w_b / sum of the K largest w        on the bones of the K largest weights, else 0

Engines do this on import. It is the baseline "k-largest" of Le & Deng 2013, Tables 2 and 3.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.sparse_skinning.dense import DenseSkin
from understudy_benchmarks.baselines.reduction import Reduction, largest


class KLargest(Reduction):
    """Each vertex keeps its K largest weights, scaled to sum to one."""

    name = "k_largest"

    def keep(self, dense: DenseSkin, influences: int) -> tuple[np.ndarray, np.ndarray]:
        """The K largest weights of each row."""
        return largest(dense.weights, influences)
