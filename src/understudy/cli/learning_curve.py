"""`understudy learning-curve`: how many poses would an error need?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from understudy.cli.fit import refuse_swapped
from understudy.cli.job_folder import JobFolder, source_facts
from understudy.cli.learn import name_of_source
from understudy.cli.options import (
    FrameRate,
    Rest,
    Seed,
    Settings,
    Unit,
    UpAxis,
    read_options,
    settings_of,
)
from understudy.cli.output import write_json
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses
from understudy.core.terminal_progress import TerminalProgress
from understudy.evaluation.learning_curve import LearningCurve, block_errors
from understudy.evaluation.learning_curve_picture import write_picture
from understudy.evaluation.measure import pose_errors
from understudy.evaluation.pictures import need_drawing
from understudy.io.registry import read_poses, source_provenance
from understudy.methods.auto.budget import distance_of
from understudy.methods.fitting import FitJob, fit_poses, refuse_poses
from understudy.methods.held_out import nested_subsets, split_poses
from understudy.methods.registry import method_type

SMALLEST = 40  # poses of the first fit


def learning_curve(
    method: Annotated[str, typer.Argument(help="corrected_skin, fdda, ...")],
    source: Annotated[
        list[str], typer.Argument(help="A pose store (.zarr) or recorded poses, as for `fit`.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for fits, figures and picture.")],
    max_error: Annotated[
        str | None,
        typer.Option(help="Mean error to reach: 0.5mm, 0.02% (of the height), or a number."),
    ] = None,
    fits: Annotated[
        int, typer.Option(min=3, max=12, help="Fits, each to about twice as many poses.")
    ] = 4,
    held_out: Annotated[
        list[str], typer.Option(help="Clip to measure on instead of fitting it; repeat it.")
    ] = [],  # noqa: B006
    rig: Annotated[
        str, typer.Option(help="Live rig, as for `fit`: auto (the sampled one), none, or a rig.")
    ] = "auto",
    settings: Settings = [],  # noqa: B006
    seed: Seed = 0,
    up: UpAxis = None,
    unit: Unit = None,
    frame_rate: FrameRate = None,
    rest: Rest = None,
) -> None:
    """Say how many poses an error would need.

    A method is fitted to more and more of the poses (whole clips where there are several), each fit
    is measured on poses that took no part, and a power law is laid through the errors. The picture
    shows the range of the laws that explain them. If it is interrupted, run the same command again:
    it resumes.
    """
    refuse_swapped(method, source)
    need_drawing()
    progress = TerminalProgress()
    poses = read_poses(source, read_options(up, unit, frame_rate, rest), progress)
    refuse_poses(method_type(method), poses)
    if poses.skeleton is None and poses.controls is None:
        raise InputError("a mesh sequence has no poses to hold out; give poses with bones")
    target = None if max_error is None else distance_of(max_error, poses.mesh)
    split = split_poses(poses, held_out)
    subsets = nested_subsets(split.fit, fits, SMALLEST)
    facts = {
        "command": "learning-curve",
        "method": method,
        "source": source_facts(source),
        "held_out": list(held_out),
        "settings": settings_of(settings),
        "seed": seed,
    }
    folder = JobFolder(out, name_of_source(source), facts)
    made_by = source_provenance(source)
    rows = []
    for chosen in subsets:
        file = folder.path / f"{method}-{len(chosen)}.understudy"
        options = {"seed": str(seed), **settings_of(settings)}

        def work(file: Path = file, chosen: np.ndarray = chosen, options=options) -> None:
            job = FitJob.of(method, file, options)
            part = split.fit.take(chosen)
            job.write(fit_poses(job, part, made_by, rig, progress=progress))

        folder.step(f"fit {len(chosen)}", [file], work)
        errors = [pose_errors(Deformer.load(file), test) for test in split.held_out.values()]
        rows.append(block_errors(np.concatenate(errors)))
        print(f"{len(chosen)} poses: {rows[-1].mean():.4g} {poses.mesh.unit}")
    curve = LearningCurve.of([len(chosen) for chosen in subsets], np.stack(rows), seed)
    print(split.note)
    if target is not None:
        print(curve.sentence(target, poses.mesh.unit))
    elif curve.laws:
        twice = 2 * curve.counts[-1]
        low, middle, high = curve.band(np.array([twice]))[:, 0]
        print(
            f"{int(twice):,} poses would have {middle:.3g} {poses.mesh.unit} ({low:.3g} to "
            f"{high:.3g}); --max-error asks how many an error needs"
        )
    _write(folder.path, curve, poses, target)
    print(f"Written to {folder.path}: learning_curve.png, learning_curve.json")


def _write(folder: Path, curve: LearningCurve, poses: Poses, target: float | None) -> None:
    """Write the figures and the picture."""
    content: dict = {
        "unit": poses.mesh.unit,
        "poses": [int(count) for count in curve.counts],
        "mean": [float(error) for error in curve.means],
    }
    if target is not None and curve.laws:
        found = curve.needed(target)
        finite = lambda value: None if np.isinf(value) else value
        content["max_error"] = target
        content["needed"] = {
            name: finite(getattr(found, name)) for name in ("low", "middle", "high")
        }
    write_json(folder / "learning_curve.json", content)
    write_picture(folder / "learning_curve.png", curve, poses.mesh.unit, target)
