"""The dense skin that a reduction starts from, and the example poses it should reproduce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, VertexSource, evenly
from understudy.core.skin import Skin, skin_weights
from understudy.geometry.adjacency import adjacency_matrix, link_isolated
from understudy.methods.decomposition.ssdr import Ssdr
from understudy.methods.lbs import Lbs
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

# How strongly the bones of a dense skin follow their own vertices, where there are few vertices
# per bone, and the range of it.
_INDIVIDUAL, _FEW = 1e-3, 281.0
_INDIVIDUAL_RANGE = 3e-6, 3e-3
_DEFAULT_BONES = 20
_MAX_POSES = 2000  # a vertex has few weights, and so many poses determine them


@dataclass(frozen=True, eq=False)
class DenseSkin:
    """A deformer whose weights are to be reduced, and its example poses.

    deformer  linear skin; without correctives if there are poses
    weights   (V,B) float64, rows summing to one; virtual bones are multiplied out
    poses     example poses with the deformer's skeleton, or None
    """

    deformer: Deformer
    weights: np.ndarray
    poses: Poses | None

    @staticmethod
    def of(
        deformer: Deformer,
        world_from_bone: np.ndarray | None = None,
        vertices: np.ndarray | VertexSource | None = None,
        *,
        examples: bool,
        who: str,
    ) -> DenseSkin:
        """The dense skin of a deformer, checked.

        world_from_bone  (T,B,3,4) bones of the example poses; None: the clips of the deformer, one
                         after the other, if it has any
        vertices         (T,V,3) vertices of the example poses; None: those the deformer computes
        examples         false: ignore the example poses
        who              name of the method, for errors
        """
        if deformer.skin is None or deformer.skeleton is None:
            raise InputError(f"{who} reduces skin weights, and this deformer has no skin")
        if deformer.skin.blend != "linear":
            raise InputError(
                f"{who} works on linear skins; this one blends by {deformer.skin.blend!r}"
            )
        weights = dense_weights(deformer.skin, deformer.skeleton.bone_count)
        if not examples:
            return DenseSkin(deformer, weights, None)
        if world_from_bone is None and deformer.clips:
            world_from_bone = np.concatenate([clip.world_from_bone for clip in deformer.clips])
        if world_from_bone is None:
            if vertices is not None:
                raise InputError(
                    f"{who}: vertices were given without the bones that go with them; pass "
                    f"world_from_bone too"
                )
            return DenseSkin(deformer, weights, None)
        if deformer.nets or deformer.bases or deformer.mean is not None:
            raise InputError(
                f"{who}: example poses need a deformer without correctives; reduce its weights "
                f"alone (examples=false)"
            )
        if vertices is None:
            vertices = deformer.deform_reference(world_from_bone)
        poses = Poses(deformer.mesh, vertices, deformer.skeleton, world_from_bone)
        return DenseSkin(deformer, weights, poses)

    @property
    def bone_count(self) -> int:
        return self.weights.shape[1]

    @property
    def chosen(self) -> np.ndarray:
        """(n,) indices of the example poses that are used; empty without poses."""
        return evenly(0 if self.poses is None else self.poses.pose_count, _MAX_POSES)


def mesh_adjacency(mesh: Mesh) -> sp.csr_matrix:
    """The adjacency (V,V) of a mesh; vertices without an edge are linked to the nearest ones."""
    return adjacency_matrix(link_isolated(mesh.edges, mesh.vertices), mesh.vertex_count)


def dense_weights(skin: Skin, bone_count: int) -> np.ndarray:
    """The weights of a skin over its bones: (V,B) float64, rows summing to one."""
    weights = skin_weights(skin, bone_count).toarray()
    return weights / weights.sum(axis=1, keepdims=True)


def individual_of(vertices: int, bones: int) -> float:
    """The option `individual` of `ssdr` for a dense skin that is to be reduced.

    A reduced skin has a number of virtual bones in the order of vertices / bones. The fewer they
    are, the simpler are the weights that they can represent.

    >>> individual_of(8430, 30)
    0.001
    """
    few = _FEW / (vertices / bones)
    return float(np.clip(_INDIVIDUAL * few**4, *_INDIVIDUAL_RANGE))


def fit_dense(
    poses: Poses,
    bones: int | None,
    progress: Progress = SILENT,
    *,
    error: float | None = None,
    transforms: Literal["affine", "rigid"] = "affine",
    individual: float | None = None,
) -> Deformer:
    """The best linear skin of `poses` with dense convex weights.

    bones, error, transforms, individual  options of `ssdr`, which finds the bones of poses without
                                          a skeleton; individual None: `individual_of`
    """
    if poses.skeleton is None:
        if individual is None:
            individual = individual_of(poses.vertex_count, bones or _DEFAULT_BONES)
        config = Ssdr.Config(
            bones=bones,
            error=error,
            influences=None,
            transforms=transforms,
            individual=individual,
        )
        return Ssdr(config).fit(poses, progress=progress)
    return Lbs(Lbs.Config(influences=None, max_poses=_MAX_POSES)).fit(poses, progress=progress)
