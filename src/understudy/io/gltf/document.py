"""The JSON of a glTF file, read field by field with checks that name the field."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.system.errors import FileError

_REQUIRED: Any = object()
# No array of a real file has more entries; JSON of this size is refused before it is walked.
MAX_INTEGER = 2**53


@dataclass(frozen=True)
class Entry:
    """One JSON object of the file.

    data   its fields
    where  where it is, for errors: "hero.glb: nodes[3]"
    """

    data: dict[str, Any]
    where: str

    def has(self, key: str) -> bool:
        """Return whether the field is there."""
        return key in self.data

    def wrong(self, key: str, problem: str) -> FileError:
        """Return the error that says what is wrong with a field."""
        return FileError(f"{self.where}.{key}: {problem}")

    def integer(self, key: str, default: Any = _REQUIRED, below: int = MAX_INTEGER) -> Any:
        """Return a whole number from 0 to `below` - 1, or `default` where the field is absent."""
        if key not in self.data and default is not _REQUIRED:
            return default
        return self._index(key, self._get(key), below)

    def integers(self, key: str, below: int = MAX_INTEGER) -> list[int]:
        """Return a list of whole numbers from 0 to `below` - 1; empty where it is absent."""
        return [self._index(key, value, below) for value in self._list(key)]

    def number(self, key: str) -> float:
        """Return a finite number."""
        return self._number(key, self._get(key))

    def numbers(self, key: str, count: int) -> np.ndarray | None:
        """Return a list of exactly `count` finite numbers, (count,) float64; None: absent."""
        if key not in self.data:
            return None
        values = self._list(key)
        if len(values) != count:
            raise self.wrong(key, f"expected {count} numbers, got {len(values)}")
        return np.array([self._number(key, value) for value in values], np.float64)

    def text(self, key: str, default: str = "") -> str:
        """Return a text without control characters, or `default` where it is absent."""
        value = self.data.get(key, default)
        if not isinstance(value, str):
            raise self.wrong(key, f"expected a text, got {_shown(value)}")
        return clean_text(value)

    def texts(self, key: str) -> list[str]:
        """Return a list of texts; empty where it is absent."""
        values = self._list(key)
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(key, "expected a list of texts")
        return [clean_text(value) for value in values]

    def entry(self, key: str) -> Entry | None:
        """Return an object inside this one; None where it is absent."""
        if key not in self.data:
            return None
        return self._entry(self.data[key], f"{self.where}.{key}")

    def entries(self, key: str) -> list[Entry]:
        """Return a list of objects; empty where it is absent."""
        return [
            self._entry(value, f"{self.where}.{key}[{number}]")
            for number, value in enumerate(self._list(key))
        ]

    def rows(self, key: str, count: int) -> np.ndarray:
        """Return a list of lists, each of `count` whole numbers, (n,count) int64."""
        result = []
        for value in self._list(key):
            if not isinstance(value, list) or len(value) != count:
                raise self.wrong(key, f"expected lists of {count} numbers, got {_shown(value)}")
            result.append([self._index(key, number, MAX_INTEGER) for number in value])
        return np.array(result, np.int64).reshape(-1, count)

    def _get(self, key: str) -> Any:
        if key not in self.data:
            raise self.wrong(key, "is missing")
        return self.data[key]

    def _list(self, key: str) -> list[Any]:
        value = self.data.get(key, [])
        if not isinstance(value, list):
            raise self.wrong(key, f"expected a list, got {_shown(value)}")
        return value

    def _entry(self, value: Any, where: str) -> Entry:
        if not isinstance(value, dict):
            raise FileError(f"{where}: expected an object, got {_shown(value)}")
        return Entry(value, where)

    def _index(self, key: str, value: Any, below: int) -> int:
        # Some exporters write whole numbers as 3.0.
        if isinstance(value, float) and value.is_integer() and abs(value) < MAX_INTEGER:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, f"expected a whole number, got {_shown(value)}")
        if not 0 <= value < below:
            range_ = f"from 0 to {below - 1}" if below else "(there is none to refer to)"
            raise self.wrong(key, f"expected a number {range_}, got {_shown(value)}")
        return value

    def _number(self, key: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, f"expected a number, got {_shown(value)}")
        try:
            result = float(value)
        except OverflowError:
            result = math.inf
        if not math.isfinite(result):
            raise self.wrong(key, "expected a finite number")
        return result


def clean_text(text: str) -> str:
    """Return a text without control characters and halves of surrogate pairs.

    >>> clean_text("a\\n b\\x1b[31m")
    'a b[31m'
    """
    return re.sub("[\0-\x1f\x7f-\x9f\ud800-\udfff]", "", text)


def _shown(value: Any) -> str:
    """Return a value as short text, for an error."""
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return "a huge number"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else f"a list of {len(value)}"
    return repr(value)[:60]
