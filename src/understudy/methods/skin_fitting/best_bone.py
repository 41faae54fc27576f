"""Which single bone explains each vertex best: FDDA section 3.1 (the assignment b_k) and section
3.3.3 (fewer bones).

With M_tb = world_from_bone @ bone_from_rest and v~ = [rest, 1], a vertex that moves rigidly with
bone b misses by

    error[v,b] = sum_t |M_tb v~ - y_tv|^2 = v~^T (sum_t M_tb^T M_tb) v~  -  2 v~^T (sum_t M_tb^T
    y_tv)  +  sum_t |y_tv|^2

so that all T*V*B distances come from a 4x4 matrix per bone and one matrix product A^T Y per block
of poses, A (3T,4B) being the bones' matrices side by side. The three terms are large and their sum
small: every pose is first moved so that the mesh stands around the origin (both the bones and the
vertices, which changes no distance), and everything is summed in float64.

Departure from the paper: bones that explain a vertex equally well, to rounding, are a tie that the
first of them wins. Bones that never move against each other are common (a face bone and the head),
and rounding would otherwise scatter their vertices at random.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from understudy.core import checks
from understudy.core.errors import InputError
from understudy.core.poses import Poses
from understudy.geometry.transforms import compose

_BLOCK_BYTES = 2**27  # of float32 vertices read at a time
_VERTICES_AT_ONCE = 4096


def rigid_errors(poses: Poses, chosen: np.ndarray | None = None) -> np.ndarray:
    """Sum over poses of the squared distance when vertex v moves rigidly with bone b.

    poses   T poses with a skeleton; read block by block, never as a whole
    chosen  (n,) increasing indices of the poses to sum over (None: all)
    returns (V,B) float64, in squared model units
    """
    rest = centred_rest(poses)
    bones = poses.need_skeleton("rigid_errors").bone_count
    bone_gram = np.zeros((bones, 4, 4))
    cross = np.zeros((len(rest), bones))
    square = np.zeros(len(rest))
    for columns, targets in centred_blocks(poses, chosen):
        by_bone = columns.reshape(len(columns), bones, 4)
        bone_gram += np.matmul(by_bone.transpose(1, 2, 0), by_bone.transpose(1, 0, 2))
        for span, target in targets:
            product = (target.T @ columns).reshape(-1, bones, 4)
            cross[span] += np.matmul(product, rest[span, :, None])[..., 0]
            square[span] += np.einsum("rv,rv->v", target, target)
    outer = (rest[:, :, None] * rest[:, None, :]).reshape(-1, 16)
    errors = outer @ bone_gram.reshape(bones, 16).T
    errors -= 2 * cross
    errors += square[:, None]
    return np.maximum(errors, 0, out=errors)


def best_bone(errors: np.ndarray, allowed: np.ndarray | None = None) -> np.ndarray:
    """The bone with the smallest error for each vertex: (V,B) -> (V,) int32. `allowed`: (B,) bool,
    the bones to choose from.

    >>> best_bone(np.array([[3.0, 1.0], [0.0, 1.0]])).tolist()
    [1, 0]
    """
    errors = checks.array(errors, "errors", (None, None), np.float64)
    choice = np.arange(errors.shape[1])
    if allowed is not None:
        allowed = checks.shape_of(np.asarray(allowed, bool), "allowed bones", (errors.shape[1],))
        choice = np.flatnonzero(allowed)
    if not len(choice):
        raise InputError("allowed bones: none is left to choose from")
    return choice[_first_smallest(errors[:, choice], errors.max(axis=1))].astype(np.int32)


def reduce_bones(errors: np.ndarray, tau: float) -> np.ndarray:
    """FDDA section 3.3.3: take away the bone with the fewest vertices, again and again, while the
    total error stays <= tau * e0.

    errors  (V,B) from `rigid_errors`
    tau     at least 1; the paper found 1.1 to 1.5 good
    returns (B,) bool, the bones that stay (at least one; bones that explain no vertex always go)

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
    """Per row, the first column that is smallest to rounding: (n,B), and (n,) the size of the
    numbers that cancelled.
    """
    slack = 1e-11 * scale + 1e-9 * errors.min(axis=1)
    return np.argmax(errors <= (errors.min(axis=1) + slack)[:, None], axis=1)


def centred_rest(poses: Poses) -> np.ndarray:
    """(V,4) float64: the rest vertices about their centroid, with a one: what the columns of
    `centred_blocks` are applied to.
    """
    rest = poses.mesh.vertices.astype(np.float64)
    return np.column_stack([rest - rest.mean(axis=0), np.ones(len(rest))])


def centred_blocks(
    poses: Poses, chosen: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, Iterator[tuple[slice, np.ndarray]]]]:
    """The chosen poses block by block, each pose about its own centroid.

    yields columns (3t,4B) float64, the bones' matrices side by side, so that columns[:, 4b:4b+4] @
    centred_rest[v] is where bone b puts v; and an iterator of (slice of vertices, (3t,n) float64
    targets). Iterate the targets before taking the next block.
    """
    skeleton = poses.need_skeleton("a fit of rigid bones")
    centre = poses.mesh.vertices.astype(np.float64).mean(axis=0)
    size = int(np.clip(_BLOCK_BYTES // (12 * poses.vertex_count), 8, 256))
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
        matrix = compose(poses.world_from_bone[inside], skeleton.bone_from_world)
        matrix[..., 3] += matrix[..., :3] @ centre - offset[:, None, :]
        yield matrix.transpose(0, 2, 1, 3).reshape(3 * len(inside), -1), _targets(block, offset)


def _targets(block: np.ndarray, offset: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """The vertices of a block (t,V,3) about `offset` (t,3), some vertices at a time: (slice, (3t,n)
    float64).
    """
    for start in range(0, block.shape[1], _VERTICES_AT_ONCE):
        span = slice(start, min(start + _VERTICES_AT_ONCE, block.shape[1]))
        points = block[:, span].astype(np.float64) - offset[:, None, :]
        yield span, points.transpose(0, 2, 1).reshape(3 * len(block), -1)
