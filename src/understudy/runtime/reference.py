"""Playing a deformer in NumPy: the slow, clear reference that the compiled runtime, torch and ONNX
are tested against.
"""

from __future__ import annotations

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.features import raw_features
from understudy.core.services import SERVICES
from understudy.geometry.skinning import dual_quaternion_blend, linear_blend, weight_matrix
from understudy.geometry.transforms import compose
from understudy.runtime.drivers import drivers

# Poses deformed at once: large enough for matrix products, small enough that blended matrices of
# 170,000 vertices stay below 300 MB.
_BLOCK_VALUES = 6_000_000


def deform_reference(deformer: Deformer, world_from_bone=None, controls=None) -> np.ndarray:
    """Bones (T,B,3,4) and controls (T,C) -> vertices (T,V,3) float32; the same numbers on every
    processor, which is why fitting uses it.
    """
    world_from_bone, controls, single = drivers(deformer, world_from_bone, controls)
    pose_count = len(world_from_bone) if world_from_bone is not None else len(controls)
    result = np.empty((pose_count, deformer.mesh.vertex_count, 3), np.float32)
    block = max(1, _BLOCK_VALUES // (12 * deformer.mesh.vertex_count))
    for start in range(0, pose_count, block):
        part = slice(start, start + block)
        result[part] = _deform_block(
            deformer,
            None if world_from_bone is None else world_from_bone[part],
            None if controls is None else controls[part],
        )
    return result[0] if single else result


def displacements(deformer: Deformer, world_from_bone=None, controls=None) -> np.ndarray:
    """The correctives alone, d of the equations: (T,V,3) float32 in rest space."""
    world_from_bone, controls, single = drivers(deformer, world_from_bone, controls)
    d = _displace(deformer, pose_features(deformer, world_from_bone, controls))
    return d[0] if single else d


def deform_displaced(
    deformer: Deformer, world_from_bone: np.ndarray, displacements: np.ndarray
) -> np.ndarray:
    """The skin alone on rest vertices moved by given displacements (T,V,3), in place of the
    correctives' own: (T,V,3) float32.
    """
    world_from_bone = checks.array(
        world_from_bone, "world_from_bone", (None, deformer.skeleton.bone_count, 3, 4), np.float64
    )
    shape = (len(world_from_bone), deformer.mesh.vertex_count, 3)
    return _place(
        deformer,
        world_from_bone,
        deformer.mesh.vertices + checks.array(displacements, "displacements", shape),
    ).astype(np.float32)


def pose_features(deformer: Deformer, world_from_bone, controls) -> np.ndarray:
    if not deformer.features.count:
        return np.zeros(
            (len(world_from_bone) if world_from_bone is not None else len(controls), 0), np.float32
        )
    pose_count = len(world_from_bone) if world_from_bone is not None else len(controls)
    raw = raw_features(deformer.skeleton, world_from_bone, controls, pose_count)
    return np.clip(raw[:, deformer.features.columns], deformer.features.low, deformer.features.high)


def _displace(deformer: Deformer, features: np.ndarray) -> np.ndarray:
    d = np.zeros((len(features), deformer.mesh.vertex_count, 3), np.float32)
    if deformer.mean is not None:
        d += deformer.mean
    coefficients = deformer.net_groups(features) if deformer.nets else None
    for basis in deformer.bases:
        if basis.shared:
            part = np.einsum(
                "np,tap->tna", basis.matrix, coefficients[:, basis.coefficients], optimize=True
            )
        else:
            part = (coefficients[:, basis.coefficients] @ basis.matrix.T).reshape(
                len(features), -1, 3
            )
        d[:, basis.vertices] += part
    return d


def _deform_block(deformer: Deformer, world_from_bone, controls) -> np.ndarray:
    points = deformer.mesh.vertices + _displace(
        deformer, pose_features(deformer, world_from_bone, controls)
    )
    return points if deformer.skin is None else _place(deformer, world_from_bone, points)


def _place(deformer: Deformer, world_from_bone, points) -> np.ndarray:
    """The skin: points (T,V,3) before it -> after it."""
    # float32 cannot hold millimetres at ten kilometres: skin around the root, then move back.
    centre = world_from_bone[:, deformer.skeleton.roots[0], :, 3]
    local = world_from_bone.copy()
    local[..., 3] -= centre[:, None]
    matrices = compose(local, deformer.skeleton.bone_from_world).astype(np.float32)
    if deformer.skin.virtual_index is not None:
        rows = weight_matrix(
            deformer.skin.virtual_index, deformer.skin.virtual_weight, deformer.skeleton.bone_count
        )
        flat = np.moveaxis(matrices, 1, 0).reshape(deformer.skeleton.bone_count, -1)
        matrices = np.moveaxis((rows @ flat).reshape(-1, len(matrices), 3, 4), 1, 0)
    if deformer.skin.blend == "linear":
        posed = linear_blend(matrices, deformer.skin_matrix, points)
    else:
        posed = dual_quaternion_blend(
            matrices, deformer.skin.bone_index, deformer.skin.weight, points
        )
    return posed + centre[:, None]


SERVICES.deform_reference = deform_reference
SERVICES.displacements = displacements
SERVICES.deform_displaced = deform_displaced
