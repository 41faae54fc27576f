"""Skinning undone: where a vertex must stand before skinning so that skinning puts it where the rig
did.

    d_ti = T_ti^-1 (y_ti, 1) - rest_i          T_ti the blended transform the deformer has at run
                                               time

For a rigid skin this is FDDA's residual (Eq. 2) seen in rest space: d = X0 f, with f in the bone's
own frame. A bone squashed nearly flat has no usable inverse: its singular values are bounded from
below, which keeps d finite and the skinned result close.
"""

from __future__ import annotations

import numpy as np

from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import apply, bounded_inverse, compose


def rest_displacements(
    world_from_bone: np.ndarray,
    skeleton: Skeleton,
    skin: Skin,
    rest: np.ndarray,
    vertices: np.ndarray,
    targets: np.ndarray,
) -> np.ndarray:
    """Displacements before a linear skin: bones (T,B,3,4), rest (V,3), targets (T,n,3) of
    `vertices` (n,) -> d (T,n,3) float32 in rest space.
    """
    index, weight = skin.bone_index[vertices], skin.weight[vertices]
    bones, compact = np.unique(index, return_inverse=True)
    compact = compact.reshape(index.shape)
    # Around the root, as the deformer computes: far from the origin float32 would drown the
    # residual.
    centre = world_from_bone[:, skeleton.roots[0], :, 3]
    local = world_from_bone[:, bones]
    local[..., 3] -= centre[:, None]
    matrices = compose(local, skeleton.bone_from_world[bones])
    result = np.empty((len(targets), len(vertices), 3), np.float32)
    # Most vertices of most skins follow one bone, and one inverse per bone serves them all.
    rigid = weight.max(axis=1) == 1
    at = np.flatnonzero(rigid)
    single = np.take_along_axis(compact, weight.argmax(axis=1)[:, None], axis=1)[:, 0]
    result[:, at] = _unskin_rigid(
        bounded_inverse(matrices).astype(np.float32), single[at], targets[:, at], centre
    )
    at = np.flatnonzero(~rigid)
    if len(at):
        rows = weight_matrix(compact[at], weight[at], len(bones))
        blended = (
            rows @ np.moveaxis(matrices, 1, 0).reshape(len(bones), -1).astype(np.float32)
        ).reshape(len(at), -1, 3, 4)
        result[:, at] = apply(
            bounded_inverse(np.moveaxis(blended, 0, 1)),
            (targets[:, at] - centre[:, None]).astype(np.float32),
        )
    result -= rest[vertices]
    return result


def _unskin_rigid(
    inverses: np.ndarray, bone: np.ndarray, targets: np.ndarray, centre: np.ndarray
) -> np.ndarray:
    """One bone per vertex: a matrix product per bone in use, instead of one matrix per vertex and
    pose.
    """
    result = np.empty((len(targets), len(bone), 3), np.float32)
    for b in np.unique(bone):
        members = np.flatnonzero(bone == b)
        around = (targets[:, members] - centre[:, None]).astype(np.float32)
        result[:, members] = (
            around @ np.swapaxes(inverses[:, b, :, :3], 1, 2) + inverses[:, b, None, :, 3]
        )
    return result
