"""Every input check in one place: each names the argument, says what arrived and what was expected.

All functions return the checked (and, where stated, converted) value, so that a check reads as an
assignment. Letters as everywhere: T poses, V vertices, F faces, B bones, C controls.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import numpy as np

from understudy.core.errors import InputError


def array(value, name: str, shape: Sequence[int | None], dtype=np.float32) -> np.ndarray:
    """`value` as a C-contiguous array of `dtype` whose shape matches `shape` (None: any length) and
    whose floats are finite.

    >>> array([[0, 1, 2]], "points", (None, 3)).shape
    (1, 3)
    """
    return finite(array_of(value, name, shape, dtype), name)


def array_of(value, name: str, shape: Sequence[int | None], dtype=np.float32) -> np.ndarray:
    """As `array`, for numbers whose finiteness is checked elsewhere."""
    try:
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
    """Raise unless `value.shape` matches `shape`, where None stands for any length."""
    fits = value.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(value.shape, shape)
    )
    if not fits:
        raise InputError(
            f"{name}: expected shape {_shape_text(shape)}, got {_shape_text(value.shape)}"
        )
    return value


def finite(value: np.ndarray, name: str) -> np.ndarray:
    """Raise if a float array holds NaN or infinity, naming the first such place."""
    if value.dtype.kind == "f" and value.size and not np.isfinite(value).all():
        bad = ~np.isfinite(value)
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"{name}: {int(bad.sum())} of {value.size} numbers are NaN or infinite, the first at "
            f"index {first}; "
            "remove or repair those poses before fitting"
        )
    return value


def index(
    value, name: str, size: int, shape: Sequence[int | None] = (None,), dtype=np.int32
) -> np.ndarray:
    """`value` as integer indices into something of length `size`."""
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
    """Raise unless the numbers of `value` are of NumPy's `kind`: "i" whole, "f" floats."""
    if value.dtype.kind != kind:
        raise InputError(f"{name}: numbers of type {value.dtype.name} were not expected")
    return value


def within(value: np.ndarray, name: str, dtype) -> np.ndarray:
    """Whole numbers as `dtype`, which must hold them."""
    if value.size and (value.min() < np.iinfo(dtype).min or value.max() > np.iinfo(dtype).max):
        raise InputError(f"{name}: a number is beyond {np.dtype(dtype).name}")
    return value.astype(dtype)


def one_of(value: str, name: str, choices: Iterable[str]) -> str:
    """Raise unless `value` is one of `choices`; the message offers the nearest one.

    >>> one_of("fdda", "method", ["fdda", "lbs"])
    'fdda'
    """
    known = sorted(choices)
    if value in known:
        return value
    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(f"unknown {name} {value!r}{hint} (known: {', '.join(known) or 'none'})")


def between(
    value: float,
    name: str,
    low: float | None = None,
    high: float | None = None,
    *,
    above: float | None = None,
) -> float:
    """A finite number in [low, high], and greater than `above` where that is given."""
    number = float(value)
    wanted = " and ".join(
        text
        for text, given in (
            (f"at least {low}", low),
            (f"at most {high}", high),
            (f"above {above}", above),
        )
        if given is not None
    )
    wrong = (
        not np.isfinite(number)
        or (low is not None and number < low)
        or (high is not None and number > high)
        or (above is not None and number <= above)
    )
    if wrong:
        raise InputError(f"{name}: expected a number {wanted}, got {value!r}")
    return value


def names(value: Iterable[str], name: str, count: int | None = None) -> tuple[str, ...]:
    """Distinct, non-empty strings; `count` of them where it is given."""
    result = tuple(str(item) for item in value)
    if count is not None and len(result) != count:
        raise InputError(f"{name}: expected {count} names, got {len(result)}")
    if len(set(result)) != len(result):
        twice = next(item for item in result if result.count(item) > 1)
        raise InputError(f"{name}: the name {twice!r} stands twice")
    if "" in result:
        raise InputError(f"{name}: name number {result.index('')} is empty")
    return result


def same_count(have: int, want: int, what: str, have_name: str, want_name: str) -> None:
    """Raise unless two things that must fit together have the same number of `what`."""
    if have != want:
        raise InputError(
            f"{have_name} has {have} {what}, {want_name} has {want}: they do not belong together"
        )


def _shape_text(shape: Sequence[int | None]) -> str:
    return (
        "("
        + ", ".join("any" if n is None else str(n) for n in shape)
        + ("," if len(shape) == 1 else "")
        + ")"
    )
