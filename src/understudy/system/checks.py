"""Checks of arguments. Each error names the argument, what arrived and what was expected.

Every function returns the value it checked, converted where stated. Letters of axes: T poses, V
vertices, F faces, B bones, C controls.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from understudy.system.errors import InputError

_UNIONS = (types.UnionType, typing.Union)
_P = ParamSpec("_P")
_R = TypeVar("_R")
_LONGEST = 200  # text of a value in an error


def array(
    value: Any, name: str, shape: Sequence[int | None], dtype: Any = np.float32
) -> np.ndarray:
    """Return `value` as a C-contiguous array of `dtype` and `shape`, of finite numbers.

    name   of the argument, for the error
    shape  its length along each axis; None: any length

    >>> array([[0, 1, 2]], "points", (None, 3)).shape
    (1, 3)
    """
    return finite(array_of(value, name, shape, dtype), name)


def array_of(
    value: Any, name: str, shape: Sequence[int | None], dtype: Any = np.float32
) -> np.ndarray:
    """Return the same as `array`, without the check for NaN and infinity."""
    try:
        with np.errstate(all="ignore"):  # too large for `dtype`: infinite, which `finite` finds
            result = np.ascontiguousarray(value, dtype=dtype)
    except (TypeError, ValueError) as problem:
        raise InputError(
            f"{name}: cannot be read as an array of {np.dtype(dtype).name}: {problem}"
        ) from problem
    if np.ndim(value) == 0 and len(shape):  # ascontiguousarray turns a scalar into (1,)
        raise InputError(
            f"{name}: expected shape {_shape_text(shape)}, got a single value {value!r}"
        )
    return shape_of(result, name, shape)


def shape_of(value: np.ndarray, name: str, shape: Sequence[int | None]) -> np.ndarray:
    """Return `value` if its shape is `shape`; None there means any length."""
    fits = value.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(value.shape, shape)
    )
    if not fits:
        raise InputError(
            f"{name}: expected shape {_shape_text(shape)}, got {_shape_text(value.shape)}"
        )
    return value


def finite(value: np.ndarray, name: str) -> np.ndarray:
    """Return `value` if it has neither NaN nor infinity; the error names the first place."""
    if value.dtype.kind == "f" and value.size and not np.isfinite(value).all():
        bad = ~np.isfinite(value)
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"{name}: {int(bad.sum())} of {value.size} numbers are NaN or infinite, the first at "
            f"index {first}; remove or repair those poses before fitting"
        )
    return value


def index(
    value: Any, name: str, size: int, shape: Sequence[int | None] = (None,), dtype: Any = np.int32
) -> np.ndarray:
    """Return `value` as indices, whole numbers from 0 to `size` - 1, of `dtype` and `shape`."""
    given = np.asarray(value)
    if given.size and given.dtype.kind not in "iu":
        raise InputError(f"{name}: expected whole numbers, got {given.dtype.name}")
    wide = np.ascontiguousarray(given, dtype=np.int64)
    shape_of(wide, name, shape)
    if wide.size and (wide.min() < 0 or wide.max() >= size):
        wrong = int(wide[(wide < 0) | (wide >= size)].flat[0])
        raise InputError(f"{name}: index {wrong} is outside 0..{size - 1}")
    return wide.astype(dtype)


def kind_of(value: np.ndarray, name: str, kind: str) -> np.ndarray:
    """Return `value` if its dtype is of NumPy's `kind`: "i" for whole numbers, "f" for floats."""
    if value.dtype.kind != kind:
        raise InputError(f"{name}: unexpected type {value.dtype.name}")
    return value


def within(value: np.ndarray, name: str, dtype: Any) -> np.ndarray:
    """Return whole numbers as `dtype`, if all of them fit."""
    if value.size and (value.min() < np.iinfo(dtype).min or value.max() > np.iinfo(dtype).max):
        raise InputError(f"{name}: a number does not fit {np.dtype(dtype).name}")
    return value.astype(dtype)


def one_of(value: str, name: str, choices: Iterable[str]) -> str:
    """Return `value` if it is one of `choices`; the error suggests the nearest one.

    >>> one_of("fdda", "method", ["fdda", "lbs"])
    'fdda'
    """
    known = sorted(choices)
    if value in known:
        return value
    import difflib  # slow to import, and used for mistakes alone

    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(f"unknown {name} {value!r}{hint} (known: {', '.join(known) or 'none'})")


def of_type(value: Any, name: str, hint: Any) -> Any:
    """Return `value` as the type that an annotation names.

    hint  int, float, bool, str, a Literal, `tuple[X, ...]`, or a union of these with None

    An int becomes a float where that is meant, and a list a tuple. Nothing else is converted.

    >>> of_type([64, 64], "hidden", tuple[int, ...]), of_type(1, "ridge", float | None)
    ((64, 64), 1.0)
    """
    kinds = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
    for kind in kinds:
        try:
            return _as_kind(value, kind)
        except TypeError:
            continue
    for kind in kinds:
        if typing.get_origin(kind) is typing.Literal and isinstance(value, str):
            return one_of(value, name, typing.get_args(kind))
    wanted = hint.__name__ if kinds[0] is hint and isinstance(hint, type) else str(hint)
    wanted = re.sub(r"[\w.]+\.(?=\w)", "", wanted)  # names without their modules
    raise InputError(f"{name}: expected {wanted}, got {described(value)}")


def typed(job: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return `job` with each argument checked, by `of_type`, against its annotation."""
    parameters = inspect.signature(job).parameters

    @functools.wraps(job)
    def checked(*arguments: _P.args, **options: _P.kwargs) -> _R:
        for name in options:
            one_of(name, f"argument of {job.__name__}", parameters)
        given = inspect.signature(job).bind(*arguments, **options)
        hints = typing.get_type_hints(job)
        for name, value in given.arguments.items():
            given.arguments[name] = of_type(value, name, hints[name])
        return job(*given.args, **given.kwargs)

    return checked


def described(value: Any) -> str:
    """Return what an argument is, in a few words.

    >>> described(np.zeros((3, 4))), described(print), described("3")
    ('an array of shape (3, 4)', 'the function print', "'3'")
    """
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if inspect.isclass(value):
        return f"the class {value.__qualname__}"
    if inspect.isroutine(value):
        return f"the function {value.__qualname__}"
    shown = isinstance(value, str | bytes | int | float | tuple | list | dict | Path | None)
    if shown and len(repr(value)) < _LONGEST:
        return repr(value)
    return f"a {type(value).__qualname__}"


def _as_kind(value: Any, kind: Any) -> Any:
    """`value` as one type, or a `TypeError`."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    truth = isinstance(value, bool | np.bool_)
    if kind is bool and truth:
        return bool(value)
    if kind is int and isinstance(value, int | np.integer) and not truth:
        return int(value)
    if kind is float and isinstance(value, int | float | np.integer | np.floating) and not truth:
        return float(value)
    if origin is tuple and isinstance(value, tuple | list | range | np.ndarray):
        return tuple(_as_kind(part, parts[0]) for part in value)
    if origin is typing.Literal and isinstance(value, str | int | None) and value in parts:
        return value
    if kind in (bool, int, float) or origin in (tuple, typing.Literal):
        raise TypeError
    known = origin or kind
    if isinstance(value, str) and known is Sequence:
        raise TypeError  # a text is no sequence of texts
    if getattr(kind, "_is_protocol", False):
        return value
    # What else an annotation of a plug-in means is not known here.
    if kind is not Any and isinstance(known, type) and not isinstance(value, known):
        raise TypeError
    return value


def between(
    value: float,
    name: str,
    low: float | None = None,
    high: float | None = None,
    *,
    above: float | None = None,
) -> float:
    """Return `value` if it is finite, in [low, high] and greater than `above`."""
    number = float(value)
    fits = (
        np.isfinite(number)
        and (low is None or number >= low)
        and (high is None or number <= high)
        and (above is None or number > above)
    )
    if not fits:
        limits = {"at least": low, "at most": high, "above": above}
        given = [f"{text} {limit}" for text, limit in limits.items() if limit is not None]
        wanted = " and ".join(given)
        raise InputError(f"{name}: expected a number {wanted}, got {value!r}")
    return value


def distinct(value: np.ndarray, name: str) -> np.ndarray:
    """Return an array (n,) of integers, checked to be distinct."""
    if value.size > 1 and not (np.diff(value) > 0).all():  # most are sorted
        found, counts = np.unique(value, return_counts=True)
        if len(found) != len(value):
            raise InputError(f"{name}: {found[np.argmax(counts > 1)]} occurs more than once")
    return value


def full_text(value: Any, name: str) -> str:
    """Return `value` if it is a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{name}: expected a non-empty text, got {value!r}")
    return value


def names(value: Iterable[str], name: str, count: int | None = None) -> tuple[str, ...]:
    """Return distinct, non-empty strings; exactly `count` of them if it is given."""
    result = tuple(str(item) for item in value)
    if count is not None and len(result) != count:
        raise InputError(f"{name}: expected {count} names, got {len(result)}")
    if len(set(result)) != len(result):
        first = {item: place for place, item in reversed(list(enumerate(result)))}
        duplicate = next(item for place, item in enumerate(result) if first[item] != place)
        raise InputError(f"{name}: duplicate name {duplicate!r}")
    if any("\0" in item for item in result):
        raise InputError(f"{name}: a name contains a zero character, which C strings cannot hold")
    if "" in result:
        raise InputError(f"{name}: name number {result.index('')} is empty")
    return result


def same_count(have: int, want: int, what: str, have_name: str, want_name: str) -> None:
    """Raise unless two things that belong together have the same number of `what`."""
    if have != want:
        raise InputError(
            f"{have_name} has {have} {what}, {want_name} has {want}: they do not belong together"
        )


def _shape_text(shape: Sequence[int | None]) -> str:
    return str(tuple(shape)).replace("None", "any")
