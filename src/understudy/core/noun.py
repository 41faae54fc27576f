"""What the nouns of `core` have in common: their arrays are read-only, and they print as one line.

Results of jobs print so too.

Nouns share arrays: two fits of the same poses have one skin, a changed deformer has the mesh of the
one it was made from, and caches keep what they computed. `dataclasses.replace` makes a noun with
other arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_SHOWN = 4  # of several names


class OneLine:
    """The base class of dataclasses whose arrays and parts print as names, shapes and counts."""

    def __repr__(self) -> str:
        return _one_line(self)


class Noun(OneLine):
    """The base class of frozen dataclasses, which set their fields by `_keep` or `_borrow`."""

    def _keep(self, name: str, value: Any) -> None:
        """Set a field; its arrays are read-only, and this noun's alone.

        An array is copied where the caller may still write to it: where it is writable and was
        given as it is, or is part of another.
        """
        object.__setattr__(self, name, _kept(value, getattr(self, name)))

    def _borrow(self, name: str, value: Any) -> None:
        """Set a field to a read-only view: for arrays too large to be copied.

        The caller must not write to the array while the noun is in use.
        """
        value = read_only(value) if isinstance(value, np.ndarray) else value
        object.__setattr__(self, name, value)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view of `array` that cannot be written to.

    >>> read_only(np.zeros(3)).flags.writeable
    False
    """
    view = array.view()
    view.flags.writeable = False
    return view


def fingerprint(thing: object) -> str:
    """Return sixteen hexadecimal digits that differ between two nouns, arrays or other values.

    >>> fingerprint((np.zeros(3), "a")) == fingerprint((np.zeros(3), "b"))
    False
    """
    import hashlib  # slow to import, and players need no hashes

    digest = hashlib.sha256()
    for key, item in _leaves("", thing):
        is_array = isinstance(item, np.ndarray)
        text = f"{item.dtype}{item.shape}" if is_array else repr(item)
        digest.update(f"{key}:{text};".encode())
        if is_array:
            digest.update(np.ascontiguousarray(item).data)
    return digest.hexdigest()[:16]


def _leaves(key: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the arrays and plain values within a value, each with the way to it."""
    if is_dataclass(thing):
        parts: dict[Any, Any] = {f.name: getattr(thing, f.name) for f in fields(thing)}
    elif isinstance(thing, Mapping):
        parts = dict(thing)
    elif isinstance(thing, tuple | list):
        parts = dict(enumerate(thing))
    else:
        yield key, thing
        return
    for name, part in parts.items():
        yield from _leaves(f"{key}/{name}", part)


def _kept(value: Any, given: Any) -> Any:
    if isinstance(value, np.ndarray):
        known = value is given or value.base is not None
        return read_only(value.copy() if known and value.flags.writeable else value)
    if isinstance(value, tuple) and any(isinstance(part, np.ndarray) for part in value):
        return tuple(_kept(part, own) for part, own in zip(value, given, strict=True))
    if isinstance(value, dict):
        return {name: _kept(part, given.get(name)) for name, part in value.items()}
    return value


def _one_line(noun: Any, within: bool = False) -> str:
    """Return the fields of a noun; of one within another the first and those of a single value."""
    own = {field.name: getattr(noun, field.name) for field in fields(noun) if field.repr}
    shown = {
        name: _short(value)
        for number, (name, value) in enumerate(own.items())
        if not (within and number) or isinstance(value, str | int | float)
    }
    texts = (f"{name}={text}" for name, text in shown.items() if text)
    return f"{type(noun).__name__}({', '.join(texts)})"


def _short(value: Any) -> str:
    """Return a value as names, shapes and counts; an empty text if there is nothing to say."""
    if hasattr(value, "shape"):
        return str(tuple(value.shape))
    if is_dataclass(value):
        return _one_line(value, within=True)
    if isinstance(value, tuple | list | Mapping):
        parts = [getattr(part, "name", getattr(part, "shape", part)) for part in value]
        if any(map(is_dataclass, parts)):
            return f"{len(parts)} {type(parts[0]).__name__}"
        more = f", ... {len(parts)}" if len(parts) > _SHOWN else ""
        return f"[{', '.join(map(repr, parts[:_SHOWN]))}{more}]" if parts else ""
    return "" if value is None else repr(value)
