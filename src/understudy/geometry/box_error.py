"""E, the error that decomposition papers report: relative to the bounding box of the rest pose.

    E = 1000 r / h    r  root mean square error of a coordinate
                      h  half the diagonal of the bounding box of the rest pose

(Kavan et al. 2010, Le & Deng 2012 and 2013, whose rest poses fit into a unit sphere.)
"""

from __future__ import annotations

import numpy as np


def half_diagonal(points: np.ndarray) -> float:
    """Return half the diagonal of the bounding box of points (V,3); 1.0 if all points coincide.

    >>> half_diagonal(np.array([[0, 0, 0], [3, 4, 0]]))
    2.5
    """
    return float(np.linalg.norm(np.ptp(np.asarray(points, np.float64), axis=0))) / 2 or 1.0


def box_error(coordinate_rms: float, rest: np.ndarray, unit: float = 1.0) -> float:
    """Return E of a root mean square error per coordinate.

    rest  (V,3) rest pose
    unit  length of the unit of `coordinate_rms`, in units of `rest`

    >>> box_error(0.5, np.array([[0, 0, 0], [3, 4, 0]]))
    200.0
    """
    return 1000 * unit / half_diagonal(rest) * coordinate_rms
