"""`Errors`: what an export loses, stated for each clip in the unit of the mesh."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from understudy.core.error_summary import ErrorSummary

Part = Literal["skin", "export", "deformer"]
Against = Literal["deformer", "original"]


@dataclass(frozen=True)
class ErrorRow:
    """Distances over the frames of one clip, in the unit of the mesh.

    clip     its name
    part     what is measured: "skin" (the exported skin alone), "export" (skin and blend shapes),
             or "deformer"
    against  "deformer", or "original": the rig or the recorded poses
    mean, p99, max
    """

    clip: str
    part: Part
    against: Against
    mean: float
    p99: float
    max: float


@dataclass(frozen=True)
class Errors:
    """What an export loses.

    rows   one for each clip and comparison
    unit   of the mesh
    notes  sentences on what was changed to fit the engines' form
    """

    rows: tuple[ErrorRow, ...]
    unit: str
    notes: tuple[str, ...] = ()

    def of(self, part: Part, against: Against, clip: str | None = None) -> ErrorRow:
        """Return one row; the first clip's by default. A missing row is a `KeyError`."""
        for row in self.rows:
            if row.part == part and row.against == against and clip in (None, row.clip):
                return row
        raise KeyError(f"no error of the {part} against the {against}")

    def json(self) -> dict[str, Any]:
        """Return the same as plain data, for a JSON file."""
        rows = [asdict(row) for row in self.rows]
        return {"unit": self.unit, "rows": rows, "notes": list(self.notes)}


def error_row(
    clip: str, part: Part, against: Against, true: np.ndarray, approx: np.ndarray
) -> ErrorRow:
    """Return the distances between two arrays (F,V,3)."""
    summary = ErrorSummary()
    for start in range(0, len(true), 32):
        summary.add(true[start : start + 32], approx[start : start + 32])
    return ErrorRow(clip, part, against, summary.mean, summary.p99, summary.max)
