"""The checks of a `.understudy` file that are about its form: JSON, names, types and shapes.

`runtime/src` makes the same checks, so that every reader refuses the same files.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from understudy.core.form import ALWAYS, ENTRIES, FORMAT_VERSION, Entry, entry_of
from understudy.io.files import without_repeats
from understudy.io.understudy.narrowing import widened
from understudy.system import checks
from understudy.system.errors import InputError

_MOST_NESTED = 64
_MOST_DIGITS = 1000  # of a whole number; Python has a limit of its own, which can be set
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_archive_header(data: bytes) -> dict[str, Any]:
    """Return the JSON object at the start of a safetensors file, in which no name is repeated."""
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length]
    found = json.loads(text, object_pairs_hook=without_repeats, parse_int=_whole)
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


def checked_entries(arrays: dict[str, np.ndarray], header: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a file by name, each of the type and shape that the form gives it.

    header  without its format version
    """
    texts = {name: _header_value(name, value) for name, value in header.items()}
    found = widened(arrays, half=texts.get("storage") == "float16")
    for name in found:
        if need_entry(name).in_header:
            raise InputError(f"{name}: expected an entry of the header, got an array")
    found |= texts
    lengths: dict[str, int] = {}
    for name, value in found.items():
        entry = need_entry(name)
        if not entry.in_header:
            checks.one_of(value.dtype.name, f"type of array {name}", (entry.type,))
            _need_shape(name, value.shape, entry, lengths)
        elif entry.type == "texts":
            _need_shape(name, (len(value),), entry, lengths)
    parts = {*ALWAYS, *(need_entry(name).part for name in found)}
    for entry in ENTRIES:
        if entry.needed and entry.part in parts and entry.name not in found:
            raise InputError(f"{entry.name!r} is missing")
    return found


def need_entry(name: str) -> Entry:
    """Return the entry of a name, or raise."""
    entry = entry_of(name)
    if entry is None:
        raise InputError(f"{name!r} is no entry of format {FORMAT_VERSION}")
    return entry


def _need_shape(name: str, shape: tuple[int, ...], entry: Entry, lengths: dict[str, int]) -> None:
    """Raise unless a shape is that of the entry; lengths: of the file's axes, which it may add."""
    if len(shape) != len(entry.axes):
        raise InputError(f"{name}: expected {len(entry.axes)} axes, got shape {shape}")
    for axis, length in zip(entry.axes, shape):
        wanted: int | str = axis
        if isinstance(axis, str):
            wanted = lengths.setdefault(axis, length) if axis.isupper() else length
        if wanted != length:
            raise InputError(f"{name}: has shape {shape}; axis {axis} has length {wanted}")


def _header_value(name: str, value: Any) -> Any:
    """Return a value of the header, of the type of its entry; a list of texts as a tuple."""
    kind = need_entry(name).type
    if kind == "text":
        return _text(value, name)
    if kind == "texts" and isinstance(value, list):
        return tuple(_text(item, name) for item in value)
    if kind == "object" and isinstance(value, dict):
        return value
    raise InputError(f"{name}: expected {kind}, got {type(value).__name__}")


def _text(value: Any, name: str) -> str:
    """Return a text of the header, without zero characters."""
    if not isinstance(value, str):
        raise InputError(f"{name}: expected a text, got {type(value).__name__}")
    if "\0" in value:
        raise InputError(f"{name}: contains a zero character, which C strings cannot hold")
    return value


def _refused_constant(name: str) -> Any:
    raise InputError(f"the header is not valid JSON: {name}")


def _whole(digits: str) -> int | float:
    """Return a number without fraction; -0 counts as one with a fraction, as in C++."""
    if len(digits.lstrip("-")) > _MOST_DIGITS:
        raise InputError("a number in its JSON has too many digits")
    return -0.0 if digits == "-0" else int(digits)


def _depth(text: str) -> int:
    """Return at least how deep a JSON text is nested, brackets inside texts included."""
    brackets = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    opened = np.isin(brackets, (ord("["), ord("{"))).astype(np.int64)
    return int((opened - np.isin(brackets, (ord("]"), ord("}")))).cumsum().max(initial=0))
