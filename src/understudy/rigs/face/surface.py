"""What the face's stages need to know about the resting surface: smoothing, normals, and fields
made from words.

Letters: V vertices. Fields are (V,) or (V,3) float64 in centimetres.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sparse

from understudy.rigs.face.anatomy import FaceAnatomy


class Surface:
    """The resting head and the tools to shape fields on it. `skin` (V,) is 1 on the head's skin, 0
    on eyeballs, teeth and tongue.
    """

    def __init__(self, anatomy: FaceAnatomy):
        self.anatomy = anatomy
        self.points = anatomy.vertices
        count = len(self.points)
        pairs = np.concatenate([anatomy.quads[:, [k, (k + 1) % 4]] for k in range(4)])
        near = sparse.coo_matrix(
            (np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count)
        )
        near = ((near + near.T) > 0).astype(np.float64)
        self.smoother = sparse.csr_matrix(
            0.5 * sparse.identity(count)
            + 0.5 * sparse.diags(1.0 / np.asarray(near.sum(axis=1)).ravel()) @ near
        )
        self.normals = self._normals()
        self.skin = np.zeros(count)
        self.skin[anatomy.parts["skin"]] = 1.0
        self.side = np.tanh(self.points[:, 0] / 0.6)  # +1 left, -1 right, soft over the middle

    def smooth(self, field: np.ndarray, rounds: int) -> np.ndarray:
        for _ in range(rounds):
            field = self.smoother @ field
        return field

    def half(self, field: np.ndarray, side: str) -> np.ndarray:
        """A field kept on one side of the face, faded out over the middle."""
        share = 0.5 + (0.5 if side == "L" else -0.5) * self.side
        return field * (share[:, None] if field.ndim == 2 else share)

    def ball(self, centre, radius: float) -> np.ndarray:
        """(V,) a Gaussian ball on the skin."""
        return self.skin * np.exp(
            -np.sum((self.points - np.asarray(centre)) ** 2, axis=1) / radius**2
        )

    def outward(self, amount: np.ndarray, rounds: int = 2) -> np.ndarray:
        """(V,3) `amount` (V,) cm along the normal, softened."""
        return self.smooth(amount[:, None] * self.normals, rounds)

    def along(self, amount: np.ndarray, direction) -> np.ndarray:
        """(V,3) `amount` cm along `direction`, laid into the surface."""
        direction = np.asarray(direction, float) / np.linalg.norm(direction)
        tangent = direction - (self.normals @ direction)[:, None] * self.normals
        return amount[:, None] * tangent

    def _normals(self) -> np.ndarray:
        corners = self.points[self.anatomy.quads]
        area = np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])
        total = np.zeros_like(self.points)
        for k in range(4):
            np.add.at(total, self.anatomy.quads[:, k], area)
        return total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-12)
