"""The best single bone of each vertex, and the bones that can be left out.

Paper: FDDA (Bailey et al. 2018), section 3.1 (the assignment b_k) and section 3.3.3 (fewer bones).
With M_tb = world_from_bone @ bone_from_rest and v~ = [rest, 1], a vertex that moves rigidly with
bone b has the squared error

    error[v,b] = sum_t |M_tb v~ - y_tv|^2
               = v~^T (sum_t M_tb^T M_tb) v~  -  2 v~^T (sum_t M_tb^T y_tv)  +  sum_t |y_tv|^2

so all T*V*B distances come from a 4x4 matrix per bone and one matrix product A^T Y per block of
poses, with A (3T,4B) the bone transforms side by side. The three terms are large and their sum is
small. To limit cancellation, each pose is translated so that the mesh is centred at the origin
(bones and vertices alike, which changes no distance), and all sums are in float64.

Departure: if several bones have the same error up to rounding, the first of them is chosen. Bones
that never move relative to each other are common (a face bone and the head), and rounding would
otherwise assign their vertices at random.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from understudy.core.poses import Poses
from understudy.geometry.transforms import compose
from understudy.system import checks, tasks
from understudy.system.errors import InputError

_BLOCK_BYTES = 2**27  # of float32 vertices read at a time
_VERTEX_BLOCK = 4096  # vertices converted to float64 at a time


def rigid_errors(poses: Poses, chosen: np.ndarray | None = None) -> np.ndarray:
    """Squared distances (V,B), summed over poses, if vertex v moves rigidly with bone b."""
    rest = centred_rest(poses)
    bones = poses.need_skeleton("rigid_errors").bone_count
    bone_products = np.zeros((bones, 4, 4))
    cross = np.zeros((len(rest), bones))
    square = np.zeros(len(rest))
    for transforms, targets in centred_blocks(poses, chosen):
        by_bone = transforms.reshape(len(transforms), bones, 4)
        bone_products += np.matmul(by_bone.transpose(1, 2, 0), by_bone.transpose(1, 0, 2))

        def add(part: tuple[slice, np.ndarray], transforms: np.ndarray = transforms) -> None:
            span, target = part
            product = (target.T @ transforms).reshape(-1, bones, 4)
            cross[span] += np.matmul(product, rest[span, :, None])[..., 0]
            square[span] += np.einsum("rv,rv->v", target, target)

        deque(tasks.parallel_results(add, targets), maxlen=0)
    outer = (rest[:, :, None] * rest[:, None, :]).reshape(-1, 16)
    errors = outer @ bone_products.reshape(bones, 16).T
    errors -= 2 * cross
    errors += square[:, None]
    return np.maximum(errors, 0, out=errors)


def best_bone(errors: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """The bone with the smallest error for each vertex: (V,) int32.

    errors   (V,B) from `rigid_errors`
    allowed  (B,) bool, the bones to choose from; None: all

    >>> best_bone(np.array([[3.0, 1.0], [0.0, 1.0]])).tolist()
    [1, 0]
    """
    errors = checks.array(errors, "errors", (None, None), np.float64)
    choice = np.arange(errors.shape[1])
    if allowed is not None:
        allowed = checks.shape_of(np.asarray(allowed, bool), "allowed bones", (errors.shape[1],))
        choice = np.flatnonzero(allowed)
    if not len(choice):
        raise InputError("allowed bones: all are excluded; allow at least one bone")
    return choice[_first_smallest(errors[:, choice], errors.max(axis=1))].astype(np.int32)


def reduce_bones(errors: np.ndarray, tau: float) -> np.ndarray:
    """The bones that remain after removing those with the fewest vertices: (B,) bool.

    errors  (V,B) from `rigid_errors`
    tau     the total error may grow to this multiple of the error with all bones; at least 1, and
            1.1 to 1.5 in the paper

    FDDA section 3.3.3: the bone with the fewest vertices is removed while the limit holds. At least
    one bone remains; a bone without vertices never does.

    >>> reduce_bones(np.array([[1.0, 1.1], [1.0, 9.0], [1.2, 1.1]]), tau=1.5).tolist()
    [True, False]
    """
    checks.between(tau, "tau", 1.0)
    assigned = best_bone(errors).astype(np.int64)
    count = np.bincount(assigned, minlength=errors.shape[1])
    scale = errors.max(axis=1)
    cost = errors[np.arange(len(errors)), assigned]
    limit = tau * cost.sum()
    alive = count > 0
    while alive.sum() > 1:
        bone = int(np.argmin(np.where(alive, count, len(errors) + 1)))
        moved = np.flatnonzero(assigned == bone)
        others = np.flatnonzero(alive & (np.arange(len(alive)) != bone))
        target = others[_first_smallest(errors[np.ix_(moved, others)], scale[moved])]
        new_cost = cost.copy()
        new_cost[moved] = errors[moved, target]
        if new_cost.sum() > limit:
            break
        cost, alive[bone], assigned[moved] = new_cost, False, target
        count = np.bincount(assigned, minlength=len(alive))
    return alive


def _first_smallest(errors: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The first column (n,) of errors (n,B) that is smallest up to rounding at `scale` (n,)."""
    slack = 1e-11 * scale + 1e-9 * errors.min(axis=1)
    return np.argmax(errors <= (errors.min(axis=1) + slack)[:, None], axis=1)


def centred_rest(poses: Poses) -> np.ndarray:
    """The rest vertices about their centroid, with a one appended: (V,4) float64."""
    rest = poses.mesh.vertices.astype(np.float64)
    return np.column_stack([rest - rest.mean(axis=0), np.ones(len(rest))])


def centred_blocks(
    poses: Poses, chosen: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, Iterator[tuple[slice, np.ndarray]]]]:
    """The chosen poses block by block, each pose about its own centroid.

    chosen  (n,) increasing indices of the poses; None: all
    yields  transforms (3t,4B) float64, the bone transforms side by side, and an iterator of pairs
            (slice of vertices, their positions (3t,n) float64)

    transforms[:, 4b:4b+4] @ centred_rest[v] is the position of v moved by bone b. Use up the
    iterator before taking the next block.
    """
    skeleton, world_from_bone = poses.need_bones("a fit of skin weights")
    centre = poses.mesh.vertices.astype(np.float64).mean(axis=0)
    size = poses.block_size(256, _BLOCK_BYTES)
    if chosen is not None:
        chosen = checks.index(chosen, "chosen poses", poses.pose_count, dtype=np.int64)
        if (np.diff(chosen) <= 0).any() or not len(chosen):
            raise InputError("chosen poses: expected at least one index, in increasing order")
    for where, block in poses.pose_blocks(size):
        inside = np.arange(where.start, where.stop)
        if chosen is not None:
            inside = chosen[
                np.searchsorted(chosen, where.start) : np.searchsorted(chosen, where.stop)
            ]
            if not len(inside):
                continue
            block = block[inside - where.start]
        offset = block.mean(axis=1, dtype=np.float64)
        matrix = compose(world_from_bone[inside], skeleton.bone_from_world)
        matrix[..., 3] += matrix[..., :3] @ centre - offset[:, None, :]
        yield matrix.transpose(0, 2, 1, 3).reshape(3 * len(inside), -1), _targets(block, offset)


def _targets(block: np.ndarray, offset: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """The vertices of a block (t,V,3) minus offset (t,3): pairs (slice, (3t,n) float64)."""
    for start in range(0, block.shape[1], _VERTEX_BLOCK):
        span = slice(start, min(start + _VERTEX_BLOCK, block.shape[1]))
        points = block[:, span].astype(np.float64) - offset[:, None, :]
        yield span, points.transpose(0, 2, 1).reshape(3 * len(block), -1)
