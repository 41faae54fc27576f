"""Measuring stand-ins against the original poses: `understudy evaluate`, and the end of every job.

The original is the rig that the file was learned from (its provenance says which), a rig that the
user names, or recorded poses that took no part in the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.noun import OneLine
from understudy.core.parts import without_parts
from understudy.core.poses import Poses, evenly
from understudy.core.provenance import parts_left_out, rig_of, sample_of
from understudy.core.skeleton import Skeleton
from understudy.evaluation.measure import measure_deformers
from understudy.evaluation.report import report_data, write_report
from understudy.evaluation.result import CaseResult
from understudy.evaluation.shading import need_drawing
from understudy.io.atomic_write import ensure_writable
from understudy.io.files import write_json
from understudy.io.pose_store import STRETCH
from understudy.io.registry import ReadOptions, read_poses
from understudy.methods.fit_arguments import is_sequence
from understudy.rigs.base import Rig, animate, animation_names, name_of
from understudy.rigs.parallel_sampling import evaluate_natural
from understudy.rigs.part_rig import rig_without_parts
from understudy.rigs.registry import load_rig
from understudy.rigs.sampling import SamplePlan
from understudy.runtime.native import runtime_of
from understudy.runtime.timing import pose_times
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress
from understudy.viewer.subjects import KeptFrames, Subject, load_subjects, page_beside

_SHOWN_POSES = 12  # training poses in a report
_TIMING_S = 2.0  # for each file
RANDOM_POSES = 200  # held-out poses of a rig that has no animations


@dataclass(frozen=True, eq=False, repr=False)
class Trial(OneLine):
    """What to measure on: a title, the mesh, name -> original poses, and remarks for the user.

    learned  some training poses (n,V,3) to show beside those; None: unknown
    """

    title: str
    mesh: Mesh
    cases: Mapping[str, Poses | Callable[[], Poses]]
    notes: Sequence[str] = field(default_factory=tuple)
    learned: np.ndarray | None = None


@dataclass(frozen=True)
class Outputs:
    """Files that figures are written to, and the command that a report shows.

    report  HTML, or None
    json    or None
    times   also measure the time of one pose of each file, in turns
    """

    command: str = ""
    report: Path | None = None
    json: Path | None = None
    times: bool = False

    def check(self) -> None:
        """Raise now if the files cannot be written."""
        if self.report is not None:
            need_drawing()
        for path in (self.report, self.json):
            if path is not None:
                ensure_writable(path)


@dataclass(frozen=True, eq=False, repr=False)
class Measured(OneLine):
    """What a measurement found.

    trial   what was measured on
    rows    one for each case and stand-in
    report  the HTML file, or None
    page    the page beside it that shows the character, or None
    """

    trial: Trial
    rows: Sequence[CaseResult]
    report: Path | None = None
    page: Path | None = None

    @property
    def unit(self) -> str:
        """The unit of every length."""
        return self.trial.mesh.unit


@checks.typed
def evaluate(
    files: Sequence[str | Path],
    *,
    rig: str | Rig | None = None,
    poses: Sequence[str | Path] = (),
    animations: Sequence[str] = (),
    reading: ReadOptions | None = None,
    outputs: Outputs | None = None,
    progress: Progress = SILENT,
) -> Measured:
    """Measure `.understudy` files of one character against the original.

    rig         the original; None: the rig that the files were learned from
    poses       recorded poses to measure on in place of a rig
    animations  of the rig; empty: all, and random poses where it has none
    """
    outputs = outputs or Outputs()
    outputs.check()
    if poses and (rig is not None or animations):
        other = "--rig" if rig is not None else "--animation"
        raise InputError(f"--poses and {other}: give one of them")
    subjects = load_subjects([Path(file) for file in files])
    if poses:
        trial = _recorded(poses, reading, subjects, progress)
    else:
        original = _load_original(rig or _rig_name(subjects), subjects)
        trial = trial_of_rig(original, animations, subjects)
    return measure(subjects, trial, outputs, progress=progress)


def measure(
    subjects: Sequence[Subject],
    trial: Trial,
    outputs: Outputs | None = None,
    fit_seconds: Mapping[str, float] | None = None,
    progress: Progress = SILENT,
) -> Measured:
    """Measure stand-ins on `trial`, and write the report and the figures.

    fit_seconds  label of a stand-in -> duration of its fit, where it is known
    """
    outputs = outputs or Outputs()
    deformers = {subject.label: subject.deformer for subject in subjects}
    figures = {subject.label: sizes_of(subject) for subject in subjects}
    for label, seconds in (fit_seconds or {}).items():
        figures[label]["fit_s"] = seconds
    if outputs.times:
        with progress.task("timing one pose", 1) as task:
            first = next(iter(trial.cases.values()))
            poses = first() if callable(first) else first
            for label, times in pose_times(deformers, poses, _TIMING_S * len(subjects)).items():
                figures[label] |= times
            task.advance()
    kept = KeptFrames(trial.cases)
    cases = trial.cases if outputs.report is None else kept.cases
    rows = measure_deformers(deformers, cases, figures, progress)
    said = [note for row in rows if row.method == subjects[0].label for note in row.notes]
    trial = replace(trial, notes=sorted([*trial.notes, *said], key=_is_no_warning))
    return publish(subjects, trial, rows, kept, outputs)


def publish(
    subjects: Sequence[Subject],
    trial: Trial,
    rows: Sequence[CaseResult],
    kept: KeptFrames,
    outputs: Outputs,
) -> Measured:
    """Write the figures, the report and its page of a measurement, as far as they are asked for.

    kept  frames of the cases, for the page
    """
    if outputs.json is not None:
        content = [{"case": r.case, "method": r.method, **r.figures} for r in rows]
        unit = trial.mesh.unit
        write_json(outputs.json, {"unit": unit, "notes": list(trial.notes), "rows": content})
    if outputs.report is None:
        return Measured(trial, rows)
    deformers = {subject.label: subject.deformer for subject in subjects}
    provenance = {"command": outputs.command} if outputs.command else {}
    data = report_data(trial.title, trial.mesh, deformers, rows, provenance, trial.notes)
    if trial.learned is not None:
        data = replace(data, sheet=(trial.learned, kept.frames(len(trial.learned) // 2)))
    page = page_beside(outputs.report)
    kept.write_page(deformers, trial.title, page)
    write_report(outputs.report, replace(data, page=page.name))
    return Measured(trial, rows, outputs.report, page)


def shown_poses(poses: Poses) -> np.ndarray:
    """Some poses (n,V,3) for the report."""
    some = poses.take(evenly(poses.pose_count, _SHOWN_POSES))
    return some.read_poses(0, some.pose_count)


def _is_no_warning(note: str) -> bool:
    return not note.startswith("Warning")


def sizes_of(subject: Subject) -> dict[str, float]:
    """The real size of the file, and what the runtime reads for one pose."""
    sizes: dict[str, float] = {} if subject.size is None else {"bytes": subject.size}
    runtime = runtime_of(subject.deformer)
    if runtime is not None:
        sizes["bytes_read"] = runtime.bytes
    return sizes


def _rig_name(subjects: Sequence[Subject]) -> str:
    """The rig that all files were learned from."""
    names = set()
    for subject in subjects:
        name = rig_of(subject.deformer)
        if name is None:
            raise InputError(
                f"{subject.who} does not say which rig it was learned from; pass --rig RIG, or "
                "--poses FILE with poses that took no part in the fit"
            )
        names.add(name)
    if len(names) > 1:
        raise InputError(
            f"the files were learned from different rigs ({', '.join(sorted(names))}); compare "
            "stand-ins of one character, or pass --rig"
        )
    return names.pop()


def _load_original(rig: str | Rig, subjects: Sequence[Subject]) -> Rig:
    """The rig; an error says what to do if its name comes from the deformers."""
    if not isinstance(rig, str):
        return rig
    try:
        return load_rig(rig)
    except InputError as problem:
        if all(rig_of(subject.deformer) != rig for subject in subjects):
            raise
        raise InputError(
            f"the rig that the file was learned from, {rig}, cannot be loaded ({problem}). Pass "
            "--rig with its path, or --poses FILE with recorded poses"
        ) from problem


def trial_of_rig(
    rig: Rig,
    animations: Sequence[str] | Mapping[str, int],
    subjects: Sequence[Subject],
    note: str = "",
) -> Trial:
    """The animations of a rig, or random poses of a rig that has none.

    animations  names, or name -> the first frame to measure; empty: all
    note        what to say of them
    """
    title = name_of(rig).partition("?")[0]  # without the options of a .blend file
    rig = rig_without_parts(rig, _left_out(rig.mesh, subjects))
    for subject in subjects:
        _refuse_mesh(subject, rig.mesh, f"the rig {title!r}")
        controls = rig.controls if subject.deformer.reads_controls else None
        _refuse_drivers(subject, rig.skeleton, controls, f"the rig {title!r}")
    known = animation_names(rig)
    for wanted in animations:
        checks.one_of(wanted, f"animation of {title}", known)
    if known:
        firsts = animations if isinstance(animations, Mapping) else {}
        cases = {
            f"{title}/{name}": partial(animate, rig, name, firsts.get(name, 0))
            for name in animations or known
        }
        return Trial(title, rig.mesh, cases, [note] if note else ())
    seeds = [_sample_plan(subject.deformer).get("seed") for subject in subjects]
    seed = 1 + max(known if isinstance(known, int) else 0 for known in seeds)
    note = (
        f"{title} has no animations: measured on {RANDOM_POSES} random poses of the training "
        f"ranges that took no part in the fit (seed {seed})."
    )
    poses = partial(_random_poses, rig, subjects[0].deformer, seed)
    return Trial(title, rig.mesh, {f"{title}/random": poses}, [note])


def _random_poses(rig: Rig, deformer: Deformer, seed: int) -> Poses:
    """Held-out poses of a rig, from the ranges that the deformer was trained on."""
    facts = _sample_plan(deformer)
    kept = {name: facts.get(name) for name in ("active", "crowd", "calm")}
    given: dict[str, Any] = {n: v for n, v in kept.items() if isinstance(v, int | float)}
    plan = SamplePlan(RANDOM_POSES, seed, **given)
    stretch = sample_of(deformer).get(STRETCH)
    limit = stretch if isinstance(stretch, float) else None
    poses, _ = evaluate_natural(rig, plan.values(rig, deformer.control_spec), limit)
    return replace(poses, name="random")


def _sample_plan(deformer: Deformer) -> Mapping[str, object]:
    """The plan of the training sample; empty where the file does not say."""
    plan = sample_of(deformer).get("plan")
    return plan if isinstance(plan, Mapping) else {}


def _recorded(
    sources: Sequence[str | Path],
    reading: ReadOptions | None,
    subjects: Sequence[Subject],
    progress: Progress,
) -> Trial:
    """Recorded poses: one case for each source."""
    cases: dict[str, Poses] = {}
    for source in sources:
        poses = read_poses(source, reading, progress)
        poses = without_parts(poses, _left_out(poses.mesh, subjects))
        if poses.name in cases:
            raise InputError(f"--poses {source}: another source is called {poses.name!r} too")
        cases[poses.name] = poses
        for subject in subjects:
            _refuse_mesh(subject, poses.mesh, str(source))
            bare = is_sequence(poses)
            if bare and subject.deformer.clips:  # a compressed sequence: its own clips are compared
                frames = sum(clip.frame_count for clip in subject.deformer.clips)
                checks.same_count(frames, poses.pose_count, "frames", subject.who, str(source))
                continue
            _refuse_drivers(subject, poses.skeleton, poses.control_spec, str(source))
    first = next(iter(cases.values()))
    return Trial(", ".join(cases), first.mesh, cases)


def _left_out(mesh: Mesh, subjects: Sequence[Subject]) -> tuple[str, ...]:
    """The parts of `mesh` that no deformer has; a deformer of another mesh is refused later."""
    sets = {parts_left_out(subject.deformer) for subject in subjects}
    if len(sets) > 1:
        raise InputError("the files were fitted without different parts; measure them one by one")
    return tuple(name for name in sets.pop() if name in mesh.parts)


def _refuse_mesh(subject: Subject, mesh: Mesh, who: str) -> None:
    count = subject.deformer.mesh.vertex_count
    checks.same_count(count, mesh.vertex_count, "vertices", subject.who, who)


def _refuse_drivers(
    subject: Subject, skeleton: Skeleton | None, controls: ControlSpec | None, who: str
) -> None:
    """Raise if the original has other bones or controls than the deformer, or none that it reads.

    Controls that the deformer does not read may be missing.
    """
    deformer = subject.deformer
    for what, own, given, reads in (
        ("bone", deformer.skeleton, skeleton, True),
        ("control", deformer.control_spec, controls, deformer.reads_controls),
    ):
        if own is None or (given is None and not reads):
            continue
        if given is None:
            raise InputError(
                f"{subject.who} is driven by {what}s, and {who} has none; measure it on poses that "
                f"have {what}s"
            )
        checks.same_count(len(own.names), len(given.names), f"{what}s", subject.who, who)
        for number, (a, b) in enumerate(zip(own.names, given.names)):
            if a != b:
                raise InputError(
                    f"{what} {number} is {a!r} in {subject.who} and {b!r} in {who}: they do not "
                    "belong together, or their order differs"
                )
