"""`compact`: a deformer in 16 bits, where that does not change its error.

Letters: T poses, V vertices.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.methods.base import Method
from understudy.methods.correctives.guard import mean_error
from understudy.runtime.half_precision import halved_correctives
from understudy.system.errors import InputError

COMPARED_POSES = 100  # that both are compared on, at most
# Largest mean distance between both: as a fraction of the error of the deformer, or of the height.
_OF_ERROR, _OF_HEIGHT = 0.1, 1e-6
_HALF_ERROR = 1.01  # factor by which 16 bits may increase the error


def decides_storage(kind: type[Method]) -> bool:
    """Whether a method decides on 16 bits itself, by its option `storage`."""
    return any(option.name == "storage" for option in fields(kind.Config))


def in_16_bits(deformer: Deformer) -> Deformer:
    """`deformer` in 16 bits; as it is where a number exceeds their range."""
    if not deformer.nets or deformer.storage != "float32":
        return deformer
    try:
        return halved_correctives(deformer)
    except InputError:
        return deformer


def compact(deformer: Deformer, poses: Poses) -> Deformer:
    """`deformer` in 16 bits, or as it is where that moves vertices by a visible part of its error.

    poses  that it was fitted to
    A deformer without networks stays as it is: it is small. Rest positions stay in
    32 bits: they are few bytes, and their rounding is an error in every pose.
    """
    small = in_16_bits(deformer)
    if small is deformer:
        return deformer
    some = poses.take(evenly(poses.pose_count, COMPARED_POSES))
    bones = None if deformer.skeleton is None else some.world_from_bone
    controls = some.controls if deformer.reads_controls else None
    shown, rounded = deformer.deform(bones, controls), small.deform(bones, controls)
    error = _mean_distance(shown, some.read_poses(0, some.pose_count))
    allowed = max(_OF_ERROR * error, _OF_HEIGHT * deformer.mesh.height)
    return small if _mean_distance(shown, rounded) <= allowed else deformer


def _mean_distance(one: np.ndarray, other: np.ndarray) -> float:
    """The mean distance between the vertices (T,V,3) of both."""
    return float(np.linalg.norm(one - other, axis=2).mean(dtype=np.float64))


def stored(deformer: Deformer, storage: str, poses: Poses) -> Deformer:
    """The deformer in 16 bits, if that is asked for or costs nothing on some poses."""
    if storage == "float32" or not deformer.nets:
        return deformer
    if storage == "float16":  # an error where a weight exceeds the largest 16-bit float
        return halved_correctives(deformer)
    half, few = in_16_bits(deformer), poses.take(evenly(poses.pose_count, COMPARED_POSES))
    worse = mean_error(half, few) > _HALF_ERROR * mean_error(deformer, few)
    return deformer if worse else half
