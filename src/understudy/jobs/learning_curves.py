"""`learning_curve`: how the error falls with the number of poses, and how many an error needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.evaluation.learning_curve import LearningCurve, block_errors, write_picture
from understudy.evaluation.measure import pose_errors
from understudy.evaluation.shading import need_drawing
from understudy.io.files import write_json
from understudy.io.registry import ReadOptions
from understudy.jobs.fitting import RIG_OF_POSES, Fit, Options, method_with, refuse_poses
from understudy.jobs.folder import JobFolder
from understudy.jobs.source import Place, PosesSource, Source, read
from understudy.jobs.split import nested_subsets, split_poses
from understudy.methods.auto.budget import distance_of
from understudy.rigs.base import Rig
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

SMALLEST = 40  # poses of the first fit


@dataclass(frozen=True, eq=False)
class CurveFound:
    """What `learning_curve` found.

    curve   the errors and the laws through them
    unit    of the errors
    target  the error that was asked about, in that unit; or None
    note    which poses it was measured on
    """

    curve: LearningCurve
    unit: str
    target: float | None
    note: str

    def sentence(self) -> str:
        """How many poses the error needs, or what twice as many poses would bring."""
        curve = self.curve
        if self.target is not None:
            return curve.sentence(self.target, self.unit)
        if not curve.laws:
            return ""
        twice = 2 * curve.counts[-1]
        low, middle, high = curve.band(np.array([twice]))[:, 0]
        return (
            f"{int(twice):,} poses would have {middle:.3g} {self.unit} ({low:.3g} to {high:.3g}); "
            "--max-error asks how many an error needs"
        )

    def json(self) -> dict[str, Any]:
        """The figures as plain data."""
        curve = self.curve
        content: dict[str, Any] = {
            "unit": self.unit,
            "poses": [int(count) for count in curve.counts],
            "mean": [float(error) for error in curve.means],
        }
        if self.target is not None and curve.laws:
            found = curve.needed(self.target)
            content["max_error"] = self.target
            content["needed"] = {"low": found.low, "middle": found.middle, "high": found.high}
        return content


@checks.typed
def learning_curve(
    method: str,
    source: Source | Poses | Place | Sequence[Place],
    out: str | Path,
    *,
    max_error: str | None = None,
    fits: int = 4,
    held_out: Sequence[str] = (),
    rig: Rig | str | None = RIG_OF_POSES,
    options: Options | None = None,
    seed: int = 0,
    overwrite: bool = False,
    reading: ReadOptions | None = None,
    progress: Progress = SILENT,
) -> CurveFound:
    """Fit a method to more and more poses, and lay a power law through the errors.

    source     poses with bones or controls
    out        folder for fits, figures and picture; an interrupted call continues
    max_error  mean error to reach: 0.5mm, 0.02% (of the height), or a number in model units
    fits       each to about twice as many poses as the one before
    held_out   clips to measure on; empty: chosen
    rig        as in `Fit.run`
    overwrite  start anew in a folder that holds another job
    """
    need_drawing()
    kind = type(method_with(method, options or {}))
    source = read(source, reading, progress=progress)
    if not isinstance(source, PosesSource):
        raise InputError(
            f"{source.name!r} has no recorded poses to hold out; give poses with bones or controls"
        )
    poses = source.poses
    refuse_poses(kind, poses)
    target = None if max_error is None else distance_of(max_error, poses.mesh)
    split = split_poses(poses, held_out)
    facts = {
        "command": "learning-curve",
        "method": method,
        **source.facts,
        "held_out": list(held_out),
        "settings": {name: str(value) for name, value in (options or {}).items()},
        "seed": seed,
    }
    folder = JobFolder(Path(out), source.name, facts, overwrite)
    chosen = {"seed": seed, **(options or {})}
    counts, rows = [], []
    for subset in nested_subsets(split.fit, fits, SMALLEST):
        file = folder.path / f"{method}-{len(subset)}.understudy"
        fitting = partial(Fit.of, method, file, chosen)

        def work(fitting: partial[Fit] = fitting, subset: np.ndarray = subset) -> None:
            one = fitting()
            one.write(one.run(split.fit.take(subset), source.made_by, rig, progress=progress))

        folder.step(f"fit {len(subset)}", [file], work)
        errors = [pose_errors(Deformer.load(file), test) for test in split.held_out.values()]
        counts.append(len(subset))
        rows.append(block_errors(np.concatenate(errors)))
        progress.say(f"{len(subset)} poses: {rows[-1].mean():.4g} {poses.mesh.unit}")
    curve = LearningCurve.of(counts, np.stack(rows), seed)
    found = CurveFound(curve, poses.mesh.unit, target, split.note)
    write_json(folder.path / "learning_curve.json", found.json())
    write_picture(folder.path / "learning_curve.png", curve, poses.mesh.unit, target)
    return found
