"""Whether a deformer is stored in 16 bits: the one rule of all fits."""

from __future__ import annotations

from dataclasses import fields

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.methods.base import Method
from understudy.methods.correctives.guard import mean_error
from understudy.runtime.half_precision import halved_correctives
from understudy.system.errors import InputError

COMPARED_POSES = 100  # that both are compared on, at most
# What 16 bits may add to the mean error: a share of it, or of the height.
_OF_ERROR, _OF_HEIGHT = 0.01, 1e-6


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
    """`deformer` in 16 bits, or as it is where that increases its error visibly.

    poses  those kept aside from its fit, or, where there are none, those of its fit
    A deformer without networks stays as it is: it is small. Rest positions stay in
    32 bits: they are few bytes, and their rounding is an error in every pose.
    """
    small = in_16_bits(deformer)
    if small is deformer:
        return deformer
    some = poses.take(evenly(poses.pose_count, COMPARED_POSES))
    allowed = (1 + _OF_ERROR) * mean_error(deformer, some) + _OF_HEIGHT * deformer.mesh.height
    return small if mean_error(small, some) <= allowed else deformer


def stored(deformer: Deformer, storage: str, poses: Poses) -> Deformer:
    """The deformer as the option `storage` asks: float32, float16 or auto, as `compact` decides."""
    if storage == "float16" and deformer.nets:
        return halved_correctives(deformer)  # an error where a weight exceeds the largest number
    return compact(deformer, poses) if storage == "auto" else deformer
