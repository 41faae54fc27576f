"""The skin of an export: at most K bones per vertex, convex, linear; and what it leaves.

The weights are fitted again to poses of the deformer (`methods.skin_fitting.skin_weights`), instead
of dropping the smallest. Dual quaternion blending and negative weights, which engines do not have,
are approximated by the same fit.

What the skin leaves is the residual r_ti = y_ti - T_ti (rest_i, 1), with T_ti the blended
transform. The displacement before skinning is T_ti^-1 r_ti. Where a blend is nearly flat, its small
singular values are raised before the inversion. The displacement then stays moderate and covers the
part of the residual that it can.

Letters: F frames, V vertices, B bones, K influences.
"""

from __future__ import annotations

import numpy as np

from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.influences import dense_to_influences, float32_influences
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import apply, compose
from understudy.methods.skin_fitting.skin_weights import NormalEquations, solve_dense, solve_sparse

_FLATTEST = 0.05  # singular values below this fraction of the largest are raised to it
_BLOCK_VALUES = 4_000_000  # numbers of blended matrices at once


def plays_as_it_is(skin: Skin, influences: int) -> bool:
    """Return whether engines play `skin`: linear, convex, at most `influences` bones (0: any)."""
    few = influences == 0 or int((skin.weight != 0).sum(axis=1).max()) <= influences
    return (
        few and skin.blend == "linear" and skin.virtual is None and bool((skin.weight >= 0).all())
    )


def packed(skin: Skin) -> Skin:
    """Return the same skin with its largest weights first and no places that nothing uses."""
    order = np.argsort(-skin.weight, axis=1, kind="stable")
    places = max(1, int((skin.weight != 0).sum(axis=1).max()))
    index = np.take_along_axis(skin.bone_index, order, axis=1)[:, :places]
    weight = np.take_along_axis(skin.weight, order, axis=1)[:, :places]
    return Skin(*float32_influences(index, weight.astype(np.float64)))


def refit_skin(poses: Poses, influences: int, progress: Progress = SILENT) -> Skin:
    """Return the linear, convex skin that follows `poses` best.

    poses       with bones
    influences  largest number of bones per vertex; 0: no limit
    """
    equations = NormalEquations.of(poses, progress=progress)
    if influences == 0:
        found = dense_to_influences(solve_dense(equations, progress))
    else:
        found = solve_sparse(equations, influences, progress)
    return packed(Skin(*float32_influences(*found)))


def residual_displacements(
    mesh_vertices: np.ndarray,
    skeleton: Skeleton,
    skin: Skin,
    world_from_bone: np.ndarray,
    targets: np.ndarray,
) -> np.ndarray:
    """Return displacements (F,V,3) float32 in rest space that move the skinned mesh to `targets`.

    mesh_vertices    (V,3) at rest
    world_from_bone  (F,B,3,4)
    targets          (F,V,3)
    """
    rest = mesh_vertices.astype(np.float64)
    weights = weight_matrix(skin.bone_index, skin.weight.astype(np.float64), skeleton.bone_count)
    result = np.empty(targets.shape, np.float32)
    block = max(1, _BLOCK_VALUES // (12 * len(rest)))
    for start in range(0, len(targets), block):
        part = slice(start, start + block)
        matrices = compose(world_from_bone[part], skeleton.bone_from_world)
        flat = np.moveaxis(matrices, 1, 0).reshape(skeleton.bone_count, -1)
        blended = (weights @ flat).reshape(len(rest), -1, 3, 4)
        residual = targets[part].swapaxes(0, 1) - apply(blended, rest[:, None])
        moved = np.einsum("...ij,...j->...i", _inverse(blended[..., :3]), residual)
        result[part] = moved.swapaxes(0, 1)
    return result


def _inverse(linear: np.ndarray) -> np.ndarray:
    """Return the inverse of matrices (...,3,3), with small singular values raised first."""
    scale = np.linalg.norm(linear, axis=(-2, -1))
    # A matrix with all singular values above the bound has at least this determinant.
    risky = np.abs(np.linalg.det(linear)) < 2 * _FLATTEST * np.maximum(scale, 1e-12) ** 3
    safe = np.where(risky[..., None, None], np.eye(3), linear)
    result = np.linalg.inv(safe)
    if risky.any():
        u, sigma, vt = np.linalg.svd(linear[risky])
        sigma = np.maximum(sigma, _FLATTEST * np.maximum(sigma[..., :1], 1e-12))
        result[risky] = np.swapaxes(vt, -1, -2) @ (np.swapaxes(u, -1, -2) / sigma[..., None])
    return result
