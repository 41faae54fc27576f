"""`Errors`: what an export loses, for each clip in the unit of the mesh, and how users read it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from understudy.core.character import Character
from understudy.core.error_summary import ErrorSummary
from understudy.evaluation.metric_catalogue import digits3

Part = Literal["skin", "export", "deformer"]
Against = Literal["deformer", "original"]
AGAINST = {"deformer": "the .understudy file", "original": "the original"}


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


def about_lines(character: Character, errors: Errors) -> list[str]:
    """What a file holds, and its errors, as lines."""
    mesh, shapes = character.mesh, character.shapes
    lines = [f"mesh         {mesh.vertex_count} vertices"]
    if character.clips and all(clip.vertices is not None for clip in character.clips):
        lines.append("vertices     of every frame")
    elif character.skin is not None:
        lines.append(
            f"skin         {character.bone_count} joints, up to {character.skin.influences} per "
            "vertex"
        )
    if shapes:
        moved = sum(len(shape.vertices) for shape in shapes) / len(shapes) / mesh.vertex_count
        lines.append(f"blend shapes {len(shapes)}, each of {100 * moved:.0f} % of the vertices")
    for clip in character.clips:
        frames = "1 frame" if clip.frame_count == 1 else f"{clip.frame_count} frames"
        lines.append(f"clip         {clip.name}: {frames} at {clip.frame_rate:g} per second")
    return [*lines, *error_lines(character, errors), *errors.notes]


def error_lines(character: Character, errors: Errors) -> list[str]:
    """The errors as the lines of a table."""
    labels = _part_labels(character)
    rows = [row for row in errors.rows if row.part in labels]
    if not rows:
        return []
    unit = "model units" if errors.unit == "unitless" else errors.unit
    several = len({row.clip for row in rows}) > 1
    what = [
        f"{f'{row.clip}: ' if several else ''}{labels[row.part]} against {AGAINST[row.against]}"
        for row in rows
    ]
    title = f"errors in {unit}"
    width = max(map(len, [*what, title]))
    head = f"{title:{width}}  {'mean':>9}  {'p99':>9}  {'max':>9}"
    numbers = [[digits3(value) for value in (r.mean, r.p99, r.max)] for r in rows]
    table = [
        f"{text:{width}}  {mean:>9}  {p99:>9}  {most:>9}"
        for text, (mean, p99, most) in zip(what, numbers)
    ]
    return [head, *table]


def _part_labels(character: Character) -> dict[str, str]:
    """What to call the parts of `Errors`. Without blend shapes, the skin is the whole export."""
    deformer = {"deformer": "the .understudy file"}
    if not character.shapes:
        return {"export": "skin" if character.skin is not None else "rest shape", **deformer}
    if character.skin is None:
        return {"skin": "rest shape", "export": "blend shapes", **deformer}
    return {"skin": "skin alone", "export": "skin and blend shapes", **deformer}
