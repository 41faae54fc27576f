"""`understudy evaluate`, and what measures stand-ins against the original poses.

The original is the rig that the file was learned from (its provenance says which), a rig that the
user names, or recorded poses that took no part in the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.options import (
    RIG_HELP,
    Cache,
    CharacterOptions,
    Clips,
    File,
    FrameOffset,
    Json,
    Meshes,
    read_options,
)
from understudy.cli.output import print_table, read_per_pose, write_json
from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.mesh import Mesh
from understudy.core.parts import without_parts
from understudy.core.poses import Poses
from understudy.core.progress import Progress
from understudy.core.terminal_progress import TerminalProgress
from understudy.evaluation.measure import measure_deformers
from understudy.evaluation.pictures import need_drawing
from understudy.evaluation.pose_times import pose_times
from understudy.evaluation.report import report_data, write_report
from understudy.evaluation.result import CaseResult
from understudy.io.atomic_write import ensure_writable
from understudy.io.registry import ReadOptions, read_poses
from understudy.methods.fitting import parts_left_out, rig_of
from understudy.rigs.base import Rig, animate, animation_names, name_of
from understudy.rigs.part_rig import rig_without_parts
from understudy.rigs.registry import load_rig
from understudy.rigs.sampling import SamplePlan
from understudy.viewer.measured import KeptFrames, page_beside

_TIMING_S = 2.0  # for each file
RANDOM_POSES = 200  # held-out poses of a rig that has no animations

RigOption = Annotated[
    str | None,
    typer.Option("--rig", help=f"The original. {RIG_HELP} Default: the rig in the file."),
]
PosesOption = Annotated[
    list[str],
    typer.Option(
        "--poses",
        help="Measure on recorded poses instead of a rig: a pose store or a .npz that took no "
        "part in the fit; repeat it.",
    ),
]
Animation = Annotated[
    list[str],
    typer.Option(help="Animation of the rig to measure on; repeat it. Default: all of them."),
]
Report = Annotated[Path | None, typer.Option(help="Also write an HTML report to this file.")]


def evaluate(
    file: File,
    rig: RigOption = None,
    poses: PosesOption = [],  # noqa: B006
    animation: Animation = [],  # noqa: B006
    report: Report = None,
    as_json: Json = None,
    cache: Cache = None,
    clip: Clips = [],  # noqa: B006
    mesh: Meshes = [],  # noqa: B006
    frame_offset: FrameOffset = None,
) -> None:
    """Measure a stand-in against the original.

    The original is the rig that the file was learned from, another rig (--rig), or recorded poses
    (--poses). A rig without animations is measured on random poses that took no part in the fit.
    """
    chosen = CharacterOptions(cache, clip, mesh, frame_offset)
    read = read_options(None, None, None, None, chosen)
    run("evaluate", [file], Original(rig, poses, animation, read), report, as_json)


@dataclass(frozen=True)
class Original:
    """What the user says the stand-ins are measured against; empty: the rig in their files."""

    rig: str | None = None
    poses: Sequence[str] = ()
    animations: Sequence[str] = ()
    read: ReadOptions | None = None

    def __post_init__(self) -> None:
        if self.poses and (self.rig is not None or self.animations):
            other = "--rig" if self.rig is not None else "--animation"
            raise InputError(f"--poses and {other}: give one of them")


@dataclass(frozen=True)
class CaseSet:
    """What to measure on: a title, the mesh, name -> original poses, and remarks to print."""

    title: str
    mesh: Mesh
    cases: Mapping[str, Poses | Callable[[], Poses]]
    notes: Sequence[str] = field(default_factory=tuple)


@dataclass(frozen=True)
class Outputs:
    """Files that figures are written to, and the command that a report shows.

    report  HTML, or None
    json    or None
    times   also measure the time of one pose of each file, in turns
    """

    command: str
    report: Path | None = None
    json: Path | None = None
    times: bool = False


def run(
    command: str,
    files: Sequence[Path],
    original: Original,
    report: Path | None,
    as_json: Path | None,
) -> None:
    """Measure `files`, print the table, and write the report and the figures."""
    if report is not None:
        need_drawing()
    for path in (report, as_json):
        if path is not None:
            ensure_writable(path)
    by_file = dict(zip(files, load_deformers(files).values()))
    progress = TerminalProgress()
    if original.poses:
        test = _recorded(original, by_file, progress)
    else:
        rig = _load_original(_rig_name(original, by_file), by_file)
        test = cases_of_rig(rig, original.animations, by_file)
    text = f"understudy {command} {' '.join(f.name for f in files)}"
    measure_files(files, test, Outputs(text, report, as_json, command == "compare"), progress)


def measure_files(
    files: Sequence[Path],
    test: CaseSet,
    outputs: Outputs,
    progress: Progress,
    fit_seconds: Mapping[str, float] | None = None,
) -> list[CaseResult]:
    """Measure `files` on `test`, print the table, and write the report and the figures.

    fit_seconds  row -> duration of its fit, where it is known
    """
    deformers = load_deformers(files)
    figures = {label: _sizes(f, d) for f, (label, d) in zip(files, deformers.items())}
    for label, seconds in (fit_seconds or {}).items():
        figures[label]["fit_s"] = seconds
    if outputs.times:
        with progress.task("timing one pose", 1) as task:
            first = next(iter(test.cases.values()))
            poses = first() if callable(first) else first
            for label, times in pose_times(deformers, poses, _TIMING_S * len(files)).items():
                figures[label] |= times
            task.advance()
    kept = KeptFrames(test.cases)
    cases = test.cases if outputs.report is None else kept.cases
    results = measure_deformers(deformers, cases, figures, progress)
    title = f"{test.title}: errors against the original"
    print_table(results, test.mesh.unit, title, test.mesh.size_label)
    for note in test.notes:
        print(note)
    if outputs.json is not None:
        rows = [{"case": r.case, "method": r.method, **r.figures} for r in results]
        write_json(outputs.json, {"unit": test.mesh.unit, "notes": list(test.notes), "rows": rows})
    if outputs.report is not None:
        provenance = {"command": outputs.command}
        data = report_data(test.title, test.mesh, deformers, results, provenance, test.notes)
        page = page_beside(outputs.report)
        kept.write_page(deformers, test.title, page)
        write_report(outputs.report, replace(data, page=page.name))
        print(f"Report: {outputs.report}\nPage: {page}")
    return results


def load_deformers(files: Sequence[Path]) -> dict[str, Deformer]:
    """Name of the row -> deformer: named by its method, or by its file where two share a method."""
    loaded = [(file, Deformer.load(file)) for file in files]
    methods = [deformer.method for _, deformer in loaded]
    deformers: dict[str, Deformer] = {}
    for file, deformer in loaded:
        label = deformer.method if methods.count(deformer.method) == 1 else file.stem
        if label in deformers:
            raise InputError(f"{file}: another file is called {label!r} too; rename one of them")
        deformers[label] = deformer
    return deformers


def _sizes(file: Path, deformer: Deformer) -> dict[str, float]:
    """The real size of the file, and what the runtime reads for one pose."""
    sizes: dict[str, float] = {"bytes": file.stat().st_size}
    read = read_per_pose(deformer)
    if read is not None:
        sizes["bytes_read"] = read
    return sizes


def _rig_name(original: Original, deformers: Mapping[Path, Deformer]) -> str:
    """The rig to measure against: the user's, or the one that all files were learned from."""
    if original.rig is not None:
        return original.rig
    found = {file: rig_of(deformer) for file, deformer in deformers.items()}
    for file, name in found.items():
        if name is None:
            raise InputError(
                f"{file} does not say which rig it was learned from; pass --rig RIG, or --poses "
                "FILE with poses that took no part in the fit"
            )
    names = sorted({name for name in found.values() if name is not None})
    if len(names) > 1:
        raise InputError(
            f"the files were learned from different rigs ({', '.join(names)}); compare stand-ins "
            "of one character, or pass --rig"
        )
    return names[0]


def _load_original(name: str, deformers: Mapping[Path, Deformer]) -> Rig:
    """The rig `name`; an error says what to do if the name comes from the deformers."""
    try:
        return load_rig(name)
    except InputError as problem:
        if all(rig_of(deformer) != name for deformer in deformers.values()):
            raise
        raise InputError(
            f"the rig that the file was learned from, {name}, cannot be loaded ({problem}). Pass "
            "--rig with its path, or --poses FILE with recorded poses"
        ) from problem


def cases_of_rig(
    rig: Rig, animations: Sequence[str], deformers: Mapping[Path, Deformer]
) -> CaseSet:
    """The animations of a rig, or random poses of a rig that has none."""
    title = name_of(rig).partition("?")[0]  # without the options of a .blend file
    rig = rig_without_parts(rig, _left_out(rig.mesh, deformers))
    for file, deformer in deformers.items():
        _refuse_mesh(file, deformer, rig.mesh, f"the rig {title!r}")
        _refuse_drivers(file, deformer, rig.skeleton is not None, True, f"the rig {title!r}")
    known = animation_names(rig)
    for wanted in animations:
        checks.one_of(wanted, f"animation of {title}", known)
    if known:
        cases = {f"{title}/{a}": partial(animate, rig, a) for a in animations or known}
        return CaseSet(title, rig.mesh, cases)
    seeds = [_sample_seed(deformer) for deformer in deformers.values()]
    seed = max(seeds) + 1
    note = (
        f"{title} has no animations: measured on {RANDOM_POSES} random poses of the training "
        f"ranges that took no part in the fit (seed {seed})."
    )
    poses = partial(_random_poses, rig, next(iter(deformers.values())), seed)
    return CaseSet(title, rig.mesh, {f"{title}/random": poses}, [note])


def _random_poses(rig: Rig, deformer: Deformer, seed: int) -> Poses:
    """Held-out poses of a rig, from the ranges that the deformer was trained on."""
    active = _sample_plan(deformer).get("active")
    plan = SamplePlan(RANDOM_POSES, seed, active=active if isinstance(active, float) else 1.0)
    return replace(rig.evaluate(plan.values(rig, deformer.control_spec)), name="random")


def _sample_seed(deformer: Deformer) -> int:
    """The seed of the training sample; 0 where the file does not say."""
    seed = _sample_plan(deformer).get("seed")
    return seed if isinstance(seed, int) else 0


def _sample_plan(deformer: Deformer) -> Mapping[str, Any]:
    """The plan of the training sample; empty where the file does not say."""
    sample = deformer.provenance.get("sample")
    plan = sample.get("plan") if isinstance(sample, Mapping) else None
    return plan if isinstance(plan, Mapping) else {}


def _recorded(
    original: Original, deformers: Mapping[Path, Deformer], progress: TerminalProgress
) -> CaseSet:
    """Recorded poses: one case for each source."""
    cases = {}
    for source in original.poses:
        poses = read_poses(source, original.read, progress)
        poses = without_parts(poses, _left_out(poses.mesh, deformers))
        if poses.name in cases:
            raise InputError(f"--poses {source}: another source is called {poses.name!r} too")
        cases[poses.name] = poses
        for file, deformer in deformers.items():
            _refuse_mesh(file, deformer, poses.mesh, source)
            bare = poses.skeleton is None and poses.controls is None
            if bare and deformer.clips:  # a compressed sequence: its own clips are compared
                frames = sum(clip.frame_count for clip in deformer.clips)
                checks.same_count(frames, poses.pose_count, "frames", str(file), source)
                continue
            _refuse_drivers(
                file, deformer, poses.skeleton is not None, poses.controls is not None, source
            )
            _refuse_names(file, deformer, poses, source)
    first = next(iter(cases.values()))
    return CaseSet(", ".join(cases), first.mesh, cases)


def _left_out(mesh: Mesh, deformers: Mapping[Path, Deformer]) -> tuple[str, ...]:
    """The parts of `mesh` that no deformer has; a deformer of another mesh is refused later."""
    sets = {parts_left_out(deformer) for deformer in deformers.values()}
    if len(sets) > 1:
        raise InputError("the files were fitted without different parts; measure them one by one")
    return tuple(name for name in sets.pop() if name in mesh.parts)


def _refuse_mesh(file: Path, deformer: Deformer, mesh: Mesh, who: str) -> None:
    checks.same_count(deformer.mesh.vertex_count, mesh.vertex_count, "vertices", str(file), who)


def _refuse_drivers(file: Path, deformer: Deformer, bones: bool, controls: bool, who: str) -> None:
    """Raise if a deformer reads bones or controls that the original does not have."""
    for reads, has, what in (
        (deformer.skeleton is not None, bones, "bones"),
        (deformer.reads_controls, controls, "controls"),
    ):
        if reads and not has:
            raise InputError(
                f"{file} is driven by {what}, and {who} has none; measure it on poses that have "
                f"{what}"
            )


def _refuse_names(file: Path, deformer: Deformer, poses: Poses, who: str) -> None:
    """Raise if bones or controls differ in name or order from those the deformer knows."""
    pairs = []
    if deformer.skeleton is not None and poses.skeleton is not None:
        pairs.append(("bone", deformer.skeleton.names, poses.skeleton.names))
    if deformer.control_spec is not None and poses.control_spec is not None:
        pairs.append(("control", deformer.control_spec.names, poses.control_spec.names))
    for what, own, given in pairs:
        checks.same_count(len(own), len(given), f"{what}s", str(file), who)
        for number, (a, b) in enumerate(zip(own, given)):
            if a != b:
                raise InputError(
                    f"{what} {number} is {a!r} in {file} and {b!r} in {who}: they do not belong "
                    "together, or their order differs"
                )
