"""Rest-pose displacements: what a linear skin leaves to the correctives.

    d_ti = T_ti^-1 (y_ti, 1) - rest_i        T_ti: blended transform of vertex i in pose t

Skinning rest + d gives the original vertices y. For a rigid skin d is the residual of FDDA (Bailey
et al. 2018, Eq. 2) in rest space: d = X0 f, with f in the bone's own frame.

Departure: the singular values of T_ti are bounded from below before it is inverted. A bone that is
scaled nearly flat has no usable inverse; the bound keeps d finite and the skinned result close.
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
    """Displacements d (T,n,3) float32 in rest space, so that the skinned vertices hit the targets.

    world_from_bone  (T,B,3,4) posed bones
    skeleton         rest pose of the bones
    skin             linear skin of all V vertices
    rest             (V,3) rest vertices
    vertices         (n,) indices of the vertices to compute
    targets          (T,n,3) their positions
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
    """Positions before skinning of vertices with one bone each, bone by bone.

    inverses  (T,B,3,4) inverse bone transforms
    bone      (n,) bone of each vertex
    targets   (T,n,3), and centre (T,3), subtracted from them
    """
    result = np.empty((len(targets), len(bone), 3), np.float32)
    for b in np.unique(bone):
        members = np.flatnonzero(bone == b)
        centred = (targets[:, members] - centre[:, None]).astype(np.float32)
        result[:, members] = apply(inverses[:, b, None], centred)
    return result
