"""Weighted pose space deformation: corrective offsets interpolated between example poses, with a
distance between poses of every vertex's own.

Kurihara & Miyata 2004, "Modeling Deformable Human Hands from Medical Images", after Lewis et al.
2000; as FDDA section 4.3 runs it: in the place of the networks, predicting the same offsets of the
same rigidly skinned vertices, from 10, 50 or 100 example poses.

    D_v(p, q)^2  =  sum over bones j of  w_vj |p_j - q_j|^2            p_j: bone j in its parent's
                 frame; w_vj: skin weights of the vertex
    d_v(p)       =  a_v + sum over examples i of  c_vi phi(D_v(p, p_i)),      sum_i c_vi = 0,
                 d_v(p_i) = offset of v in example i
    v            =  M_b(v) (rest_v + d_v(p))                           b(v): the best single bone

The examples are picked from the poses given, each as far as possible from those before it.

Where it departs: phi(D) = -D, the kernel without a width to tune (Kurihara and Miyata scale a
Gaussian by hand); with the constant a_v the examples' shares sum to one, which is their
normalisation. Where no w_vj are given, as there is no painted skin, they are the eight largest of
the convex weights that fit the poses best. The distance of p_j is taken between its nine matrix
entries, and its translation in heights of the character.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from understudy.core import checks
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, evenly
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.influences import dense_to_influences
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import compose, parent_from_bone
from understudy.methods.skin_fitting.best_bone import best_bone, rigid_errors
from understudy.methods.skin_fitting.residuals import rest_displacements
from understudy.methods.skin_fitting.skin_weights import NormalEquations, solve_dense

_WEIGHT_POSES = 1000  # enough to find weights and best bones
_INFLUENCES = 8
# of the largest distance: keeps the system regular where examples agree in all that a vertex looks
# at
_SMOOTHING = 1e-6
_SYSTEM_BYTES = 2**25
_KERNEL_BYTES = 2**27


@dataclass(frozen=True, eq=False)
class Wpsd:
    """Fitted: examples (n,B,12) as features, bones (V,), weights (V,B) sparse, coefficients (V,n,3)
    and constant (V,3) float32.
    """

    mesh: Mesh
    skeleton: Skeleton
    bones: np.ndarray
    weights: sp.csr_matrix
    examples: np.ndarray
    coefficients: np.ndarray
    constant: np.ndarray

    def deform(self, poses: Poses) -> np.ndarray:
        """(T,V,3) float32 from the bones of `poses`."""
        return np.concatenate(list(self.deform_blocks(poses)))

    def deform_blocks(self, poses: Poses) -> Iterator[np.ndarray]:
        """The same, a few poses at a time."""
        size = max(1, _KERNEL_BYTES // (4 * self.mesh.vertex_count * len(self.examples)))
        for start in range(0, poses.pose_count, size):
            world = poses.world_from_bone[start : start + size]
            yield self._place(
                world, self._offsets(_features(self.skeleton, world, self.mesh.height))
            )

    def _offsets(self, features: np.ndarray) -> np.ndarray:
        """(t,V,3) from features (t,B,12)."""
        count = len(features)
        apart = _apart(features, self.examples).astype(np.float32)  # (B, t*n)
        kernel = -np.sqrt(self.weights @ apart).reshape(-1, count, len(self.examples))
        return np.swapaxes(np.matmul(kernel, self.coefficients), 0, 1) + self.constant

    def _place(self, world: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        matrix = compose(world, self.skeleton.bone_from_world)
        result = np.empty(offsets.shape, np.float32)
        for bone in np.unique(self.bones):
            mine = np.flatnonzero(self.bones == bone)
            points = self.mesh.vertices[mine] + offsets[:, mine].astype(np.float64)
            result[:, mine] = (
                points @ np.swapaxes(matrix[:, bone, :, :3], 1, 2) + matrix[:, bone, None, :, 3]
            )
        return result


def fit(
    poses: Poses,
    examples: int = 100,
    weights: np.ndarray | None = None,
    bones: np.ndarray | None = None,
) -> Wpsd:
    """Interpolate the offsets of `examples` poses picked from `poses`.

    weights  (V,B) how much each bone counts in each vertex's distance (None: fitted skin weights)
    bones    (V,) the bone each vertex follows rigidly (None: the best single bone over the poses)
    """
    checks.between(examples, "examples", 1)
    skeleton, mesh = poses.need_skeleton("wpsd"), poses.mesh
    thin = evenly(poses.pose_count, _WEIGHT_POSES)
    bones = (
        best_bone(rigid_errors(poses, thin))
        if bones is None
        else checks.index(bones, "bones", skeleton.bone_count, (mesh.vertex_count,))
    )
    if weights is None:
        dense = solve_dense(NormalEquations.of(poses, thin))
        index, weight = dense_to_influences(dense, _INFLUENCES)
        sparse = weight_matrix(
            index, weight / weight.sum(axis=1, keepdims=True), skeleton.bone_count
        )
    else:
        sparse = sp.csr_matrix(
            checks.array(weights, "weights", (mesh.vertex_count, skeleton.bone_count), np.float64)
        )
    features = _features(skeleton, poses.world_from_bone, mesh.height)
    chosen = _spread(features, np.asarray(sparse.mean(axis=0)).reshape(-1), int(examples))
    sample = poses.take(chosen)
    offsets = rest_displacements(
        sample.world_from_bone,
        skeleton,
        Skin.rigid(bones),
        mesh.vertices,
        np.arange(mesh.vertex_count),
        sample.vertices,
    )
    coefficients, constant = _interpolate(
        _apart(features[chosen], features[chosen]), sparse, offsets
    )
    return Wpsd(
        mesh, skeleton, bones, sparse.astype(np.float32), features[chosen], coefficients, constant
    )


def _features(skeleton: Skeleton, world_from_bone: np.ndarray, height: float) -> np.ndarray:
    """(t,B,12): each bone in its parent's frame, translations in heights; roots stay at zero, since
    where the character stands bends nothing.
    """
    local = parent_from_bone(world_from_bone, skeleton.parents)
    local[..., 3] /= height
    local[:, skeleton.roots] = 0
    return local.reshape(*local.shape[:2], 12)


def _apart(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Squared distance of every bone between poses (t,B,12) and (n,B,12): (B, t*n). As differences,
    so that equal poses are exactly 0 apart.
    """
    difference = one[:, None] - two[None]
    return np.einsum("tnbf,tnbf->btn", difference, difference, optimize=True).reshape(
        one.shape[1], -1
    )


def _spread(features: np.ndarray, importance: np.ndarray, count: int) -> np.ndarray:
    """`count` poses far apart: first the one nearest the mean, then always the one farthest from
    those chosen. Increasing indices.
    """
    points = (features * np.sqrt(importance)[:, None]).reshape(len(features), -1)
    chosen = [int(np.sum((points - points.mean(axis=0)) ** 2, axis=1).argmin())]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < min(count, len(points)):
        nearest = np.minimum(nearest, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
        nearest[chosen] = -1.0
        chosen.append(int(nearest.argmax()))
    return np.sort(chosen)


def _interpolate(
    apart: np.ndarray, weights: sp.csr_matrix, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (V,n,3) and constants (V,3) that give `offsets` (n,V,3) at the examples; apart
    (B,n*n).
    """
    count, vertices = offsets.shape[:2]
    coefficients, constant = (
        np.empty((vertices, count, 3), np.float32),
        np.empty((vertices, 3), np.float32),
    )
    size = max(1, _SYSTEM_BYTES // (8 * (count + 1) ** 2))
    for start in range(0, vertices, size):
        part = slice(start, min(start + size, vertices))
        distance = np.sqrt(weights[part] @ apart).reshape(-1, count, count)
        system = np.ones((len(distance), count + 1, count + 1))
        system[:, :count, :count] = -distance
        system[:, range(count), range(count)] += (_SMOOTHING * distance.max(axis=(1, 2)) + 1e-9)[
            :, None
        ]
        system[:, count, count] = 0
        right = np.zeros((len(distance), count + 1, 3))
        right[:, :count] = np.swapaxes(offsets[:, part], 0, 1)
        solved = np.linalg.solve(system, right)
        coefficients[part], constant[part] = solved[:, :count], solved[:, count]
    return coefficients, constant
