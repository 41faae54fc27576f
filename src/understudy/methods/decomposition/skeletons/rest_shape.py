"""The rest shape for given transforms and weights.

A sequence's first frame is as noisy as any other, and as a rest shape its noise appears in every
frame. With transforms and weights fixed, each vertex has three unknowns:

    v_i = argmin_v  sum_f |sum_b w_ib T_fb [v, 1] - y_fi|^2 + h |v - near_i|^2

All vertices share the Gram matrix of the transforms.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.decomposition import kernels
from understudy.methods.decomposition.fit import Fit, dense_weights
from understudy.methods.decomposition.motion import Motion

_VERTICES = 2000  # solved at a time


def solve_rest_shape(motion: Motion, fit: Fit, near: np.ndarray, hold: float) -> np.ndarray:
    """Return the homogeneous rest positions (V,4) that fit best.

    near  (V,4) positions to stay close to
    hold  h, the strength of that
    """
    bones, weights, result = fit.bones, dense_weights(fit), near.copy()
    gram = (
        (fit.transforms.T @ fit.transforms)
        .reshape(bones, 4, bones, 4)
        .transpose(0, 2, 1, 3)
        .reshape(bones, -1)
    )
    for start in range(0, len(weights), _VERTICES):
        part = slice(start, start + _VERTICES)
        weight = weights[part]
        matrix = np.einsum("vb,vbij->vij", weight, (weight @ gram).reshape(-1, bones, 4, 4))
        linear = np.einsum(
            "vb,vbi->vi",
            weight,
            kernels.product(motion.targets[part], fit.transforms).reshape(-1, bones, 4),
        )
        right = linear[:, :3] - matrix[:, :3, 3] + hold * near[part, :3]
        solved = np.linalg.solve(matrix[:, :3, :3] + hold * np.eye(3), right[..., None])
        result[part, :3] = solved[..., 0]
    return result
