"""A deformer in NumPy, which the compiled runtime, torch and ONNX are tested against."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.features import raw_features
from understudy.core.services import SERVICES
from understudy.geometry.skinning import blended_matrices, dual_quaternion_blend, linear_blend
from understudy.geometry.transforms import compose
from understudy.runtime.drivers import Drivers, drivers
from understudy.system import checks
from understudy.system.errors import InputError

# Numbers of blended matrices at once: enough for efficient matrix products, and few enough that
# 170,000 vertices need less than 300 MB.
_BLOCK_VALUES = 6_000_000


def deform_reference(
    deformer: Deformer, world_from_bone: Any = None, controls: Any = None
) -> np.ndarray:
    """Return the vertices of some poses; see `Deformer.deform_reference`."""
    given = drivers(deformer, world_from_bone, controls)
    result = np.empty((given.pose_count, deformer.mesh.vertex_count, 3), np.float32)
    block = max(1, _BLOCK_VALUES // (12 * deformer.mesh.vertex_count))
    for start in range(0, given.pose_count, block):
        part = slice(start, start + block)
        result[part] = _deform_block(
            deformer,
            None if given.world_from_bone is None else given.world_from_bone[part],
            None if given.controls is None else given.controls[part],
        )
    return result[0] if given.single else result


def displacements(
    deformer: Deformer, world_from_bone: Any = None, controls: Any = None
) -> np.ndarray:
    """Return the correctives alone; see `Deformer.displacements`."""
    given = drivers(deformer, world_from_bone, controls)
    readings = pose_readings(deformer, given.world_from_bone, given.controls)
    d = _displacements(deformer, readings)
    return d[0] if given.single else d


def deform_displaced(
    deformer: Deformer, world_from_bone: np.ndarray, displacements: np.ndarray
) -> np.ndarray:
    """Return the skin applied to given displacements; see `Deformer.deform_displaced`."""
    skeleton, _ = deformer.need_skin()
    world_from_bone = checks.array(
        world_from_bone, "world_from_bone", (None, skeleton.bone_count, 3, 4), np.float64
    )
    shape = (len(world_from_bone), deformer.mesh.vertex_count, 3)
    points = deformer.mesh.vertices + checks.array(displacements, "displacements", shape)
    return _skinned(deformer, world_from_bone, points).astype(np.float32)


def pose_readings(
    deformer: Deformer, world_from_bone: np.ndarray | None, controls: np.ndarray | None
) -> np.ndarray:
    """Return the features of some poses before they are clamped, (T,X) float32.

    world_from_bone  (T,B,3,4), or None if the deformer has no bones
    controls         (T,C), or None if the deformer reads none
    """
    count = Drivers(world_from_bone, controls, single=False).pose_count
    if not deformer.features.count:
        return np.zeros((count, 0), np.float32)
    raw = raw_features(deformer.skeleton, world_from_bone, controls, count)
    return raw[:, deformer.features.columns]


def pose_features(
    deformer: Deformer, world_from_bone: np.ndarray | None, controls: np.ndarray | None
) -> np.ndarray:
    """Return what the nets read, (T,X) float32, clamped; arguments as in `pose_readings`."""
    readings = pose_readings(deformer, world_from_bone, controls)
    return np.clip(readings, deformer.features.low, deformer.features.high)


def coefficients_of(deformer: Deformer, readings: np.ndarray) -> np.ndarray:
    """Return the coefficients of some poses, bounded: (T,N) float32, of readings (T,X)."""
    features = np.clip(readings, deformer.features.low, deformer.features.high)
    coefficients = deformer.net_groups(features)
    bounds = deformer.bounds
    return coefficients if bounds is None else bounds.bounded(coefficients, readings)


def distance_from_data(
    deformer: Deformer, world_from_bone: Any = None, controls: Any = None
) -> np.ndarray:
    """Return how far poses lie from the training poses; see `Deformer.distance_from_data`."""
    if deformer.bounds is None:
        raise InputError(
            f"this deformer has no bounds, so it cannot say how far a pose lies from its training "
            f"poses: {deformer.method} makes none, or it was made by an older version; fit again"
        )
    given = drivers(deformer, world_from_bone, controls)
    readings = pose_readings(deformer, given.world_from_bone, given.controls)
    squared = deformer.bounds.squared_distances(readings).max(axis=1, initial=0)
    return np.sqrt(squared[0] if given.single else squared)


def _displacements(deformer: Deformer, readings: np.ndarray) -> np.ndarray:
    """Return d of the equations, (T,V,3) float32, of readings (T,X)."""
    d = np.zeros((len(readings), deformer.mesh.vertex_count, 3), np.float32)
    if deformer.mean is not None:
        d += deformer.mean
    coefficients = coefficients_of(deformer, readings)
    for basis in deformer.bases:
        if basis.shared:
            part = np.einsum(
                "np,tap->tna", basis.matrix, coefficients[:, basis.coefficients], optimize=True
            )
        else:
            part = (coefficients[:, basis.coefficients] @ basis.matrix.T).reshape(
                len(readings), -1, 3
            )
        d[:, basis.vertices] += part
    return d


def _deform_block(
    deformer: Deformer, world_from_bone: np.ndarray | None, controls: np.ndarray | None
) -> np.ndarray:
    """Return the vertices of some poses at once, (t,V,3)."""
    readings = pose_readings(deformer, world_from_bone, controls)
    points = deformer.mesh.vertices + _displacements(deformer, readings)
    return points if world_from_bone is None else _skinned(deformer, world_from_bone, points)


def _skinned(deformer: Deformer, world_from_bone: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return points (T,V,3) of the rest shape moved by the skin."""
    skeleton, skin = deformer.need_skin()
    # float32 cannot represent millimetres at ten kilometres: skin relative to the root, then move
    # back.
    centre = world_from_bone[:, skeleton.roots[0], :, 3]
    local = world_from_bone.copy()
    local[..., 3] -= centre[:, None]
    matrices = compose(local, skeleton.bone_from_world).astype(np.float32)
    if skin.virtual is not None:
        matrices = blended_matrices(matrices, *skin.virtual)
    if skin.blend == "linear":
        posed = linear_blend(matrices, skin.bone_index, skin.weight, points)
    else:
        posed = dual_quaternion_blend(matrices, skin.bone_index, skin.weight, points)
    return posed + centre[:, None]


SERVICES.deform_reference = deform_reference
SERVICES.displacements = displacements
SERVICES.deform_displaced = deform_displaced
SERVICES.distance_from_data = distance_from_data
