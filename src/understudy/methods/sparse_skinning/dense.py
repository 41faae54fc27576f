"""The dense skin that a reduction starts from, and the example poses it should reproduce.

Paper: Le & Deng 2013, section 3.5. Vertex i with weights w has, over all poses, the residual

    x_i(w) = sum_b w_b A_b u_i - y_i

where A_b (3T,4) stacks the transforms of bone b, u_i = [rest_i, 1], and y_i (3T) stacks the
positions of the vertex. All bones together span at most 4B of the 3T directions, so A = Q R is
factorised once, and everything is expressed in the q columns of Q: R_b (q,4) and Q^T y_i (q). The
part of y that no bone reaches is a constant.

Each pose is taken about its own centroid; weights sum to one, so only the rounding changes. Lengths
are in units of half the diagonal of the rest bounding box, as in the error E.
"""

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
from understudy.geometry.error_norms import half_diagonal
from understudy.methods.decomposition.ssdr import Ssdr
from understudy.methods.lbs import Lbs
from understudy.methods.skin_fitting.best_bone import centred_blocks, centred_rest
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

# How strongly the bones of a dense skin follow their own vertices, where there are few vertices
# per bone, and the range of it.
_INDIVIDUAL, _FEW = 1e-3, 281.0
_INDIVIDUAL_RANGE = 3e-6, 3e-3
_DEFAULT_BONES = 20
_MAX_POSES = 2000  # a vertex has few weights, and so many poses determine them
_VERTEX_BLOCK = 4096  # vertices whose residuals are computed at a time


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
            bones=bones, error=error, influences=None, transforms=transforms, individual=individual
        )
        return Ssdr(config).fit(poses, progress=progress)
    return Lbs(Lbs.Config(influences=None, max_poses=_MAX_POSES)).fit(poses, progress=progress)


@dataclass(frozen=True, eq=False)
class Examples:
    """Example poses in the directions that the bones reach.

    point        (V,4) float64, u
    target       (V,q) float64, Q^T y
    bones        (B,4,q) float64, the transposes of R_b
    constant     squared distance, over all vertices and poses, that no weights can remove
    value_count  3 T V, the number of coordinates
    """

    point: np.ndarray
    target: np.ndarray
    bones: np.ndarray
    constant: float
    value_count: int

    @staticmethod
    def of(poses: Poses, chosen: np.ndarray | None = None) -> Examples:
        """The examples of poses, in two passes over them; chosen (n,) increasing, None: all."""
        size = half_diagonal(poses.mesh.vertices)
        point = centred_rest(poses).copy()
        point[:, :3] /= size
        columns = np.concatenate([block for block, _ in centred_blocks(poses, chosen)])
        columns = columns.reshape(len(columns), -1, 4)
        columns[..., 3] /= size
        columns = columns.reshape(len(columns), -1)
        directions, triangle = np.linalg.qr(columns)
        target, square, row = np.zeros((directions.shape[1], len(point))), 0.0, 0
        for block, targets in centred_blocks(poses, chosen):
            span = directions[row : row + len(block)]
            for where, part in targets:
                part = part / size
                target[:, where] += span.T @ part
                square += float(np.einsum("rv,rv->", part, part))
            row += len(block)
        bones = triangle.reshape(len(triangle), -1, 4).transpose(1, 2, 0)
        constant = max(0.0, square - float(np.einsum("qv,qv->", target, target)))
        return Examples(
            point,
            np.ascontiguousarray(target.T),
            np.ascontiguousarray(bones),
            constant,
            row * len(point),
        )

    @property
    def bone_count(self) -> int:
        return len(self.bones)

    def squared_error(self, weights: np.ndarray) -> float:
        """The squared distance that weights (V,B) leave, without the constant."""
        total = 0.0
        for start in range(0, len(weights), _VERTEX_BLOCK):
            part = slice(start, start + _VERTEX_BLOCK)
            spread = (weights[part, :, None] * self.point[part, None, :]).reshape(
                -1, 4 * self.bone_count
            )
            total += float(
                np.sum(
                    (spread @ self.bones.reshape(4 * self.bone_count, -1) - self.target[part]) ** 2
                )
            )
        return total

    def box_error(self, square: float) -> float:
        """The error E of a squared distance without the constant."""
        # Lengths are in units of half the diagonal already.
        return 1000.0 * float(np.sqrt((square + self.constant) / self.value_count))
