"""Skinning undone: where a vertex must stand before skinning so that skinning puts it where the rig did.

    d_ti = T_ti^-1 (y_ti, 1) - rest_i          T_ti the blended transform the deformer has at run time

For a rigid skin this is FDDA's residual (Eq. 2) seen in rest space: d = X0 f, with f in the bone's own frame.
A bone squashed nearly flat has no usable inverse: its singular values are bounded from below, which keeps d finite and the skinned result close.
"""

from __future__ import annotations

import numpy as np

from understudy.deformer import Skin
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import apply, compose, inverse
from understudy.poses import Poses

# Below this ratio of its largest axis a transform's smallest axis is treated as this ratio.
_FLATTEST = 1e-3


def bounded_inverse(transforms: np.ndarray) -> np.ndarray:
    """The inverse of (...,3,4) transforms; nearly singular ones are inverted with their small singular values raised."""
    linear = transforms[..., :3]
    scale = np.linalg.norm(linear, axis=(-2, -1))
    risky = np.abs(np.linalg.det(linear)) < 10 * _FLATTEST * np.maximum(scale, 1e-12) ** 3
    if risky.any():
        u, sigma, vt = np.linalg.svd(linear[risky])
        sigma = np.maximum(sigma, _FLATTEST * np.maximum(sigma[..., :1], 1e-12))
        transforms = transforms.copy()
        transforms[risky, :, :3] = u @ (sigma[..., None] * vt)
    return inverse(transforms)


def rest_displacements(poses: Poses, skin: Skin, vertices: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Displacements before a linear skin: targets (T,n,3) of `vertices` (n,) -> d (T,n,3) float32 in rest space."""
    skeleton = poses.need_skeleton("rest_displacements")
    # Around the root, as the deformer computes: far from the origin float32 would drown the residual.
    centre = poses.world_from_bone[:, skeleton.roots[0], :, 3]
    local = poses.world_from_bone.copy()
    local[..., 3] -= centre[:, None]
    rest = poses.mesh.vertices[vertices]
    index, weight = skin.bone_index[vertices], skin.weight[vertices]
    bones, compact = np.unique(index, return_inverse=True)
    matrices = compose(local[:, bones], skeleton.bone_from_world[bones])
    if index.shape[1] == 1:
        return _unskin_rigid(bounded_inverse(matrices).astype(np.float32), compact.reshape(-1), targets, centre, rest)
    rows = weight_matrix(compact.reshape(index.shape), weight.astype(np.float64), len(bones))
    blended = (rows @ np.moveaxis(matrices, 1, 0).reshape(len(bones), -1)).reshape(len(vertices), -1, 3, 4)
    inverses = bounded_inverse(np.moveaxis(blended, 0, 1))
    return (apply(inverses, targets - centre[:, None]) - rest).astype(np.float32)


def _unskin_rigid(inverses: np.ndarray, bone: np.ndarray, targets: np.ndarray, centre: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """One bone per vertex: a matrix product per bone in use, instead of one matrix per vertex and pose."""
    result = np.empty((len(targets), len(bone), 3), np.float32)
    for b in range(inverses.shape[1]):
        members = np.flatnonzero(bone == b)
        around = (targets[:, members] - centre[:, None]).astype(np.float32)
        result[:, members] = around @ np.swapaxes(inverses[:, b, :, :3], 1, 2) + inverses[:, b, None, :, 3]
    result -= rest
    return result
