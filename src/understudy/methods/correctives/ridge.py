"""Ridge regression with an intercept."""

from __future__ import annotations

import numpy as np


def ridge_regression(
    x: np.ndarray, y: np.ndarray, penalty: float = 1e-4
) -> tuple[np.ndarray, np.ndarray]:
    """The affine map from x (T,n) to y (T,P): weights (P,n) and bias (P,) float64.

    penalty  ridge penalty per row of x, for standardised columns

    >>> x, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> weight, bias = ridge_regression(x, y, 0.0)
    >>> round(float(weight[0, 0]), 6), round(float(bias[0]), 6)
    (2.0, 1.0)
    """
    x, y = x.astype(np.float64), y.astype(np.float64)
    shift, bias = x.mean(axis=0), y.mean(axis=0)
    x = x - shift
    gram = x.T @ x + max(penalty, 1e-12) * len(x) * np.eye(x.shape[1])
    weight = np.linalg.solve(gram, x.T @ (y - bias)).T
    return weight, bias - weight @ shift
