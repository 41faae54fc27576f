"""A `PosingSkeleton` in a `.understudy` file: arrays whose names start with `posing.`, and an entry
`posing` of the header. Readers that do not pose ignore both.

    posing.parents                      (B,) int32, -1 for a root; not always parents first
    posing.axes, .reference             (B,3) float32, rotation vectors
    posing.order                        (B,) int32, indices into `bone_motion.ORDERS`
    posing.bone_part, .mirror_bone      (B,) int32
    posing.mirror_control               (C,) int32
    posing.dof_bone, .dof_channel       (D,) int32; bone -1: the channel is a control
    posing.dof_low, .dof_high, .dof_rest          (D,) float64
    posing.driver_bone, .driver_degree            (n,) int32; those of one channel add up
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
from understudy.io.understudy.correctives import FlatReader
from understudy.io.understudy.strict_reading import need_kind, text, texts
from understudy.system import checks
from understudy.system.errors import InputError

# Version 2: the controls drive every bone, by drivers that add up and have more inputs and terms.
VERSION = 2
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
        "version": VERSION if posing.from_controls else 1,
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
    version = need_kind(need_kind(entry, "posing", dict)["version"], "version of posing", int)
    checks.between(version, "version of posing", 1, 2**53)
    if version > VERSION:
        return None
    part = lambda name: arrays[PREFIX + name]
    whole = lambda name, size: checks.index(part(name), PREFIX + name, size)
    dofs = Dofs(texts(entry["dofs"], "dofs"), *(part(f"dof_{name}") for name in _OF_DOFS))
    errors = need_kind(entry["errors"], "errors of posing", dict)
    for name, value in errors.items():
        if type(value) not in (int, float):
            raise InputError(f"error {name!r} of posing: expected a number, got {value!r}")
    symmetry = Symmetry(
        need_kind(entry["mirror_axis"], "mirror axis", int),
        whole("mirror_bone", skeleton.bone_count),
        whole("mirror_control", len(control_rest)),
    )
    return PosingSkeleton(
        skeleton=skeleton,
        control_rest=control_rest,
        dofs=dofs,
        drivers=_drivers(arrays, entry["drivers"]),
        handles=tuple(
            Handle(
                text(handle["name"], "name of a handle"),
                text(handle["role"], "role of a handle"),
                text(handle["side"], "side of a handle"),
                need_kind(handle["bone"], "bone of a handle", int),
            )
            for handle in need_kind(entry["handles"], "handles", list)
        ),
        symmetry=symmetry,
        parts=texts(entry["parts"], "parts"),
        errors={name: float(value) for name, value in errors.items()},
        notes=texts(entry["notes"], "notes"),
        **{name: part(name) for name in _OF_BONES},
    )


def _drivers(arrays: dict[str, np.ndarray], sizes: Any) -> tuple[Driver, ...]:
    """Return the drivers; sizes: [inputs, channels] of each."""
    need_kind(sizes, "drivers", list)
    bones = checks.index(arrays[PREFIX + "driver_bone"], "driver bones", 2**31, (len(sizes),))
    degrees = checks.index(
        arrays[PREFIX + "driver_degree"], "driver degrees", MAX_DEGREE + 1, (len(sizes),)
    )
    names = [f"{PREFIX}driver_{name}" for name in ("inputs", "channels", "coefficients")]
    readers = [FlatReader(arrays[name], name) for name in names]
    inputs, channels, coefficients = readers
    drivers = []
    for size, bone, degree in zip(sizes, bones, degrees):
        if len(need_kind(size, "size of a driver", list)) != 2:
            raise InputError(f"size of a driver: expected [inputs, channels], got {size}")
        n, k = (need_kind(number, "size of a driver", int) for number in size)
        checks.between(n, "inputs of a driver", 0, MAX_INPUTS)
        checks.between(k, "channels of a driver", 0, CHANNELS)
        terms = checks.between(term_count(n, int(degree)), "terms of a driver", 1, MAX_TERMS)
        rows = coefficients.take(int(terms), k)
        drivers.append(Driver(int(bone), channels.take(k), inputs.take(n), int(degree), rows))
    for reader in readers:
        reader.need_end()
    return tuple(drivers)
