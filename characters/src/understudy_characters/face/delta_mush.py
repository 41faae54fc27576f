"""Delta mush: smooth the skinned surface, then add the detail back, rotated with the joints.

    s = S^n x,      e = (rest + d) - S^n (rest + d),      v_i = s_i + A_i e_i

A_i is the rotation of the joints, blended with the smoothed weights S^n w, as in direct delta mush
(Le and Lewis 2019). Mancewicz et al. 2014 rotate the detail with tangents of the smoothed surface.
Where it folds onto itself, as lids and lips do, these tangents span no area and the detail flips.
The stage smooths the artefacts of skinning and leaves the shapes alone.

Letters: V vertices, B joints, T poses; fields are (V,3,T) float32.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from understudy.geometry.skinning import quaternion_from_rotation
from understudy_characters.face.surface import Surface
from understudy_characters.quaternion_blend import blend_quaternions, rotate

ROUNDS = 4


class DeltaMush:
    """Smoothing that keeps the detail.

    weights  (V,B) of the skin
    """

    def __init__(self, surface: Surface, weights: sparse.csr_matrix):
        self._smoother = surface.smoother.astype(np.float32)
        self._weights = sparse.csr_matrix(self._smooth(weights.toarray().astype(np.float32)))

    def apply(self, shaped: np.ndarray, skinned: np.ndarray, rotation: np.ndarray) -> np.ndarray:
        """The smoothed surface with its detail: (V,3,T).

        shaped    (V,3,T) the surface before skinning
        skinned   (V,3,T) the surface after skinning
        rotation  (T,B,3,3) of the joints since rest, all below 90 degrees
        """
        blend = blend_quaternions(self._weights, quaternion_from_rotation(rotation))
        detail = shaped - self._smooth(shaped)
        return self._smooth(skinned) + rotate(detail, blend[:, 0], blend[:, 1:])

    def _smooth(self, field: np.ndarray) -> np.ndarray:
        flat = field.reshape(len(field), -1)
        for _ in range(ROUNDS):
            flat = self._smoother @ flat
        return flat.reshape(field.shape)
