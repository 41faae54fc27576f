"""JSON files, and the sizes of what was written."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from understudy.io.atomic_write import atomic_write
from understudy.system.errors import InputError


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content`; a number that is infinite or undefined becomes null."""
    text = json.dumps(_finite_or_null(content), indent=1, allow_nan=False)
    with atomic_write(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def _finite_or_null(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {name: _finite_or_null(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite_or_null(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def without_repeats(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, in which no key is given twice: `object_pairs_hook` of `loads`."""
    result: dict[str, Any] = {}
    for name, value in pairs:
        if name in result:
            raise InputError(f"its JSON has the key {name!r} twice")
        result[name] = value
    return result


def file_size(path: Path) -> int:
    """The bytes of a file with its animation layer, or of all files in a folder or sequence."""
    return sum(file.stat().st_size for file in files_of(path))


def files_of(path: Path) -> list[Path]:
    """A file with its animation layer, or all files in a folder or sequence, in order."""
    files: Iterable[Path]
    if path.is_dir():
        files = path.rglob("*")
    elif path.is_file():
        files = [path, path.with_name(f"{path.stem}.anim.usdc")]  # see io.usd.writing
    else:
        frames = re.sub("#+", "*", path.name if "#" in path.name else f"{path.stem}_#{path.suffix}")
        files = path.parent.rglob(frames)
    return sorted(file for file in files if file.is_file())


def file_hash(path: Path) -> str:
    """Sixteen hexadecimal digits that differ between two files."""
    import hashlib  # slow to import, and players need no hashes

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
