"""A `PosingSkeleton` as entries of a `.understudy` file, whose names start with `posing.`."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.core.posing import (
    MAX_DEGREE,
    MAX_INPUTS,
    MAX_TERMS,
    Dofs,
    Driver,
    Handle,
    PosingSkeleton,
    Symmetry,
    term_count,
)
from understudy.core.skeleton import Skeleton
from understudy.geometry.bone_motion import CHANNELS
from understudy.io.understudy.correctives import FlatReader, joined
from understudy.system import checks
from understudy.system.errors import InputError

_OWN = ("parents", "axes", "reference", "order", "bone_part", "parts", "notes", "errors")
_OF_DOFS = ("names", "bone", "channel", "low", "high", "rest")
_OF_HANDLES = ("name", "role", "side", "bone")


def posing_entries(posing: PosingSkeleton) -> dict[str, Any]:
    """Return the entries of a posing skeleton by name."""
    drivers, symmetry = posing.drivers, posing.symmetry
    found = {
        **{name: getattr(posing, name) for name in _OWN},
        **{f"mirror_{name}": getattr(symmetry, name) for name in ("axis", "bone", "control")},
        **{f"dof_{name}": getattr(posing.dofs, name) for name in _OF_DOFS},
        **{f"handle_{name}s": [getattr(h, name) for h in posing.handles] for name in _OF_HANDLES},
        "driver_bone": [driver.bone for driver in drivers],
        "driver_degree": [driver.degree for driver in drivers],
        "driver_input_counts": [len(driver.inputs) for driver in drivers],
        "driver_channel_counts": [len(driver.channels) for driver in drivers],
        "driver_inputs": joined(driver.inputs for driver in drivers),
        "driver_channels": joined(driver.channels for driver in drivers),
        "driver_coefficients": joined(driver.coefficients for driver in drivers),
    }
    return {f"posing.{name}": value for name, value in found.items()}


def read_posing(
    entries: dict[str, Any], skeleton: Skeleton, control_rest: np.ndarray
) -> PosingSkeleton:
    """Return the posing skeleton of a file.

    control_rest  (C,) rest values of the deformer's controls
    """
    part = lambda name: entries[f"posing.{name}"]
    for name, value in part("errors").items():
        if type(value) not in (int, float):
            raise InputError(f"error {name!r} of posing: expected a number, got {value!r}")
    handles = zip(*(part(f"handle_{name}s") for name in _OF_HANDLES))
    return PosingSkeleton(
        skeleton=skeleton,
        control_rest=control_rest,
        dofs=Dofs(*(part(f"dof_{name}") for name in _OF_DOFS)),
        drivers=_drivers(entries),
        handles=tuple(Handle(name, role, side, int(bone)) for name, role, side, bone in handles),
        symmetry=Symmetry(
            int(part("mirror_axis")),
            checks.index(part("mirror_bone"), "mirror bones", skeleton.bone_count),
            checks.index(part("mirror_control"), "mirror controls", len(control_rest)),
        ),
        **{name: part(name) for name in _OWN},
    )


def _drivers(entries: dict[str, Any]) -> tuple[Driver, ...]:
    """Return the drivers of a file."""
    flat = FlatReader(
        entries, "posing.driver_", "degree", "input_counts", "channel_counts", "inputs", "channels",
        "coefficients",
    )  # fmt: skip
    drivers = []
    for bone in checks.index(entries["posing.driver_bone"], "bones of drivers", 2**31):
        degree = int(checks.between(flat.size("degree"), "degree of a driver", 0, MAX_DEGREE))
        n = checks.between(flat.size("input_counts"), "inputs of a driver", 0, MAX_INPUTS)
        k = checks.between(flat.size("channel_counts"), "channels of a driver", 0, CHANNELS)
        terms = checks.between(term_count(int(n), degree), "terms of a driver", 1, MAX_TERMS)
        rows = flat.take("coefficients", int(terms), int(k))
        inputs, channels = flat.take("inputs", int(n)), flat.take("channels", int(k))
        drivers.append(Driver(int(bone), channels, inputs, degree, rows))
    flat.need_end()
    return tuple(drivers)
