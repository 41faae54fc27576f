"""The inputs of a deformer, checked: bones and controls of some poses."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from understudy.core.deformer import Deformer
from understudy.system import checks
from understudy.system.errors import InputError

# Larger numbers could exceed the range of float32 on their way to a position; runtime/src/api.cpp
# has the same limit.
LARGEST_DRIVER = 1e18


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

    world_from_bone  (T,B,3,4), or (B,3,4) for one pose
    controls         (T,C), or (C,) for one pose
    finite           whether to check for NaN, infinity and numbers that are too large
    """
    numbers = _in_range if finite else checks.array_of
    single = False
    if deformer.skeleton is not None:
        if world_from_bone is None:
            raise InputError("world_from_bone is missing: this deformer is driven by bones")
        world_from_bone = np.asarray(world_from_bone)
        single = world_from_bone.ndim == 3
        world_from_bone = world_from_bone[None] if single else world_from_bone
        world_from_bone = numbers(
            world_from_bone,
            "world_from_bone",
            (None, deformer.skeleton.bone_count, 3, 4),
            np.float64,
        )
    else:
        world_from_bone = None
    if deformer.reads_controls or (deformer.skeleton is None and controls is not None):
        if controls is None:
            raise InputError("controls are missing: this deformer's correctives read them")
        if deformer.control_spec is None:
            raise InputError("controls: this deformer has none; leave them out")
        controls = np.asarray(controls)
        single = single or controls.ndim == 1
        controls = numbers(
            controls[None] if controls.ndim == 1 else controls,
            "controls",
            (None, deformer.control_spec.count),
            np.float64,
        )
        if world_from_bone is not None:
            checks.same_count(
                len(controls), len(world_from_bone), "poses", "controls", "world_from_bone"
            )
    else:
        controls = None
    result = Drivers(world_from_bone, controls, single)
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
