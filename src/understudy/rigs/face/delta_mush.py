"""Delta mush: smooth the skinned surface, then put the fine detail back, turned with the joints
(direct delta mush, Le and Lewis 2019).

    s = S^n x,      e = (rest + d) - S^n (rest + d),      v_i = s_i + A_i e_i

A_i is the rotation of the joints, blended with the smoothed weights S^n w. Tangents of the smoothed
surface (Mancewicz et al. 2014) would do as well but where it folds onto itself, as lids and lips
do: there they span no area, and the detail flips. It evens out what skinning does and leaves the
shapes alone. Letters: V vertices, T poses; fields are (V,3,T) float32.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from understudy.geometry.skinning import quaternion_from_rotation
from understudy.rigs.face.surface import Surface
from understudy.rigs.quaternion_blend import blended, turned

ROUNDS = 4


class Mush:
    """Smoothing with the detail kept. weights (V,B): those of the skin."""

    def __init__(self, surface: Surface, weights: sparse.csr_matrix):
        self._smoother = surface.smoother.astype(np.float32)
        self._weights = sparse.csr_matrix(self._smooth(weights.toarray().astype(np.float32)))

    def apply(self, shaped: np.ndarray, skinned: np.ndarray, turn: np.ndarray) -> np.ndarray:
        """(V,3,T): shaped is the surface before skinning, skinned after; turn (T,B,3,3): the
        joints' rotations since rest, all below 90 degrees.
        """
        blend = blended(self._weights, quaternion_from_rotation(turn))
        return self._smooth(skinned) + turned(
            shaped - self._smooth(shaped), blend[:, 0], blend[:, 1:]
        )

    def _smooth(self, field: np.ndarray) -> np.ndarray:
        flat = field.reshape(len(field), -1)
        for _ in range(ROUNDS):
            flat = self._smoother @ flat
        return flat.reshape(field.shape)
