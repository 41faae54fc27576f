"""`understudy compare`: several stand-ins of one character side by side, fitted here or before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.job_folder import JobFolder, source_facts
from understudy.cli.learn import name_of_source
from understudy.cli.measure import (
    Animation,
    CaseSet,
    Original,
    Outputs,
    PosesOption,
    Report,
    RigOption,
    cases_of_rig,
    load_deformers,
    measure_files,
    run,
)
from understudy.cli.options import (
    AUTO,
    FrameRate,
    Json,
    Rest,
    Seed,
    Unit,
    UpAxis,
    names_of,
    read_options,
)
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses
from understudy.core.terminal_progress import TerminalProgress
from understudy.evaluation.pictures import need_drawing
from understudy.io.registry import read_poses, source_provenance
from understudy.io.understudy_file import SUFFIX
from understudy.methods.fitting import FitJob, fit_poses, refuse_poses
from understudy.methods.held_out import split_poses
from understudy.methods.registry import method_type, methods_by_name
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.registry import is_rig, load_rig
from understudy.rigs.sampling import SamplePlan


def compare(
    source: Annotated[
        list[str],
        typer.Argument(
            help="Several .understudy files of one character; or what to fit methods to: a rig, a "
            "pose store, recorded poses or a mesh sequence."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for what is fitted here, and for the report."),
    ] = None,
    wanted: Annotated[
        str,
        typer.Option(
            "--methods",
            help="Methods to fit, separated by commas. Default: all that suit the source, without "
            "baselines and auto.",
        ),
    ] = "",
    count: Annotated[int, typer.Option(min=20, help="Poses to sample from a rig.")] = 3000,
    held_out: Annotated[
        list[str], typer.Option(help="Clip to measure on instead of fitting it; repeat it.")
    ] = [],  # noqa: B006
    seed: Seed = 0,
    rig: RigOption = None,
    poses: PosesOption = [],  # noqa: B006
    animation: Animation = [],  # noqa: B006
    report: Report = None,
    as_json: Json = None,
    up: UpAxis = None,
    unit: Unit = None,
    frame_rate: FrameRate = None,
    rest: Rest = None,
) -> None:
    """Measure several stand-ins side by side: errors, sizes, times.

    Of .understudy files, as `evaluate`. Of any other source, methods are fitted first, with their
    default options, and measured on animation that took no part; figures, a report with plots of
    error against cost, and the files go to one folder. If it is interrupted, run the same command
    again: it resumes.
    """
    fitted = [Path(one).suffix == SUFFIX for one in source]
    if all(fitted):
        if out is not None or wanted:
            raise InputError("--out and --methods: they fit a source, and these files are fitted")
        files = [Path(one) for one in source]
        run("compare", files, Original(rig, poses, animation), report, as_json)
        return
    if any(fitted):
        raise InputError("give .understudy files to compare, or a source to fit methods to")
    if rig is not None or poses:
        raise InputError("--rig and --poses: they measure .understudy files, and nothing is fitted")
    if out is None:
        raise InputError("--out is missing: the folder for what is fitted")
    need_drawing()
    facts = {
        "command": "compare",
        "source": source_facts(source),
        "count": count,
        "seed": seed,
        "held_out": list(held_out),
    }
    folder = JobFolder(out, name_of_source(source), facts)
    progress = TerminalProgress()
    if is_rig(source[0]):
        plan = SamplePlan(count, seed)
        lesson = rig_lesson(source, folder, plan, animation, progress)
    else:
        read = read_options(up, unit, frame_rate, rest)
        lesson = recorded_lesson(read_poses(source, read, progress), source, held_out)
    outputs = Outputs(
        f"understudy compare {' '.join(source)}",
        report or folder.path / "report.html",
        as_json or folder.path / "errors.json",
        times=True,
    )
    fit_and_measure(folder, lesson, names_of(wanted), seed, outputs, progress)


@dataclass(frozen=True, eq=False)
class Lesson:
    """What to fit, and what to measure on.

    poses    to fit
    made_by  their provenance
    cases    files with their deformers -> the cases to measure on
    """

    poses: Poses
    made_by: Mapping[str, Any]
    cases: Callable[[Mapping[Path, Deformer]], CaseSet]


def rig_lesson(
    source: Sequence[str],
    folder: JobFolder,
    plan: SamplePlan,
    animations: Sequence[str],
    progress: TerminalProgress,
) -> Lesson:
    """A sample of a rig, measured on its animations, or on other random poses."""
    if len(source) > 1:
        raise InputError("source: a rig is compared alone; give one")
    store = folder.path / "poses.zarr"

    def sample() -> None:
        sample_poses(source[0], plan, store, progress=progress)

    folder.step("sample", [store], sample)
    rig = load_rig(source[0])
    return Lesson(
        read_poses(str(store)),
        source_provenance(str(store)),
        lambda files: cases_of_rig(rig, animations, files),
    )


def recorded_lesson(poses: Poses, source: Sequence[str], held_out: Sequence[str]) -> Lesson:
    """Recorded poses, measured on those that are held out; a mesh sequence on itself."""
    made_by = source_provenance(source)
    if poses.skeleton is None and poses.controls is None:
        note = "Measured on the sequence itself."
        whole = CaseSet(poses.name, poses.mesh, {poses.name: poses}, [note])
        return Lesson(poses, made_by, lambda files: whole)
    split = split_poses(poses, held_out)
    parts = CaseSet(", ".join(split.held_out), poses.mesh, split.held_out, [split.note])
    return Lesson(split.fit, made_by, lambda files: parts)


def fit_and_measure(
    folder: JobFolder,
    lesson: Lesson,
    names: Sequence[str],
    seed: int,
    outputs: Outputs,
    progress: TerminalProgress,
) -> None:
    """Fit the methods `names`, or all that suit, one after the other, and measure them."""
    names = names or methods_for(lesson.poses)
    for name in names:
        refuse_poses(method_type(name), lesson.poses)
    files, seconds = [], {}
    for name in names:
        file = folder.path / f"{name}.understudy"
        work = partial(_fit, name, file, seed, lesson, progress)
        seconds[name] = folder.step(f"fit {name}", [file], work)["seconds"]
        files.append(file)
    deformers = {file: Deformer.load(file) for file in files}
    # `auto` hands back a file of the method that it chose.
    labels = dict(zip(names, load_deformers(files)))
    took = {labels[name]: value for name, value in seconds.items()}
    measure_files(files, lesson.cases(deformers), outputs, progress, took)


def methods_for(poses: Poses) -> list[str]:
    """The methods that suit some poses, without baselines and `auto`.

    >>> from understudy.rigs import load_rig
    >>> tube = load_rig("tube")
    >>> methods_for(tube.evaluate(tube.controls.rest[None]))
    ['corrected_skin', 'fdda', 'differential', 'lbs']
    """
    found = {
        name: kind.traits
        for name, kind in methods_by_name()[0].items()
        if not kind.traits.baseline and name != AUTO
    }
    if poses.skeleton is None and poses.controls is None:
        return [name for name, traits in found.items() if traits.takes_sequences]
    return [
        name
        for name, traits in found.items()
        if not traits.takes_sequences and (poses.skeleton is not None or traits.controls_suffice)
    ]


def _fit(method: str, file: Path, seed: int, lesson: Lesson, progress: TerminalProgress) -> None:
    job = FitJob.of(method, file, {"seed": str(seed)})
    job.write(fit_poses(job, lesson.poses, lesson.made_by, progress=progress))
