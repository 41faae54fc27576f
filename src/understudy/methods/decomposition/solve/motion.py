"""The motion to explain, normalised for the solver, and the `Fit` that reproduces it.

Every frame is moved to its own centroid, and all lengths are divided by the root mean square radius
of the rest pose. Skin weights sum to one, so translating a frame translates all its bones: neither
the position nor the unit of a sequence changes the result. Vertices are sorted by a key that
depends on their motion only, so their original order does not change it either.

Affine transforms of different frames are independent. The frames can therefore be replaced by
orthonormal combinations of them, and the transforms combine in the same way.
`in_principal_directions` uses the principal directions of the motion and drops the negligible ones.
A few dozen rows remain instead of hundreds.

A `Fit` is transforms M and skin weights w while they are being solved for. With M fixed, every
vertex i has a problem of its own (`WeightProblem`):

    minimise  |sum_b w_b M_b v~_i - y_i|^2
    subject to  w >= 0,  sum_b w_b = 1,  at most K weights above zero

The bones of a vertex (its support) are a discrete choice. `WeightSearch` limits how many exchanges
of bones are tried. `kernels.solve_weights` solves all vertices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from understudy.core.poses import Poses
from understudy.system import memory
from understudy.system.errors import InputError

_NEGLIGIBLE = 1e-10  # share of the squared motion that principal directions may drop
_MAX_DIRECTIONS = 256
_MAX_EXACT_ROWS = 1300  # up to this many rows, the eigenvectors are computed exactly
_BYTES = 60  # for each vertex and frame: two copies of three float64, and what is made of them


@dataclass(eq=False)
class Motion:
    """Rest positions and the positions they move to.

    rest     (V,4) homogeneous rest positions, v~ = [v, 1]
    targets  (V,R) positions to reproduce; R is 3F (x, y, z of frame after frame), or the number of
             principal directions
    square   (V,) squared length of each row of `targets`
    """

    rest: np.ndarray
    targets: np.ndarray
    square: np.ndarray

    @staticmethod
    def of(rest: np.ndarray, targets: np.ndarray) -> Motion:
        """Return the motion of `rest` (V,4) to `targets` (V,R)."""
        return Motion(rest, targets, np.einsum("vr,vr->v", targets, targets))

    @property
    def vertex_count(self) -> int:
        return len(self.rest)

    @property
    def rows(self) -> int:
        return self.targets.shape[1]

    def subset(self, vertices: np.ndarray, rows: np.ndarray | None = None) -> Motion:
        """Return the motion of some vertices (n,), in some rows (m,) or in all of them."""
        targets = self.targets[vertices] if rows is None else self.targets[np.ix_(vertices, rows)]
        return Motion.of(np.ascontiguousarray(self.rest[vertices]), np.ascontiguousarray(targets))

    def projected(self, directions: np.ndarray) -> Motion:
        """Return the motion in other directions, (R,n) orthonormal columns."""
        return Motion.of(self.rest, self.targets @ directions)

    def leading_rows(self, negligible: float) -> Motion:
        """Return the first rows, dropping rows with at most `negligible` of the squared motion."""
        tail = np.cumsum((self.targets[:, ::-1] ** 2).sum(axis=0))
        rows = max(1, self.rows - int(np.searchsorted(tail, negligible, side="right")))
        return Motion.of(self.rest, np.ascontiguousarray(self.targets[:, :rows]))

    def coordinate_rms(self, error: float) -> float:
        """Return the root mean square error per coordinate of a total squared error."""
        return float(np.sqrt(max(error, 0.0) / (self.vertex_count * self.rows)))


@dataclass(eq=False)
class Normalisation:
    """How the solver's coordinates follow from the model's.

    Rest positions are (x - centre) / scale; positions in frame f are (x - centroids[f]) / scale.

    centre     (3,) centroid of the rest pose
    centroids  (F,3) centroid of each frame
    scale      root mean square radius of the rest pose
    order      (V,) the mesh vertex that each vertex of the solver is
    rounding   float32 rounding error of a coordinate, in the solver's units
    """

    centre: np.ndarray
    centroids: np.ndarray
    scale: float
    order: np.ndarray
    rounding: float

    def to_world(self, transforms: np.ndarray) -> np.ndarray:
        """Return transforms (3F,4B) of the solver as world_from_rest (F,B,3,4) of the model."""
        bones = bone_matrices(transforms).copy()
        bones[..., 3] = (
            self.scale * bones[..., 3] + self.centroids[:, None, :] - bones[..., :3] @ self.centre
        )
        return bones

    def from_world(self, world_from_rest: np.ndarray) -> np.ndarray:
        """Return world_from_rest (F,B,3,4) of the model as transforms (3F,4B) of the solver."""
        bones = np.array(world_from_rest, np.float64)
        bones[..., 3] = (
            bones[..., 3] - self.centroids[:, None, :] + bones[..., :3] @ self.centre
        ) / self.scale
        return bones.transpose(0, 2, 1, 3).reshape(3 * len(bones), -1)


def read_motion(poses: Poses) -> tuple[Motion, Normalisation]:
    """Return the normalised motion of `poses`, all in memory, and the normalisation."""
    _need_memory(poses)
    rest = poses.mesh.vertices.astype(np.float64)
    centre = rest.mean(axis=0)
    rest -= centre
    scale = float(np.sqrt((rest**2).sum(axis=1).mean()))
    vertex_count, frames = poses.vertex_count, poses.pose_count
    positions, centroids = np.empty((vertex_count, frames, 3)), np.empty((frames, 3))
    largest = float(np.abs(poses.mesh.vertices).max(initial=0))
    for where, block in poses.pose_blocks(64):
        largest = max(largest, float(np.abs(block).max(initial=0)))
        centroids[where] = block.mean(axis=1, dtype=np.float64)
        positions[:, where] = (block - centroids[where][:, None]).transpose(1, 0, 2)
    if not scale > 0:
        scale = float(np.sqrt((positions**2).mean())) or 1.0
    rest /= scale
    positions /= scale
    targets = positions.reshape(vertex_count, -1)
    square = np.einsum("vr,vr->v", targets, targets)
    # Neither a rotation of the scene nor a permutation of the vertices changes this order, except
    # among vertices whose keys are equal up to rounding.
    order = np.lexsort((np.einsum("vi,vi->v", rest, rest), square))
    motion = Motion(
        np.column_stack([rest[order], np.ones(vertex_count)]), targets[order], square[order]
    )
    rounding = float(np.finfo(np.float32).eps) * largest / scale
    return motion, Normalisation(centre, centroids, scale, order, rounding)


def _need_memory(poses: Poses) -> None:
    needed, there = _BYTES * poses.vertex_count * poses.pose_count, memory.budget()
    if needed > there:
        raise InputError(
            f"{poses.name!r}: a decomposition holds all frames in memory, and {poses.vertex_count} "
            f"vertices in {poses.pose_count} frames take {needed / 1e9:.1f} GB; "
            f"{there / 1e9:.1f} GB may be used. Give fewer frames, or more memory (--memory)"
        )


def in_principal_directions(motion: Motion) -> tuple[Motion, np.ndarray]:
    """Return the motion in its principal directions, strongest first, and these directions (R,n).

    Directions that hold a negligible part of the squared motion are dropped; at most
    `_MAX_DIRECTIONS` are kept.
    """
    total = float(motion.square.sum())
    if motion.rows <= 12 or total == 0:
        return motion, np.eye(motion.rows)
    if motion.rows <= _MAX_EXACT_ROWS:
        energy, directions = np.linalg.eigh(motion.targets.T @ motion.targets)
        directions = directions[:, ::-1]
    else:
        directions = _leading_directions(motion.targets, 2 * _MAX_DIRECTIONS)
        energy = np.linalg.norm(motion.targets @ directions, axis=0)[::-1] ** 2
    held = np.cumsum(energy[::-1])
    count = min(
        int(np.searchsorted(held, (1 - _NEGLIGIBLE) * total)) + 1, len(energy), _MAX_DIRECTIONS
    )
    directions = np.ascontiguousarray(directions[:, :count])
    return motion.projected(directions), directions


def _leading_directions(targets: np.ndarray, count: int) -> np.ndarray:
    """Return about the strongest directions (R,count) of a wide matrix (V,R).

    A randomised range finder with two power iterations (Halko, Martinsson & Tropp 2011). The random
    numbers are seeded: the result is always the same.
    """
    start = np.random.default_rng(0).normal(size=(targets.shape[1], min(count, *targets.shape)))
    basis = np.linalg.qr(start)[0]
    for _ in range(2):
        basis = np.linalg.qr(targets.T @ (targets @ basis))[0]
    small = targets @ basis
    return basis @ np.linalg.eigh(small.T @ small)[1][:, ::-1]


@dataclass(eq=False)
class Fit:
    """Transforms, skin weights and their error.

    transforms     (R,4B) the 4-column blocks of all bones side by side; row r of block b takes a
                   homogeneous rest position to row r of the motion
    index          (V,K) int32, the bones of each vertex
    weight         (V,K) float64, non-negative, summing to one; unused places have weight zero
    vertex_errors  (V,) squared error of each vertex
    """

    transforms: np.ndarray
    index: np.ndarray
    weight: np.ndarray
    vertex_errors: np.ndarray

    @property
    def bones(self) -> int:
        return self.transforms.shape[1] // 4

    @property
    def error(self) -> float:
        """Total squared error."""
        return float(self.vertex_errors.sum())


def predict(motion: Motion, fit: Fit) -> np.ndarray:
    """Return the positions (V,R) that the fit gives the vertices of `motion`."""
    design = np.zeros((motion.vertex_count, fit.bones, 4))
    rows = np.arange(motion.vertex_count)
    for k in range(fit.index.shape[1]):
        design[rows, fit.index[:, k]] += fit.weight[:, k, None] * motion.rest
    return design.reshape(motion.vertex_count, -1) @ fit.transforms.T


def with_exact_errors(motion: Motion, fit: Fit) -> Fit:
    """Return the fit with its errors on `motion`, with all its rows."""
    return replace(fit, vertex_errors=((motion.targets - predict(motion, fit)) ** 2).sum(axis=1))


def dense_weights(fit: Fit) -> np.ndarray:
    """Return the weights as a matrix (V,B)."""
    result = np.zeros((len(fit.index), fit.bones))
    np.add.at(result, (np.arange(len(result))[:, None], fit.index), fit.weight)
    return result


def bone_matrices(transforms: np.ndarray) -> np.ndarray:
    """Return transforms (3F,4B) as one matrix for each frame and bone, a view (F,B,3,4)."""
    return transforms.reshape(-1, 3, transforms.shape[1] // 4, 4).transpose(0, 2, 1, 3)


def chosen_bones(transforms: np.ndarray, bones: np.ndarray) -> np.ndarray:
    """Return the transforms (3F,4n) of some bones, numbers (n,) or bool (B,), of those (3F,4B)."""
    rows = len(transforms)
    kept = transforms.reshape(rows, -1, 4)[:, bones]
    return np.ascontiguousarray(kept.reshape(rows, -1))


def rows_of(frames: np.ndarray) -> np.ndarray:
    """Return the rows (3f,) of a motion that hold frames (f,)."""
    return (3 * frames[:, None] + np.arange(3)).reshape(-1)


def strongest(weights: np.ndarray, places: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bones (V,K) int32 with the largest weights of (V,B), and these, largest first."""
    index = np.argsort(-weights, axis=1, kind="stable")[:, :places].astype(np.int32)
    return index, np.ascontiguousarray(np.take_along_axis(weights, index, axis=1))


def single_bone_fit(motion: Motion, bone: np.ndarray, bones: int) -> Fit:
    """Return a fit with zero transforms of `bones` bones; vertex i follows bone[i] (V,) alone."""
    return Fit(
        np.zeros((motion.rows, 4 * bones)),
        np.ascontiguousarray(bone, np.int32)[:, None],
        np.ones((motion.vertex_count, 1)),
        motion.square,
    )


def relative_motion(transforms: np.ndarray) -> np.ndarray:
    """Return the mean over frames of (T_i - T_j)^T (T_i - T_j), (B,B,4,4); transforms (3F,4B)."""
    bones, frames = transforms.shape[1] // 4, len(transforms) // 3
    gram = (transforms.T @ transforms / frames).reshape(bones, 4, bones, 4).transpose(0, 2, 1, 3)
    own = np.einsum("iiab->iab", gram)
    return own[:, None] + own - gram - gram.transpose(0, 1, 3, 2)


@dataclass(frozen=True, eq=False)
class WeightProblem:
    """Transforms and positions that the weights are solved for.

    rest        (V,4) homogeneous rest positions
    targets     (V,R) positions to reproduce
    square      (V,) squared length of each row of `targets`
    transforms  (R,4B) of all bones side by side
    allowed     (V,B) bool, the bones that each vertex may use, at least one; None: all
    """

    rest: np.ndarray
    targets: np.ndarray
    square: np.ndarray
    transforms: np.ndarray
    allowed: np.ndarray | None = None

    @property
    def vertex_count(self) -> int:
        return len(self.rest)

    @property
    def bones(self) -> int:
        return self.transforms.shape[1] // 4

    def part(self, vertices: slice) -> WeightProblem:
        """Return the problem of some vertices."""
        return WeightProblem(
            self.rest[vertices],
            self.targets[vertices],
            self.square[vertices],
            self.transforms,
            None if self.allowed is None else self.allowed[vertices],
        )


@dataclass(frozen=True)
class WeightSearch:
    """How thoroughly the bones of each vertex are searched.

    influences  K, the largest number of bones per vertex; None: all bones
    candidates  bones that compete to enter a support in one exchange
    exchanges   largest number of exchanges
    from_all    also reduce the optimal weights over all bones to K bones, and keep the better
    """

    influences: int | None = 4
    candidates: int = 2
    exchanges: int = 3
    from_all: bool = False

    def places(self, bones: int) -> int:
        """Return the number of weights per vertex for so many bones."""
        return bones if self.influences is None else min(self.influences, bones)
