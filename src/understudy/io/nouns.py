"""Nouns of `core` as named arrays and JSON, for files that hold several of them.

`to_arrays` takes one apart that a pose store keeps, `packed` any with all that is in it: what reads
an untrusted file in a process of its own, and what is cached, is handed on so.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from understudy.core.character import BlendShape, Character, CharacterClip
from understudy.core.controls import ControlSpec
from understudy.core.materials import Image, Material, Texture
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.system.errors import InputError

NOUNS: dict[str, Any] = {"mesh": Mesh, "skeleton": Skeleton, "skin": Skin, "controls": ControlSpec}
_PACKED = (*NOUNS.values(), BlendShape, Character, CharacterClip, Image, Material, Texture)
_ABOUT = "about"  # the array that has the JSON
_Noun = TypeVar("_Noun")


def to_arrays(noun: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays of a dataclass by name, and the rest of it as JSON.

    The rest has the keys words (other fields), arrays (names) and tables (field -> {key: array}).
    """
    others: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    tables: dict[str, dict[str, str]] = {}
    for field in dataclasses.fields(noun):
        value = getattr(noun, field.name)
        if isinstance(value, np.ndarray):
            arrays[field.name] = value
        elif isinstance(value, Mapping):  # keys are free text, so the arrays are numbered
            tables[field.name] = {key: f"{field.name}.{i}" for i, key in enumerate(value)}
            arrays |= {tables[field.name][key]: item for key, item in value.items()}
        elif value is not None:
            others[field.name] = value
    return arrays, {"words": others, "arrays": list(arrays), "tables": tables}


def from_arrays(
    kind: type[_Noun], arrays: Mapping[str, np.ndarray], facts: Mapping[str, Any]
) -> _Noun:
    """Return what `to_arrays` took apart: a dataclass of type `kind`."""
    arrays = dict(arrays)
    tables = {
        field: {key: arrays.pop(where) for key, where in table.items()}
        for field, table in facts["tables"].items()
    }
    others = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in facts["words"].items()
    }
    return kind(**arrays, **tables, **others)


def packed(thing: Any) -> dict[str, np.ndarray]:
    """Return a noun as arrays by name, with the nouns, tables and bytes in it; `unpacked` reads it.

    >>> unpacked(packed(BlendShape("smile", [3], [[0, 1, 0]])), BlendShape).vertices.tolist()
    [3]
    """
    arrays: list[np.ndarray] = []
    known: dict[bytes, int] = {}  # images stand in several textures

    def told(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return {"array": len(arrays) - 1}
        if isinstance(value, bytes):
            if value not in known:
                known[value] = told(np.frombuffer(value, np.uint8))["array"]
            return {"bytes": known[value]}
        if dataclasses.is_dataclass(value):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return {"noun": type(value).__name__, **told(fields)}
        if isinstance(value, Mapping):
            return {"table": [[key, told(part)] for key, part in value.items()]}
        return [told(part) for part in value] if isinstance(value, list | tuple) else value

    about = np.frombuffer(json.dumps(told(thing)).encode(), np.uint8)
    return {_ABOUT: about, **{str(number): array for number, array in enumerate(arrays)}}


def unpacked(arrays: Mapping[str, np.ndarray], kind: type[_Noun]) -> _Noun:
    """Return what `packed` took apart, of type `kind`; every noun checks what it is given."""
    kinds = {one.__name__: one for one in (*_PACKED, kind)}

    def made(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(map(made, value))
        if not isinstance(value, dict):
            return value
        if "array" in value:
            return arrays[str(value["array"])]
        if "bytes" in value:
            return arrays[str(value["bytes"])].tobytes()
        table = {key: made(part) for key, part in value["table"]}
        return kinds[value["noun"]](**table) if "noun" in value else table

    found = made(json.loads(arrays[_ABOUT].tobytes()))
    if not isinstance(found, kind):
        raise InputError(f"expected a {kind.__name__}, got {type(found).__name__}")
    return found
