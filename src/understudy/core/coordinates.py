"""Units and axes: a mesh or a whole `Character` in other coordinates.

    position elsewhere        = linear @ position
    world_from_bone elsewhere = linear @ world_from_bone @ bone_axes

`bone_axes` undoes the scale and the mirroring in each bone's own frame: a bone without scale stays
one without scale, and its local transform changes by the unit of its translation only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from understudy.core.character import Character
from understudy.core.mesh import Mesh

METRES = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048, "unitless": 1.0}
_Y_FROM_Z_UP = np.array([[1.0, 0, 0], [0, 0, 1.0], [0, -1.0, 0]])
_MIRROR = np.diag([-1.0, 1.0, 1.0])


@dataclass(frozen=True)
class Conversion:
    """From one set of coordinates to another.

    linear     (3,3), a rotation times a scale, mirrored or not
    bone_axes  (3,3)
    mirrored   whether handedness changes, which turns polygons around
    """

    linear: np.ndarray
    bone_axes: np.ndarray
    mirrored: bool

    @staticmethod
    def scale(factor: float) -> Conversion:
        """Return the conversion that multiplies all lengths."""
        return Conversion(factor * np.eye(3), np.eye(3) / factor, False)

    @staticmethod
    def mirror() -> Conversion:
        """Return the conversion between left-handed and right-handed: x is negated."""
        return Conversion(_MIRROR, _MIRROR, True)

    @staticmethod
    def to_gltf(unit: str, up_axis: str, handedness: str) -> Conversion:
        """Return the conversion to metres, Y up, right-handed, which is what glTF has.

        unit, up_axis, handedness  of the mesh: "cm", "Z", "left"
        """
        mirrored = handedness == "left"
        turn = _Y_FROM_Z_UP if up_axis == "Z" else np.eye(3)
        mirror = _MIRROR if mirrored else np.eye(3)
        scale = METRES[unit]
        return Conversion(scale * turn @ mirror, mirror / scale, mirrored)

    @staticmethod
    def mesh_to_gltf(mesh: Mesh) -> Conversion:
        """Return the conversion of `mesh` to what glTF has."""
        return Conversion.to_gltf(mesh.unit, mesh.up_axis, mesh.handedness)

    def inverse(self) -> Conversion:
        """Return the conversion back."""
        return Conversion(np.linalg.inv(self.linear), np.linalg.inv(self.bone_axes), self.mirrored)

    @property
    def is_identity(self) -> bool:
        """Whether nothing changes."""
        return np.array_equal(self.linear, np.eye(3))

    def points(self, points: np.ndarray) -> np.ndarray:
        """Return points or offsets (...,3) converted."""
        return points if self.is_identity else points @ self.linear.T

    def normals(self, normals: np.ndarray) -> np.ndarray:
        """Return unit normals (...,3) converted."""
        if self.is_identity:
            return normals
        scale = np.cbrt(abs(np.linalg.det(self.linear)))
        return normals @ (self.linear / scale).T

    def corner_values(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return `Mesh.corner_values` converted: tangents turn."""
        return {n: self.tangents(v) if n == "TANGENT" else v for n, v in values.items()}

    def tangents(self, tangents: np.ndarray) -> np.ndarray:
        """Return tangents (...,4), whose last number is the sign of the bitangent, converted."""
        if self.is_identity:
            return tangents
        turned = tangents[..., :3] @ self.linear.T
        with np.errstate(invalid="ignore"):  # NaN where there is none
            turned = turned / np.linalg.norm(turned, axis=-1, keepdims=True)
        sign = (-1.0 if self.mirrored else 1.0) * tangents[..., 3:]
        return np.concatenate([turned, sign], axis=-1)

    def bones(self, world_from_bone: np.ndarray) -> np.ndarray:
        """Return bones (...,3,4) converted."""
        if self.is_identity:
            return world_from_bone
        linear = self.linear @ world_from_bone[..., :3] @ self.bone_axes
        return np.concatenate([linear, self.linear @ world_from_bone[..., 3:]], axis=-1)

    def character(self, character: Character) -> Character:
        """Return a character converted: mesh, bones, blend shapes, clips and point caches.

        The mesh keeps the unit, up axis and handedness that it states, and the order of corners.
        """
        if self.is_identity:
            return character

        def points(values: np.ndarray) -> np.ndarray:
            return self.points(values.astype(np.float64))

        mesh, skeleton = character.mesh, character.skeleton
        normals = mesh.corner_normals
        if normals is not None:
            normals = self.normals(normals.astype(np.float64))
        if skeleton is not None:
            skeleton = replace(skeleton, world_from_bone=self.bones(skeleton.world_from_bone))
        return replace(
            character,
            mesh=replace(
                mesh,
                vertices=points(mesh.vertices),
                corner_normals=normals,
                corner_values=self.corner_values(mesh.corner_values),
            ),
            skeleton=skeleton,
            shapes=tuple(
                replace(shape, offsets=points(shape.offsets)) for shape in character.shapes
            ),
            clips=tuple(
                replace(
                    clip,
                    world_from_bone=self.bones(clip.world_from_bone),
                    vertices=None if clip.vertices is None else points(clip.vertices),
                )
                for clip in character.clips
            ),
        )
