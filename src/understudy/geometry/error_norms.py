"""The error E of the skinning decomposition papers, and the error of a weight matrix.

    E        = 1000 r / h                     r: root-mean-square error of a coordinate
                                              h: half the diagonal of the rest pose's bounding box
    Delta_W  = |W' - W|_F / sqrt(V B)         W, W': weights (V,B)

E follows Kavan et al. 2010, Le & Deng 2012 and Le & Deng 2013 (whose rest poses fit into a unit
sphere), Delta_W follows Le & Deng 2013, Eq. 1a.
"""

from __future__ import annotations

import numpy as np


def half_diagonal(points: np.ndarray) -> float:
    """Half the diagonal of the bounding box of points (V,3); 1.0 if all points coincide.

    >>> half_diagonal(np.array([[0, 0, 0], [3, 4, 0]]))
    2.5
    """
    return float(np.linalg.norm(np.ptp(np.asarray(points, np.float64), axis=0))) / 2 or 1.0


def box_error(coordinate_rms: float, rest: np.ndarray, unit: float = 1.0) -> float:
    """E from the root-mean-square error of a coordinate.

    rest  (V,3) rest pose
    unit  length of the unit of `coordinate_rms`, in units of `rest`

    >>> box_error(0.5, np.array([[0, 0, 0], [3, 4, 0]]))
    200.0
    """
    return 1000 * unit / half_diagonal(rest) * coordinate_rms


def weight_error(square_sum: float, value_count: int) -> float:
    """Delta_W from a sum of squared weight differences.

    square_sum   |W' - W|_F^2
    value_count  V B, the number of weights

    >>> weight_error(0.5, 2)
    0.5
    """
    return float(np.sqrt(square_sum / value_count))
