"""`compare`: several methods fitted to one source, measured side by side on what was held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from understudy.core.noun import OneLine
from understudy.core.poses import Poses
from understudy.evaluation.shading import need_drawing
from understudy.io.registry import ReadOptions
from understudy.jobs.fitting import (
    Fit,
    method_with,
    refuse_found_bones,
    refuse_poses,
)
from understudy.jobs.folder import JobFolder
from understudy.jobs.learning import AUTO, Lesson, recorded, sample_rig
from understudy.jobs.measuring import Measured, Outputs, measure
from understudy.jobs.planning import POSES, plan_for
from understudy.jobs.source import (
    CharacterSource,
    Place,
    PosesSource,
    RigSource,
    SequenceSource,
    Source,
    read,
)
from understudy.jobs.split import check_held_out
from understudy.methods.base import Method
from understudy.methods.fit_arguments import is_sequence
from understudy.methods.registry import methods_by_name
from understudy.rigs.base import Rig
from understudy.rigs.sampling import SamplePlan
from understudy.system import checks
from understudy.system.progress import SILENT, Progress
from understudy.viewer.subjects import load_subjects


@dataclass(frozen=True, eq=False, repr=False)
class Compared(OneLine):
    """What was compared.

    files     method -> its stand-in
    measured  one row for each case and method
    """

    files: dict[str, Path]
    measured: Measured


@checks.typed
def compare(
    source: Source | Rig | Poses | Place | Sequence[Place],
    out: str | Path,
    *,
    methods: Sequence[str | Method] = (),
    count: int = POSES,
    plan: SamplePlan | None = None,
    held_out: Sequence[str] = (),
    seed: int = 0,
    overwrite: bool = False,
    outputs: Outputs | None = None,
    reading: ReadOptions | None = None,
    progress: Progress = SILENT,
) -> Compared:
    """Fit several methods to one source, and measure them on animation that took no part.

    source    what `read` takes, or returned
    out       folder for what is fitted, the report and the figures; an interrupted call continues
    methods   empty: all that suit the source, without baselines and `auto`
    count     of poses to sample from a rig
    plan      which poses of a rig to sample; None: what suits the rig (`jobs/planning.py`)
    held_out  animations of a rig, or recorded clips, to measure on; empty: chosen
    overwrite  start anew in a folder that holds another job
    outputs   None: `report.html` and `errors.json` in `out`
    """
    need_drawing()
    for method in methods:
        method_with(method, {})  # refuses unknown names before any work
    source = read(source, reading, progress=progress)
    if isinstance(source, RigSource):
        check_held_out(source.rig, held_out)
        plan = plan or plan_for(source.rig, count, seed, held_out)
    if isinstance(source, CharacterSource):
        source = source.recorded()
    if not isinstance(source, SequenceSource):
        for method in methods:
            refuse_found_bones(type(method_with(method, {})), source.name)
    facts = {
        "command": "compare",
        **source.facts,
        "seed": seed,
        "plan": plan.facts() if isinstance(source, RigSource) and plan else None,
        "held_out": list(held_out),
    }
    folder = JobFolder(Path(out), source.name, facts, overwrite)
    if isinstance(source, RigSource) and plan is not None:
        lesson = sample_rig(source, folder, plan, held_out, progress=progress)
    else:
        assert isinstance(source, PosesSource | SequenceSource)
        lesson = recorded(source, held_out)
    chosen = {
        method if isinstance(method, str) else method.name: method
        for method in methods or methods_for(lesson.poses)
    }
    for method in chosen.values():
        refuse_poses(type(method_with(method, {})), lesson.poses)
    files, seconds = {}, {}
    for name, method in chosen.items():
        file = files[name] = folder.path / f"{name}.understudy"
        work = partial(_fit, method, file, seed, lesson, progress)
        seconds[name] = folder.step(f"fit {name}", [file], work)["seconds"]
    lesson.add_own(folder, files)
    subjects = load_subjects(list(files.values()))
    # `auto` hands back a file of the method that it chose.
    labels = dict(zip(files, (subject.label for subject in subjects)))
    took = {labels[name]: value for name, value in seconds.items()}
    given = outputs or Outputs()
    outputs = replace(
        given,
        command=given.command or f"understudy compare {source.name}",
        report=given.report or folder.path / "report.html",
        json=given.json or folder.path / "errors.json",
        times=True,
    )
    measured = measure(subjects, lesson.trial(subjects), outputs, took, progress)
    return Compared(files, measured)


def methods_for(poses: Poses) -> list[str]:
    """The methods that suit some poses, without baselines and `auto`.

    >>> from understudy.rigs import load_rig
    >>> tube = load_rig("tube")
    >>> methods_for(tube.evaluate(tube.controls.rest[None]))
    ['corrected_skin', 'fdda', 'differential', 'lbs']
    """
    bare = is_sequence(poses)
    suits = lambda traits: (
        traits.takes_sequences == bare
        and (bare or poses.skeleton is not None or traits.controls_suffice)
        and not traits.baseline
    )
    return [
        name for name, kind in methods_by_name()[0].items() if name != AUTO and suits(kind.traits)
    ]


def _fit(method: str | Method, file: Path, seed: int, lesson: Lesson, progress: Progress) -> None:
    fitting = Fit.of(method, file, {"seed": seed} if isinstance(method, str) else None)
    made = fitting.run(lesson.poses, lesson.made_by, lesson.rig, progress=progress)
    fitting.write(made)
