"""The checks of a `.understudy` file that are about its form: JSON, types of arrays, texts.

`runtime/src` makes the same checks, so that every reader refuses the same files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from understudy.io.files import without_repeats
from understudy.system import checks
from understudy.system.errors import InputError

_MOST_NESTED = 64
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_TYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "uint8", "uint16", "bool")
_WHOLE = ("uint8", "uint16", "int32")  # in 8 and 16 bits in files of 16 bits
# What each array holds and how many axes it has; `#` stands for a number.
_ARRAYS = {
    **dict.fromkeys(("mesh.vertices", "mesh.corner_uvs", "mesh.corner_normals", "mean",
                     "skin.weight", "skin.virtual_weight"), (("float32",), 2)),
    **dict.fromkeys(("features.low", "features.high", "nets.values", "bases.values", "bounds.low",
                     "bounds.high", "held_out_error"), (("float32",), 1)),
    "bounds.group": (_WHOLE, 1),
    **dict.fromkeys(("bounds.units", "bounds.features"), (_WHOLE, 2)),
    "bounds.scale": (("float32",), 2),
    "bounds.centres": (("float32",), 3),
    **dict.fromkeys(("nets.half", "bases.half"), (("float16",), 1)),
    **dict.fromkeys(("controls.low", "controls.high", "controls.rest", "controls.limit_low",
                     "controls.limit_high"), (("float64",), 1)),
    **dict.fromkeys(("mesh.polygon_sizes", "mesh.polygon_vertices", "mesh.polygon_material",
                     "mesh.part.#", "skeleton.parents", "features.columns", "nets.inputs",
                     "nets.outputs", "bases.vertices", "bases.coefficients"), (_WHOLE, 1)),
    **dict.fromkeys(("skin.bone_index", "skin.virtual_index"), (_WHOLE, 2)),
    "skeleton.world_from_bone": (("float64",), 3),
    "clip.#.world_from_bone": (("float64",), 4),
    "clip.#.keys": (_WHOLE, 2),
    "clip.#.values": (("float32",), 2),
    "controls.numeric": (("bool",), 1),
    **dict.fromkeys(("posing.dof_low", "posing.dof_high", "posing.dof_rest"), (("float64",), 1)),
    **dict.fromkeys(("posing.axes", "posing.reference"), (("float32",), 2)),
    "posing.driver_coefficients": (("float32",), 1),
    **dict.fromkeys(("posing.parents", "posing.order", "posing.bone_part", "posing.mirror_bone",
                     "posing.mirror_control", "posing.dof_bone", "posing.dof_channel",
                     "posing.driver_bone", "posing.driver_degree", "posing.driver_inputs",
                     "posing.driver_channels"), (_WHOLE, 1)),
}  # fmt: skip


def parse_archive_header(data: bytes) -> dict[str, Any]:
    """Return the JSON object at the start of a safetensors file, in which no name is repeated."""
    length = int.from_bytes(data[:8], "little")
    found = json.loads(data[8 : 8 + length], object_pairs_hook=without_repeats)
    if not isinstance(found, dict):
        raise InputError("the header is not a JSON object")
    return found


def parse_header(text: str) -> Any:
    """Return the header of a deformer: strict JSON without repeated names, in valid Unicode."""
    if _depth(text) > _MOST_NESTED:
        raise InputError("the header is nested too deeply")
    found = json.loads(
        text,
        object_pairs_hook=without_repeats,
        parse_constant=_refused_constant,
        parse_int=_whole,
    )
    if _SURROGATE.search(text):  # half of a pair cannot be encoded
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    return found


def check_types(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise unless all arrays are of types that files use."""
    for name, array in arrays.items():
        checks.one_of(array.dtype.name, f"type of array {name}", _TYPES)


class TypedArrays(dict[str, np.ndarray]):
    """Arrays by name. One that is read must have the type and the number of axes that belong to its
    name; what nothing reads is not checked, as in C++.
    """

    def __getitem__(self, name: str) -> np.ndarray:
        """Return an array, checked."""
        array = super().__getitem__(name)
        known = _ARRAYS.get(re.sub(r"\.[0-9]+(?=\.|$)", ".#", name))
        if known is not None:
            types, axes = known
            checks.one_of(array.dtype.name, f"type of array {name}", types)
            checks.shape_of(array, name, (None,) * axes)
        return array

    def get(self, name: str, default: Any = None) -> Any:
        """Return an array, checked, or `default` if it is not there."""
        return default if name not in self else self[name]  # noqa: SIM401 (checked)


def texts(value: Any, name: str) -> tuple[str, ...]:
    """Return a list of texts of the header, without zero characters."""
    if not isinstance(value, list):
        raise InputError(f"{name}: expected a list of texts, got {type(value).__name__}")
    return tuple(text(item, name) for item in value)


def text(value: Any, name: str) -> str:
    """Return a text of the header, without zero characters."""
    if not isinstance(value, str):
        raise InputError(f"{name}: expected a text, got {type(value).__name__}")
    if "\0" in value:
        raise InputError(f"{name}: contains a zero character, which C strings cannot hold")
    return value


def need_kind(value: Any, name: str, kind: type) -> Any:
    """Return a value of the header if it is of this kind; a truth value is not a number."""
    if type(value) is not kind:
        raise InputError(f"{name}: expected {kind.__name__}, got {type(value).__name__}")
    return value


def _refused_constant(name: str) -> Any:
    raise InputError(f"the header is not valid JSON: {name}")


def _whole(digits: str) -> int | float:
    """Return a number without fraction; -0 counts as one with a fraction, as in C++."""
    return -0.0 if digits == "-0" else int(digits)


def _depth(text: str) -> int:
    """Return at least how deep a JSON text is nested, brackets inside texts included."""
    brackets = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    opened = np.isin(brackets, (ord("["), ord("{"))).astype(np.int64)
    return int((opened - np.isin(brackets, (ord("]"), ord("}")))).cumsum().max(initial=0))
