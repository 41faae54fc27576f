"""A `PosingSkeleton` in a `.understudy` file: arrays whose names start with `posing.`, and an entry
`posing` of the header. Readers that do not pose ignore both.

    posing.parents                      (B,) int32, -1 for a root; not always parents first
    posing.axes, .reference             (B,3) float32, rotation vectors
    posing.order                        (B,) int32, indices into `bone_motion.ORDERS`
    posing.bone_part, .mirror_bone      (B,) int32
    posing.mirror_control               (C,) int32
    posing.dof_bone, .dof_channel       (D,) int32; bone -1: the channel is a control
    posing.dof_low, .dof_high, .dof_rest          (D,) float64
    posing.driver_bone, .driver_degree            (n,) int32
    posing.driver_inputs, .driver_channels        int32, those of all drivers one after the other
    posing.driver_coefficients                    float32, row by row, one driver after the other

    header: version, dofs (names), handles, mirror_axis, parts, errors, notes, and `drivers`, a list
    of [number of inputs, number of channels]

Letters: B bones, C controls, D dofs.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from understudy.core.posing import (
    MAX_DEGREE,
    MAX_INPUTS,
    Dofs,
    Driver,
    Handle,
    PosingSkeleton,
    Symmetry,
    term_count,
)
from understudy.core.skeleton import Skeleton
from understudy.geometry.bone_motion import CHANNELS
from understudy.io.understudy.correctives import FlatReader
from understudy.system import checks
from understudy.system.errors import InputError

VERSION = 1
PREFIX = "posing."
_OF_BONES = ("parents", "axes", "reference", "order", "bone_part")
_OF_DOFS = ("bone", "channel", "low", "high", "rest")


def posing_arrays(posing: PosingSkeleton) -> dict[str, np.ndarray]:
    """Return the arrays of a posing skeleton by name."""
    drivers = posing.drivers
    joined = lambda parts, kind: np.concatenate([np.zeros(0, kind), *parts]).astype(kind)
    arrays = {
        **{name: getattr(posing, name) for name in _OF_BONES},
        **{f"mirror_{name}": getattr(posing.symmetry, name) for name in ("bone", "control")},
        **{f"dof_{name}": getattr(posing.dofs, name) for name in _OF_DOFS},
        "driver_bone": np.array([driver.bone for driver in drivers], np.int32),
        "driver_degree": np.array([driver.degree for driver in drivers], np.int32),
        "driver_inputs": joined([driver.inputs for driver in drivers], np.int32),
        "driver_channels": joined([driver.channels for driver in drivers], np.int32),
        "driver_coefficients": joined([one.coefficients.ravel() for one in drivers], np.float32),
    }
    return {PREFIX + name: array for name, array in arrays.items()}


def posing_entry(posing: PosingSkeleton) -> dict[str, Any]:
    """Return the entry `posing` of the header."""
    return {
        "version": VERSION,
        "dofs": list(posing.dofs.names),
        "drivers": [[len(driver.inputs), len(driver.channels)] for driver in posing.drivers],
        "handles": [asdict(handle) for handle in posing.handles],
        "mirror_axis": posing.symmetry.axis,
        "parts": list(posing.parts),
        "errors": dict(posing.errors),
        "notes": list(posing.notes),
    }


def read_posing(
    arrays: dict[str, np.ndarray], entry: Any, skeleton: Skeleton, control_rest: np.ndarray
) -> PosingSkeleton | None:
    """Return the posing skeleton of a file, or None if a later version wrote it.

    control_rest  (C,) rest values of the deformer's controls
    """
    if not isinstance(entry, dict) or not isinstance(entry.get("version"), int):
        raise InputError("posing: expected an object with a version")
    if entry["version"] > VERSION:
        return None
    part = lambda name: arrays[PREFIX + name]
    whole = lambda name, size: checks.index(part(name), PREFIX + name, size)
    dofs = Dofs(tuple(entry["dofs"]), *(part(f"dof_{name}") for name in _OF_DOFS))
    errors = {str(name): float(value) for name, value in dict(entry["errors"]).items()}
    symmetry = Symmetry(
        int(entry["mirror_axis"]),
        whole("mirror_bone", skeleton.bone_count),
        whole("mirror_control", len(control_rest)),
    )
    return PosingSkeleton(
        skeleton=skeleton,
        control_rest=control_rest,
        dofs=dofs,
        drivers=_drivers(arrays, entry["drivers"]),
        handles=tuple(
            Handle(str(h["name"]), str(h["role"]), str(h["side"]), int(h["bone"]))
            for h in entry["handles"]
        ),
        symmetry=symmetry,
        parts=tuple(entry["parts"]),
        errors=errors,
        notes=tuple(entry["notes"]),
        **{name: part(name) for name in _OF_BONES},
    )


def _drivers(arrays: dict[str, np.ndarray], sizes: Any) -> tuple[Driver, ...]:
    """Return the drivers; sizes: [inputs, channels] of each."""
    bones = checks.index(arrays[PREFIX + "driver_bone"], "driver bones", 2**31, (len(sizes),))
    degrees = checks.index(
        arrays[PREFIX + "driver_degree"], "driver degrees", MAX_DEGREE + 1, (len(sizes),)
    )
    names = [f"{PREFIX}driver_{name}" for name in ("inputs", "channels", "coefficients")]
    readers = [FlatReader(arrays[name], name) for name in names]
    inputs, channels, coefficients = readers
    drivers = []
    for (n, k), bone, degree in zip(sizes, bones, degrees):
        n = int(checks.between(n, "inputs of a driver", 0, MAX_INPUTS))
        k = int(checks.between(k, "channels of a driver", 0, CHANNELS))
        rows = coefficients.take(term_count(n, int(degree)), k)
        drivers.append(Driver(int(bone), channels.take(k), inputs.take(n), int(degree), rows))
    for reader in readers:
        reader.need_end()
    return tuple(drivers)
