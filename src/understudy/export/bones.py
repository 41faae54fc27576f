"""The bones that an export starts from: those of the deformer, or its virtual bones.

Bones that a decomposition found have no parents, and their bind pose is not rotated. An export
places each at the centre of its vertices. That changes no vertex, and engines can interpolate and
show such bones.

Letters: F frames, V vertices, B bones, N virtual bones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from understudy.core.deformer import Deformer
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin, skin_weights
from understudy.export.joints import rigid
from understudy.geometry.influences import dense_to_influences
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import compose


@dataclass(frozen=True, eq=False)
class EngineBones:
    """The bones of an export, computed from those of the deformer.

    skeleton  in the bind pose
    skin      the deformer's skin on these bones
    virtual   (N,B) blends the deformer's bones to virtual bones, or None
    rest      (N,3,4) added to bones without a bind pose of their own, or None
    is_rigid  whether scale and shear are dropped
    """

    skeleton: Skeleton
    skin: Skin
    virtual: sp.csr_matrix | None = None
    rest: np.ndarray | None = None
    is_rigid: bool = False

    @staticmethod
    def of(deformer: Deformer, is_rigid: bool = False) -> EngineBones:
        """Return the bones of `deformer`, which must have some."""
        skeleton, skin = deformer.need_skin()
        virtual, names = None, skeleton.names
        found = bool((skeleton.parents < 0).all()) and np.allclose(
            skeleton.world_from_bone[..., :3], np.eye(3)
        )
        if skin.virtual is not None and is_rigid:
            dense = skin_weights(skin, skeleton.bone_count).toarray()
            skin, found = Skin(*dense_to_influences(dense)), True
        elif skin.virtual is not None:
            index, weight = skin.virtual
            virtual = weight_matrix(index, weight.astype(np.float64), skeleton.bone_count)
            names = tuple(f"virtual_{number}" for number in range(len(index)))
            skin, found = Skin(skin.bone_index, skin.weight, skin.blend), True
        if not found:
            rest = skeleton.world_from_bone
            if is_rigid:
                skeleton = Skeleton(names, skeleton.parents, rigid(rest))
            return EngineBones(skeleton, skin, is_rigid=is_rigid)
        placed = _placed(names, skin, deformer.mesh.vertices)
        return EngineBones(placed, skin, virtual, placed.world_from_bone, is_rigid)

    def with_virtual(self, virtual: sp.csr_matrix, skin: Skin, vertices: np.ndarray) -> EngineBones:
        """Return other virtual bones (N,B) of the same number, with their skin.

        vertices  (V,3) of the mesh at rest
        """
        placed = _placed(self.skeleton.names, skin, vertices)
        return replace(
            self, skeleton=placed, skin=skin, virtual=virtual, rest=placed.world_from_bone
        )

    @property
    def found(self) -> bool:
        """Whether a decomposition found the bones, so that their bind pose is free."""
        return self.rest is not None

    def motion(self, world_from_bone: np.ndarray, skeleton: Skeleton) -> np.ndarray:
        """Return these bones, (F,N,3,4), in poses (F,B,3,4) of the deformer's `skeleton`."""
        moved = world_from_bone
        if self.rest is not None:
            moved = compose(moved, skeleton.bone_from_world)
        if self.virtual is not None:
            since_rest = moved
            frames, count = since_rest.shape[:2]
            flat = np.moveaxis(since_rest, 1, 0).reshape(count, -1)
            blended = (self.virtual @ flat).reshape(-1, frames, 3, 4)
            moved = np.ascontiguousarray(np.moveaxis(blended, 0, 1))
        if self.rest is not None:
            moved = compose(moved, self.rest)
        return rigid(moved) if self.is_rigid else moved


def _placed(names: tuple[str, ...], skin: Skin, vertices: np.ndarray) -> Skeleton:
    """Return bones without parents, each at the centre of its vertices (V,3)."""
    rest = np.tile(np.eye(3, 4), (len(names), 1, 1))
    rest[:, :, 3] = _centres(skin, vertices, len(names))
    return Skeleton(names, np.full(len(names), -1), rest)


def _centres(skin: Skin, vertices: np.ndarray, bones: int) -> np.ndarray:
    """Return the mean (B,3) of the vertices of each bone, weighted; of all where it has none."""
    weight = np.abs(skin.weight.astype(np.float64)) ** 2
    rows = weight_matrix(skin.bone_index, weight, bones)
    total = np.asarray(rows.sum(axis=0)).reshape(-1, 1)
    points = vertices.astype(np.float64)
    return np.where(total > 1e-9, (rows.T @ points) / np.maximum(total, 1e-9), points.mean(axis=0))
