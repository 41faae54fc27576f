"""Nouns of `core` as named arrays and JSON, for files that hold several of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin

NOUNS: dict[str, Any] = {"mesh": Mesh, "skeleton": Skeleton, "skin": Skin, "controls": ControlSpec}
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
