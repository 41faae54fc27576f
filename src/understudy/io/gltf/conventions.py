"""Units and axes: glTF is in metres, right-handed and Y up; a mesh may be otherwise.

The writer converts positions and bones with a `Conversion` and stores unit, up axis and handedness
of the mesh; the reader converts back.

    position in glTF        = from_mesh @ position
    world_from_bone in glTF = from_mesh @ world_from_bone @ bone_axes

`bone_axes` undoes the scale and the mirroring in each bone's own frame: a bone without scale stays
one without scale, and its local transform changes by the unit of its translation only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.mesh import Mesh

METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048, "unitless": 1.0}
_Y_FROM_Z_UP = np.array([[1.0, 0, 0], [0, 0, 1.0], [0, -1.0, 0]])
_MIRROR = np.diag([-1.0, 1.0, 1.0])


@dataclass(frozen=True)
class Conversion:
    """From the coordinates of a mesh to those of glTF.

    from_mesh  (3,3)
    bone_axes  (3,3)
    mirrored   whether handedness changes, which turns polygons around
    """

    from_mesh: np.ndarray
    bone_axes: np.ndarray
    mirrored: bool

    @staticmethod
    def of(unit: str, up_axis: str, handedness: str) -> Conversion:
        """Return the conversion for a mesh of that unit ("cm"), up axis ("Z") and handedness."""
        mirrored = handedness == "left"
        turn = _Y_FROM_Z_UP if up_axis == "Z" else np.eye(3)
        mirror = _MIRROR if mirrored else np.eye(3)
        scale = METRES[unit]
        return Conversion(scale * turn @ mirror, mirror / scale, mirrored)

    @staticmethod
    def of_mesh(mesh: Mesh) -> Conversion:
        """Return the conversion for `mesh`."""
        return Conversion.of(mesh.unit, mesh.up_axis, mesh.handedness)

    def inverse(self) -> Conversion:
        """Return the conversion from glTF to the mesh's coordinates."""
        return Conversion(
            np.linalg.inv(self.from_mesh), np.linalg.inv(self.bone_axes), self.mirrored
        )

    @property
    def is_identity(self) -> bool:
        """Whether nothing changes."""
        return np.array_equal(self.from_mesh, np.eye(3))

    def points(self, points: np.ndarray) -> np.ndarray:
        """Return points or offsets (...,3) converted."""
        return points if self.is_identity else points @ self.from_mesh.T

    def normals(self, normals: np.ndarray) -> np.ndarray:
        """Return unit normals (...,3) converted."""
        if self.is_identity:
            return normals
        scale = np.cbrt(abs(np.linalg.det(self.from_mesh)))
        return normals @ (self.from_mesh / scale).T

    def bones(self, world_from_bone: np.ndarray) -> np.ndarray:
        """Return bones (...,3,4) converted."""
        if self.is_identity:
            return world_from_bone
        linear = self.from_mesh @ world_from_bone[..., :3] @ self.bone_axes
        return np.concatenate([linear, self.from_mesh @ world_from_bone[..., 3:]], axis=-1)
