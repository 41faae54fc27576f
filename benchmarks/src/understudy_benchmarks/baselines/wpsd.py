"""Weighted pose space deformation: offsets interpolated between example poses.

Kurihara and Miyata 2004, "Modeling Deformable Human Hands from Medical Images", after Lewis et al.
2000; as FDDA section 4.3 runs it. It replaces the networks: it predicts the same offsets of the
same rigidly skinned vertices, from 10, 50 or 100 example poses. Each vertex has its own distance
between poses:

    D_v(p, q)^2  =  sum over bones j of  w_vj |p_j - q_j|^2
    d_v(p)       =  a_v + sum over examples i of  c_vi phi(D_v(p, p_i)),      sum_i c_vi = 0,
                    d_v(p_i) = offset of v in example i
    v            =  M_b(v) (rest_v + d_v(p))

with p_j bone j in its parent's frame, w_vj the skin weights of vertex v and b(v) its best single
bone. The examples are selected from the poses, each as far as possible from those before it.

Departures:
- phi(D) = -D, a kernel without a width. Kurihara and Miyata scale a Gaussian by hand. With the
  constant a_v the contributions of the examples sum to one, which is their normalisation.
- Without a painted skin, w_vj are the eight largest of the convex weights fitted to the poses.
- The distance of p_j is that of its nine matrix entries, and of its translation in heights of the
  character.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, evenly
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.skinning import dense_to_influences, weight_matrix
from understudy.geometry.transforms import compose, parent_from_bone
from understudy.methods.correctives.inputs import units_from_rig
from understudy.methods.skin_fitting.best_bone import best_bone, rigid_errors
from understudy.methods.skin_fitting.displacements import displace
from understudy.methods.skin_fitting.skin_weights import NormalEquations, solve_dense
from understudy.rigs.base import Rig
from understudy.system import checks
from understudy.system.progress import SILENT

_WEIGHT_POSES = 1000  # enough to find weights and best bones
_INFLUENCES = 8
_INPUT_ERROR, _INPUT_POSES = 1.6e-4, 5  # those of fdda
# Of the largest distance: keeps the system regular where examples agree in all bones that a vertex
# reads.
_SMOOTHING = 1e-6
_SYSTEM_BYTES = 2**25
_KERNEL_BYTES = 2**27


@dataclass(frozen=True, eq=False)
class Wpsd:
    """A fitted model.

    bones         (V,) the bone that each vertex follows
    weights       (V,B) sparse, w
    examples      (n,B,12) features of the example poses
    coefficients  (V,n,3) float32, c
    constant      (V,3) float32, a
    """

    mesh: Mesh
    skeleton: Skeleton
    bones: np.ndarray
    weights: sp.csr_matrix
    examples: np.ndarray
    coefficients: np.ndarray
    constant: np.ndarray

    def deform(self, poses: Poses) -> np.ndarray:
        """The vertices (T,V,3) float32 from the bones of `poses`."""
        return np.concatenate(list(self.deform_blocks(poses)))

    def deform_blocks(self, poses: Poses) -> Iterator[np.ndarray]:
        """Yield the same, a few poses at a time."""
        _, world_from_bone = poses.need_bones("wpsd")
        size = max(1, _KERNEL_BYTES // (4 * self.mesh.vertex_count * len(self.examples)))
        for start in range(0, poses.pose_count, size):
            world = world_from_bone[start : start + size]
            yield self._place(
                world, self._offsets(_features(self.skeleton, world, self.mesh.height))
            )

    def _offsets(self, features: np.ndarray) -> np.ndarray:
        """Offsets (t,V,3) from features (t,B,12)."""
        count = len(features)
        square = _squared_distances(features, self.examples).astype(np.float32)  # (B, t*n)
        kernel = -np.sqrt(self.weights @ square).reshape(-1, count, len(self.examples))
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
    """Interpolate the offsets of example poses selected from `poses`.

    examples  their number
    weights   (V,B) weight of each bone in each vertex's distance; None: fitted skin weights
    bones     (V,) the bone that each vertex follows rigidly; None: the best one over the poses
    """
    checks.between(examples, "examples", 1)
    (skeleton, world_from_bone), mesh = poses.need_bones("wpsd"), poses.mesh
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
    features = _features(skeleton, world_from_bone, mesh.height)
    chosen = _spread(features, np.asarray(sparse.mean(axis=0)).reshape(-1), int(examples))
    offsets = displace(poses.take(chosen), Skin.rigid(bones))
    square = _squared_distances(features[chosen], features[chosen])
    coefficients, constant = _interpolate(square, sparse, offsets)
    return Wpsd(
        mesh, skeleton, bones, sparse.astype(np.float32), features[chosen], coefficients, constant
    )


def network_inputs(poses: Poses, rig: Rig, bones: np.ndarray) -> np.ndarray:
    """The bones that the network of each vertex in `fdda` reads: (V,B) float64, 0 or 1.

    rig    is perturbed at some of the poses
    bones  (V,) the bone of each vertex; vertices of one bone share a network
    """
    skeleton, skin = poses.need_skeleton("wpsd"), Skin.rigid(bones)
    groups = [np.flatnonzero(bones == bone) for bone in np.unique(bones)]
    units = units_from_rig(
        rig,
        poses,
        groups,
        lambda moved: displace(moved, skin),
        _INPUT_ERROR * poses.mesh.height,
        _INPUT_POSES,
        0,
        SILENT,
    )[:, : skeleton.bone_count]
    result = np.zeros((poses.vertex_count, skeleton.bone_count))
    for bone, group, needed in zip(np.unique(bones), groups, units):
        needed[skeleton.roots] = False
        result[group] = needed
        # A network that no bone moves still needs a distance.
        result[group, bone] = 1.0
    return result


def _features(skeleton: Skeleton, world_from_bone: np.ndarray, height: float) -> np.ndarray:
    """Each bone in its parent's frame, with translations in heights: (t,B,12); roots are zero.

    Where the character stands does not change its shape.
    """
    local = parent_from_bone(world_from_bone, skeleton.parents)
    local[..., 3] /= height
    local[:, skeleton.roots] = 0
    return local.reshape(*local.shape[:2], 12)


def _squared_distances(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Squared distance of every bone between poses (t,B,12) and (n,B,12): (B, t*n).

    From differences, so that the distance of equal poses is exactly zero.
    """
    difference = one[:, None] - two[None]
    return np.einsum("tnbf,tnbf->btn", difference, difference, optimize=True).reshape(
        one.shape[1], -1
    )


def _spread(features: np.ndarray, importance: np.ndarray, count: int) -> np.ndarray:
    """The indices of `count` poses that are far from each other, increasing.

    The first is the one nearest the mean, each further one the farthest from those before.
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
    square: np.ndarray, weights: sp.csr_matrix, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (V,n,3) and constants (V,3) that reproduce the offsets of the examples.

    square   (B,n*n) squared distances between the examples
    weights  (V,B)
    offsets  (n,V,3)
    """
    count, vertices = offsets.shape[:2]
    coefficients = np.empty((vertices, count, 3), np.float32)
    constant = np.empty((vertices, 3), np.float32)
    size = max(1, _SYSTEM_BYTES // (8 * (count + 1) ** 2))
    for start in range(0, vertices, size):
        part = slice(start, min(start + size, vertices))
        distance = np.sqrt(weights[part] @ square).reshape(-1, count, count)
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
