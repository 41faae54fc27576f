"""The displacements before skinning of many poses, block by block, with or without bones.

    d_ti = T_ti^-1 (y_ti, 1) - rest_i       with a skin; T_ti: blended transform of vertex i in t
    d_ti = y_ti - rest_i                    without bones

Skinning rest + d gives the original vertices y. For a rigid skin d is the residual of FDDA (Bailey
et al. 2018, Eq. 2) in rest space: d = X0 f, with f in the bone's own frame.

Departure: T_ti^-1 and d are damped along the axes that T_ti flattens. A bone that is scaled nearly
flat has no usable inverse: what it cannot move would be displaced far.

Letters: T poses, V vertices, n some of them, t poses of a block.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import apply, compose, damped_inverse
from understudy.system import tasks
from understudy.system.progress import Task

_BLOCK_BYTES = 1 << 27
_BYTES_PER_VERTEX = 120  # inverting a skin takes about thirty float32 per vertex and pose
_TASK_BYTES = 1 << 27
_MOST_POSES = 256
_MOST_TASK_POSES = 32


def displacement_blocks(
    poses: Poses,
    skin: Skin | None,
    chosen: np.ndarray | None = None,
    vertices: np.ndarray | None = None,
    task: Task | None = None,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield (slice into `chosen`, displacements (t,n,3) float32 in rest space), block by block.

    skin      the skin that the deformer has at run time; None where there are no bones
    chosen    (c,) increasing pose numbers; None: all poses
    vertices  (n,) the vertices to read; None: all
    task      is advanced by the number of poses read, chosen or not
    """
    chosen = np.arange(poses.pose_count) if chosen is None else chosen
    # The blocks do not depend on `vertices`: products of their rows are the same bytes however the
    # vertices are divided.
    size = block_poses(poses)
    for where, read in poses.pose_blocks(size, vertices):
        first, last = np.searchsorted(chosen, [where.start, where.stop])
        if first < last:
            at = chosen[first:last]
            targets = read if len(at) == len(read) else read[at - where.start]
            yield slice(int(first), int(last)), _displaced(poses, skin, at, targets, vertices)
        if task is not None:
            task.advance(where.stop - where.start)


def block_poses(poses: Poses) -> int:
    """How many poses a block of `displacement_blocks` has."""
    return poses.block_size(_MOST_POSES, _BLOCK_BYTES)


def displacements_at(poses: Poses, skin: Skin | None, chosen: np.ndarray) -> np.ndarray:
    """The displacements of the `chosen` poses (c,), increasing, at once: (c,V,3) float32."""
    result = np.empty((len(chosen), poses.vertex_count, 3), np.float32)
    for where, block in displacement_blocks(poses, skin, chosen):
        result[where] = block
    return result


def displace(poses: Poses, skin: Skin | None, vertices: np.ndarray | None = None) -> np.ndarray:
    """The displacements of a few poses in memory: (T,n,3) float32 of `vertices` (n,), or of all."""
    at = np.arange(poses.pose_count)
    targets = (
        poses.read_poses(0, poses.pose_count) if vertices is None else poses.read_vertices(vertices)
    )
    return _displaced(poses, skin, at, targets, vertices)


def _displaced(
    poses: Poses,
    skin: Skin | None,
    at: np.ndarray,
    targets: np.ndarray,
    vertices: np.ndarray | None,
) -> np.ndarray:
    """Displacements (t,n,3) of the poses `at` (t,), whose vertices are at `targets` (t,n,3)."""
    rest = poses.mesh.vertices
    if skin is None:
        return targets - (rest if vertices is None else rest[vertices])
    vertices = np.arange(poses.vertex_count) if vertices is None else vertices
    skeleton, world_from_bone = poses.need_bones("a skin")

    step = int(np.clip(_TASK_BYTES // (_BYTES_PER_VERTEX * len(vertices)), 1, _MOST_TASK_POSES))

    def part(first: int) -> np.ndarray:
        some = slice(first, first + step)
        return rest_displacements(
            world_from_bone[at[some]], skeleton, skin, rest, vertices, targets[some]
        )

    parts = tasks.parallel_map(part, range(0, len(at), step))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def rest_displacements(
    world_from_bone: np.ndarray,
    skeleton: Skeleton,
    skin: Skin,
    rest: np.ndarray,
    vertices: np.ndarray,
    targets: np.ndarray,
) -> np.ndarray:
    """Displacements d (T,n,3) float32 in rest space, so that the skinned vertices hit the targets.

    world_from_bone  (T,B,3,4) posed bones
    vertices         (n,) indices of the vertices to compute, at `targets` (T,n,3)
    """
    index, weight = skin.bone_index[vertices], skin.weight[vertices]
    bones, compact = np.unique(index, return_inverse=True)
    compact = compact.reshape(index.shape)
    # Relative to the root, as in the deformer: far from the origin float32 loses the residual.
    centre = world_from_bone[:, skeleton.roots[0], :, 3]
    local = world_from_bone[:, bones]
    local[..., 3] -= centre[:, None]
    matrices = compose(local, skeleton.bone_from_world[bones])
    result = np.empty((len(targets), len(vertices), 3), np.float32)
    # Most vertices of most skins have one bone; they share one inverse per bone.
    rigid = weight.max(axis=1) == 1
    at = np.flatnonzero(rigid)
    single = np.take_along_axis(compact, weight.argmax(axis=1)[:, None], axis=1)[:, 0][at]
    inverses, lost = damped_inverse(matrices)
    result[:, at] = _unskin_rigid(inverses.astype(np.float32), single, targets[:, at], centre)
    result[:, at] -= _kept(rest[vertices[at]], lost, single)
    at = np.flatnonzero(~rigid)
    if len(at):
        rows = weight_matrix(compact[at], weight[at], len(bones))
        blended = (
            rows @ np.moveaxis(matrices, 1, 0).reshape(len(bones), -1).astype(np.float32)
        ).reshape(len(at), -1, 3, 4)
        inverses, lost = damped_inverse(np.moveaxis(blended, 0, 1))
        result[:, at] = apply(inverses, (targets[:, at] - centre[:, None]).astype(np.float32))
        result[:, at] -= _kept(rest[vertices[at]], lost, slice(None))
    return result


def _kept(rest: np.ndarray, lost: np.ndarray | None, bone: np.ndarray | slice) -> np.ndarray:
    """Rest positions (n,3) less what inverses (T,b) lose of them, with the `bone` (n,) of each."""
    if lost is None:
        return rest
    return rest - np.einsum("tnij,nj->tni", lost[:, bone], rest).astype(np.float32)


def _unskin_rigid(
    inverses: np.ndarray, bone: np.ndarray, targets: np.ndarray, centre: np.ndarray
) -> np.ndarray:
    """Positions (T,n,3) before skinning of vertices of one bone (n,); targets less centre (T,3)."""
    result = np.empty((len(targets), len(bone), 3), np.float32)
    for b in np.unique(bone):
        members = np.flatnonzero(bone == b)
        centred = (targets[:, members] - centre[:, None]).astype(np.float32)
        result[:, members] = apply(inverses[:, b, None], centred)
    return result
