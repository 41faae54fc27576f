"""What drives a deformer, checked: bones and controls of some poses."""

from __future__ import annotations

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError


def drivers(deformer: Deformer, world_from_bone, controls, finite: bool = True):
    """Checked drivers with a leading pose axis, and whether that axis was added here. `finite`:
    look for NaN too.
    """
    numbers = checks.array if finite else checks.array_of
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
    if world_from_bone is None and controls is None:
        raise InputError("nothing drives this deformer: it has neither bones nor controls")
    return world_from_bone, controls, single
