"""What the commands print and write: tables, sizes and JSON."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from understudy.core.deformer import Deformer
from understudy.evaluation.metric_catalogue import size_text
from understudy.evaluation.report import figures_table
from understudy.evaluation.result import CaseResult
from understudy.io.atomic_write import atomic_write
from understudy.runtime.native import runtime_of

_FILE_WIDTH = 200  # columns of a table that does not go to a terminal: enough for every figure


def print_table(results: Sequence[CaseResult], unit: str, title: str, size: str = "height") -> None:
    """Print one row for each case and method.

    unit  of the mesh
    size  what percentages refer to: `Mesh.size_label`
    """
    width = None if sys.stdout.isatty() else _FILE_WIDTH
    Console(width=width).print(figures_table(results, unit, title, size))


def file_text(file: Path, deformer: Deformer) -> str:
    """The size of a file, in what numbers, and the size of its mesh, for a user to read."""
    count = deformer.mesh.vertex_count
    return f"{size_text(file.stat().st_size)}, {deformer.storage}, {count} vertices"


def read_per_pose(deformer: Deformer) -> int | None:
    """The bytes that the runtime reads for one pose; None: the package has no compiled runtime."""
    runtime = runtime_of(deformer)
    return None if runtime is None else runtime.bytes


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write `content`; a number that is infinite or undefined becomes null."""
    text = json.dumps(_finite_or_null(content), indent=1, allow_nan=False)
    with atomic_write(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def _finite_or_null(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite_or_null(value) for name, value in content.items()}
    if isinstance(content, list):
        return [_finite_or_null(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def file_size(path: Path) -> int:
    """The bytes of a file with its animation layer, or of all files in a folder or sequence."""
    if path.is_dir():
        files = [part for part in path.rglob("*") if part.is_file()]
    elif path.is_file():
        files = [path, path.with_name(f"{path.stem}.anim.usdc")]  # the second: see io.usd.writing
    else:
        frames = re.sub("#+", "*", path.name if "#" in path.name else f"{path.stem}_#{path.suffix}")
        files = list(path.parent.rglob(frames))
    return sum(file.stat().st_size for file in files if file.is_file())
