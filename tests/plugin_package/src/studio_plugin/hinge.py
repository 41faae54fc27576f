"""`hinge`: a strip on one joint; the least that a rig needs."""

from __future__ import annotations

import numpy as np

from understudy import ControlSpec, Mesh, Poses, Skeleton


class Hinge:
    """A strip of quads that bends in the middle. It has no name and no animations."""

    def __init__(self) -> None:
        x, y = np.meshgrid(np.linspace(-1, 1, 9), [0.0, 0.2], indexing="ij")
        at = np.arange(18).reshape(9, 2)
        quads = np.stack([at[:-1, 0], at[1:, 0], at[1:, 1], at[:-1, 1]], axis=-1)
        self.mesh = Mesh.from_faces(np.stack([x, y, 0 * x], axis=-1).reshape(-1, 3), quads)
        self.skeleton = Skeleton(("left", "right"), [-1, 0], np.tile(np.eye(3, 4), (2, 1, 1)))
        self.controls = ControlSpec(("bend",), low=[-60], high=[60], units=("deg",))
        self._right = 1 / (1 + np.exp(-8 * x.reshape(-1)))

    def evaluate(self, values: np.ndarray) -> Poses:
        """The poses at bend angles (T,1), in degrees."""
        values = self.controls.check(values)
        angle = np.deg2rad(values[:, 0])
        bones = np.tile(np.eye(3, 4), (len(values), 2, 1, 1))
        bones[:, 1, 0, 0] = bones[:, 1, 1, 1] = np.cos(angle)
        bones[:, 1, 1, 0], bones[:, 1, 0, 1] = np.sin(angle), -np.sin(angle)
        turned = np.einsum("tij,vj->tvi", bones[:, 1, :, :3], self.mesh.vertices)
        blend = self._right[:, None]
        vertices = (1 - blend) * self.mesh.vertices + blend * turned
        return Poses(self.mesh, vertices, self.skeleton, bones, self.controls, values)
