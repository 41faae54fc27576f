"""`k_largest`: each vertex keeps its K largest weights, scaled to sum to one.

What engines do on import, and the first row of Le & Deng 2013, Tables 2 and 3.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.sparse_skinning.dense import DenseSkin
from understudy.methods.sparse_skinning.reduction import Reduction, largest


class KLargest(Reduction):
    """Each vertex keeps its K largest weights, scaled to sum to one."""

    name = "k_largest"

    def keep(self, dense: DenseSkin, influences: int) -> tuple[np.ndarray, np.ndarray]:
        return largest(dense.weights, influences)
