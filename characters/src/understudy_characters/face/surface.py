"""The rest surface of the face: smoothing, normals, and tools to build displacement fields.

Letters: V vertices. Fields are (V,) or (V,3) float64 in centimetres.
"""

from __future__ import annotations

import numpy as np

from understudy_characters.face.anatomy import FaceAnatomy
from understudy_characters.quad_mesh import quad_normals, quad_smoothing


class Surface:
    """The head at rest.

    points, normals  (V,3)
    skin             (V,) 1 on the skin, 0 on eyeballs, teeth and tongue
    side             (V,) 1 on the left, -1 on the right, smooth across the middle
    """

    def __init__(self, anatomy: FaceAnatomy):
        self.anatomy = anatomy
        self.points = anatomy.vertices
        count = len(self.points)
        self.smoother = quad_smoothing(anatomy.quads, count)
        self.normals = quad_normals(self.points, anatomy.quads)
        self.skin = np.zeros(count)
        self.skin[anatomy.parts["skin"]] = 1.0
        self.side = np.tanh(self.points[:, 0] / 0.6)

    def smooth(self, field: np.ndarray, rounds: int) -> np.ndarray:
        """A field (V,) or (V,n), smoothed over the mesh."""
        for _ in range(rounds):
            field = self.smoother @ field
        return field

    def half(self, field: np.ndarray, side: str) -> np.ndarray:
        """A field (V,) or (V,3) on one side of the face ("L" or "R"), faded out at the middle."""
        share = 0.5 + (0.5 if side == "L" else -0.5) * self.side
        return field * (share[:, None] if field.ndim == 2 else share)

    def ball(self, centre, radius: float) -> np.ndarray:
        """(V,) a Gaussian around a point (3,) on the skin."""
        return self.skin * np.exp(
            -np.sum((self.points - np.asarray(centre)) ** 2, axis=1) / radius**2
        )

    def outward(self, amount: np.ndarray, rounds: int = 2) -> np.ndarray:
        """(V,3): `amount` (V,) cm along the normals, smoothed."""
        return self.smooth(amount[:, None] * self.normals, rounds)

    def along(self, amount: np.ndarray, direction) -> np.ndarray:
        """(V,3): `amount` (V,) cm along `direction` (3,), within the surface."""
        direction = np.asarray(direction, float) / np.linalg.norm(direction)
        tangent = direction - (self.normals @ direction)[:, None] * self.normals
        return amount[:, None] * tangent
