"""A deformer in NumPy, which the other runtimes are tested against, and the check of its inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.features import raw_features
from understudy.geometry.skinning import blended_matrices, dual_quaternion_blend, linear_blend
from understudy.geometry.transforms import compose
from understudy.system import checks
from understudy.system.errors import InputError

# Numbers of blended matrices at once: enough for efficient matrix products, and few enough that
# 170,000 vertices need less than 300 MB.
_BLOCK_VALUES = 6_000_000
# Larger numbers could exceed the range of float32 on their way to a position; runtime/src/api.cpp
# has the same limit.
LARGEST_DRIVER = 1e18


def deform_reference(
    deformer: Deformer, world_from_bone: Any = None, controls: Any = None
) -> np.ndarray:
    """Return the vertices of some poses; see `Deformer.deform_reference`."""
    given = drivers(deformer, world_from_bone, controls)
    result = np.empty((given.pose_count, deformer.mesh.vertex_count, 3), np.float32)
    block = max(1, _BLOCK_VALUES // (12 * deformer.mesh.vertex_count))
    for start in range(0, given.pose_count, block):
        part = slice(start, start + block)
        some = (None if a is None else a[part] for a in (given.world_from_bone, given.controls))
        result[part] = _deform_block(deformer, *some)
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
    deformer = deformer.folded
    d = np.zeros((len(readings), deformer.mesh.vertex_count, 3), np.float32)
    if deformer.mean is not None:
        d += deformer.mean
    coefficients = coefficients_of(deformer, readings)
    for basis in deformer.bases:
        read = coefficients[:, basis.coefficients]
        if basis.shared:
            part = np.einsum("np,tap->tna", basis.matrix, read, optimize=True)
        else:
            part = (read @ basis.matrix.T).reshape(len(readings), -1, 3)
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


class Drivers(NamedTuple):
    """Bones and controls of T poses.

    world_from_bone  (T,B,3,4) float64, or None: the deformer has no bones
    controls         (T,C) float64, or None: the deformer reads no controls
    single           whether one pose was given, without its first axis
    """

    world_from_bone: np.ndarray | None
    controls: np.ndarray | None
    single: bool

    @property
    def pose_count(self) -> int:
        """T."""
        for given in (self.world_from_bone, self.controls):
            if given is not None:
                return len(given)
        raise InputError("nothing drives this deformer: it has neither bones nor controls")


def drivers(
    deformer: Deformer, world_from_bone: Any, controls: Any, finite: bool = True
) -> Drivers:
    """Return the inputs that `deformer` reads, checked, with a first axis of poses.

    world_from_bone  (T,B,3,4), or (B,3,4) for one pose; None: from the controls, where these
                     determine the bones
    controls         (T,C), or (C,) for one pose
    finite           whether to check for NaN, infinity and numbers that are too large
    """
    numbers = _in_range if finite else checks.array_of
    single = False
    if world_from_bone is None and controls is not None and deformer.poses_bones:
        assert deformer.posing
        assert deformer.control_spec
        given = np.asarray(controls)
        rows = given[None] if given.ndim == 1 else given
        rows = _in_range(rows, "controls", (None, deformer.control_spec.count), np.float64)
        world_from_bone = deformer.posing.bones_at(rows)
        world_from_bone = world_from_bone[0] if given.ndim == 1 else world_from_bone
    if deformer.skeleton is None:
        bones = None
    elif world_from_bone is None:
        raise InputError("world_from_bone is missing: this deformer is driven by bones")
    else:
        bones = np.asarray(world_from_bone)
        single = bones.ndim == 3
        shape = (None, deformer.skeleton.bone_count, 3, 4)
        bones = numbers(bones[None] if single else bones, "world_from_bone", shape, np.float64)
    if deformer.reads_controls or (deformer.skeleton is None and controls is not None):
        if controls is None:
            raise InputError("controls are missing: this deformer's correctives read them")
        if deformer.control_spec is None:
            raise InputError("controls: this deformer has none; leave them out")
        values = np.asarray(controls)
        single = single or values.ndim == 1
        values = values[None] if values.ndim == 1 else values
        values = numbers(values, "controls", (None, deformer.control_spec.count), np.float64)
        if bones is not None:
            checks.same_count(len(values), len(bones), "poses", "controls", "world_from_bone")
    else:
        values = None
    result = Drivers(bones, values, single)
    result.pose_count  # noqa: B018 (raises if nothing drives the deformer)
    return result


def _in_range(
    value: Any, name: str, shape: tuple[int | None, ...], dtype: type[np.generic]
) -> np.ndarray:
    """Return `value` as an array of numbers of at most LARGEST_DRIVER in magnitude."""
    result = checks.array(value, name, shape, dtype)
    largest = np.abs(result).max(initial=0)
    if largest > LARGEST_DRIVER:
        raise InputError(
            f"{name}: expected numbers of at most {LARGEST_DRIVER:g} in magnitude, got {largest:g}"
        )
    return result
