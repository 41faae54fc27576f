"""The dense skin a reduction starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, evenly
from understudy.core.progress import SILENT, Progress
from understudy.core.skin import Skin
from understudy.geometry.adjacency import adjacency_matrix, link_isolated
from understudy.geometry.skinning import weight_matrix

_MOST_POSES = 2000  # a vertex's weights are few numbers, and so many poses determine them


@dataclass(frozen=True, eq=False)
class DenseSkin:
    """A deformer whose weights are to be reduced, and the poses to be right in.

    deformer   linear skin, no correctives where there are poses
    weights    (V,B) float64, rows summing to one; virtual bones multiplied out
    poses      example poses with the deformer's skeleton, or None
    chosen     (n,) which of them are used
    """

    deformer: Deformer
    weights: np.ndarray
    poses: Poses | None
    chosen: np.ndarray | None

    @staticmethod
    def of(
        deformer: Deformer, world_from_bone=None, vertices=None, *, examples: bool, who: str
    ) -> DenseSkin:
        """A deformer and, for `examples`, bones (T,B,3,4) and the vertices (T,V,3) they should lead
        to; without vertices: those it makes itself.

        Without bones the deformer's own clips are taken, one after the other, where it has any.
        """
        if deformer.skin is None:
            raise InputError(f"{who} reduces skin weights, and this deformer has no skin")
        if deformer.skin.blend != "linear":
            raise InputError(
                f"{who} works on linear skins; this one blends by {deformer.skin.blend!r}"
            )
        weights = dense_weights(deformer.skin, deformer.skeleton.bone_count)
        if not examples:
            return DenseSkin(deformer, weights, None, None)
        if world_from_bone is None and deformer.clips:
            world_from_bone = np.concatenate([clip.world_from_bone for clip in deformer.clips])
        poses = None
        if world_from_bone is not None:
            if deformer.nets or deformer.bases or deformer.mean is not None:
                raise InputError(
                    f"{who}: example poses need a deformer without correctives; reduce its weights "
                    f"alone (examples=false)"
                )
            if vertices is None:
                vertices = deformer.deform_reference(world_from_bone)
            poses = Poses(deformer.mesh, vertices, deformer.skeleton, world_from_bone)
        elif vertices is not None:
            raise InputError(
                f"{who}: vertices were given without the bones that go with them; pass "
                f"world_from_bone too"
            )
        return DenseSkin(
            deformer,
            weights,
            poses,
            None if poses is None else evenly(poses.pose_count, _MOST_POSES),
        )

    @property
    def bone_count(self) -> int:
        return self.weights.shape[1]


def mesh_adjacency(mesh: Mesh) -> sp.csr_matrix:
    """The adjacency (V,V) of a mesh; vertices without an edge are linked to the nearest ones."""
    return adjacency_matrix(link_isolated(mesh.edges, mesh.vertices), mesh.vertex_count)


def dense_weights(skin: Skin, bone_count: int) -> np.ndarray:
    """(V,B) float64, rows summing to one."""
    weights = weight_matrix(
        skin.bone_index,
        skin.weight.astype(np.float64),
        bone_count if skin.virtual_index is None else len(skin.virtual_index),
    )
    if skin.virtual_index is not None:
        weights = weights @ weight_matrix(
            skin.virtual_index, skin.virtual_weight.astype(np.float64), bone_count
        )
    weights = weights.toarray()
    return weights / weights.sum(axis=1, keepdims=True)


def fit_dense(
    poses: Poses,
    bones: int | None,
    progress: Progress = SILENT,
    *,
    error: float | None = None,
    transforms: Literal["affine", "rigid"] = "affine",
) -> Deformer:
    """The linear skin of `poses` with dense convex weights, on bones that `ssdr` finds if needed.

    Poses with a skeleton keep their bones. For the others, `bones`, `error` and `transforms` are
    the options of `ssdr`.
    """
    if poses.skeleton is None:
        from understudy.methods.decomposition.ssdr import Ssdr

        config = Ssdr.Config(bones=bones, error=error, influences=None, transforms=transforms)
        return Ssdr(config).fit(poses, progress=progress)
    from understudy.methods.lbs import Lbs

    return Lbs(Lbs.Config(influences=None, max_poses=_MOST_POSES)).fit(poses, progress=progress)


def packed_rows(rows: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n,B) of any sign with at most `most` entries, as index (n,c) int32 and weight (n,c)
    float32, largest first, summing to one in float32.

    >>> index, weight = packed_rows(np.array([[0.0, 1.5, -0.5], [0.0, 0.0, 1.0]]), 2)
    >>> index.tolist(), weight.tolist()
    ([[1, 2], [2, 0]], [[1.5, -0.5], [1.0, 0.0]])
    """
    checks.between(most, "entries per row", 1)
    places = max(1, min(most, int((rows != 0).sum(axis=1).max(initial=0))))
    order = np.argsort(-np.abs(rows), axis=1, kind="stable")[:, :places]
    return float32_rows(order, np.take_along_axis(rows, order, axis=1))


def float32_rows(index: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index (n,c) and weights (n,c) that sum to one as int32 and float32, the largest weight taking
    up the rounding; unused places hold index 0.
    """
    rounded = weight.astype(np.float32)
    rows, largest = np.arange(len(weight)), np.argmax(np.abs(weight), axis=1)
    rounded[rows, largest] += (1.0 - rounded.sum(axis=1, dtype=np.float64)).astype(np.float32)
    return np.where(rounded != 0, index, 0).astype(np.int32), rounded
