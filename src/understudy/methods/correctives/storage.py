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


def stored(deformer: Deformer, storage: str, poses: Poses) -> Deformer:
    """The deformer as an option `storage` asks.

    storage  float32; float16, an error where a number exceeds its range; auto: 16 bits where that
             does not increase the error visibly
    poses    those kept aside from its fit, or, where there are none, those of its fit
    A deformer without networks stays as it is: it is small. Rest positions stay in
    32 bits: they are few bytes, and their rounding is an error in every pose.
    """
    if storage == "float32" or not deformer.nets:
        return deformer
    if storage == "float16":
        return halved_correctives(deformer)
    small = in_16_bits(deformer)
    if small is deformer:
        return deformer
    some = poses.take(evenly(poses.pose_count, COMPARED_POSES))
    allowed = (1 + _OF_ERROR) * mean_error(deformer, some) + _OF_HEIGHT * deformer.mesh.height
    return small if mean_error(small, some) <= allowed else deformer
