"""`understudy learn`: the whole job in one command, from a rig or a file to an engine's files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.compress import compress
from understudy.cli.job_folder import JobFolder, source_facts
from understudy.cli.learned_exports import Learned, export_all
from understudy.cli.measure import (
    CaseSet,
    Outputs,
    cases_of_rig,
    load_deformers,
    measure_files,
)
from understudy.cli.options import (
    AUTO,
    Cache,
    CharacterOptions,
    Clips,
    FrameOffset,
    FrameRate,
    MaxBytes,
    MaxError,
    MaxMs,
    Out,
    PartErrors,
    Rest,
    Seed,
    Settings,
    TimeLimit,
    Unit,
    UpAxis,
    Without,
    budget_settings,
    names_of,
    part_options,
    read_options,
    settings_of,
)
from understudy.cli.output import file_text
from understudy.cli.sample import (
    Active,
    Controls,
    IgnoreDrivers,
    Meshes,
    Modifiers,
    TrustScripts,
    load_asked,
)
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.parts import without_parts
from understudy.core.poses import Poses
from understudy.core.terminal_progress import TerminalProgress
from understudy.evaluation.metric_catalogue import digits3
from understudy.evaluation.pictures import need_drawing
from understudy.evaluation.result import CaseResult, overall
from understudy.evaluation.unexplained import Unexplained, unexplained_parts
from understudy.io.registry import (
    ReadOptions,
    format_of,
    read_character,
    read_poses,
    source_provenance,
    write_deformer,
)
from understudy.methods.base import PRESET
from understudy.methods.character_deformer import deformer_of_character
from understudy.methods.compact import compact, decides_storage
from understudy.methods.fitting import (
    SIMPLE,
    FitJob,
    PartOptions,
    fit_poses,
    method_for,
    with_source,
)
from understudy.methods.held_out import split_poses
from understudy.methods.posing_fitting import with_posing
from understudy.methods.registry import method_names, method_type
from understudy.rigs.base import animation_names
from understudy.rigs.blender.options import MODIFIERS, BlenderOptions
from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.registry import is_rig
from understudy.rigs.sampling import SamplePlan


def learn(
    source: Annotated[
        list[str],
        typer.Argument(
            help="A rig (a .blend, a built-in or your own), a pose store, recorded poses, a "
            "character's file (.glb, .fbx, .usd) with or without --cache, or a mesh sequence."
        ),
    ],
    out: Out,
    method: Annotated[
        str | None,
        typer.Option(
            help="Method to fit. Default: auto; with --part-error, or --set of another method's "
            "option, the one that suits the source."
        ),
    ] = None,
    settings: Settings = [],  # noqa: B006
    to: Annotated[
        str, typer.Option(help="Also export to these formats: glb,usd,fbx,onnx, ...")
    ] = "",
    count: Annotated[int, typer.Option(min=20, help="Poses to sample from a rig.")] = 3000,
    held_out: Annotated[
        list[str],
        typer.Option(help="Clip to measure on instead of learning it; repeat it. Default: chosen."),
    ] = [],  # noqa: B006
    seed: Seed = 0,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Worker processes for sampling. Default: one per core."),
    ] = None,
    ranges: Annotated[
        Path | None,
        typer.Option(help="Training ranges (TOML); `understudy controls RIG` prints the defaults."),
    ] = None,
    active: Active = 1.0,
    meshes: Meshes = [],  # noqa: B006
    patterns: Controls = [],  # noqa: B006
    trust_scripts: TrustScripts = False,
    ignore_drivers: IgnoreDrivers = False,
    modifiers: Modifiers = MODIFIERS[0],
    without: Without = [],  # noqa: B006
    part_error: PartErrors = [],  # noqa: B006
    up: UpAxis = None,
    unit: Unit = None,
    frame_rate: FrameRate = None,
    rest: Rest = None,
    cache: Cache = None,
    clip: Clips = [],  # noqa: B006
    frame_offset: FrameOffset = None,
    max_error: MaxError = None,
    max_ms: MaxMs = None,
    max_bytes: MaxBytes = None,
    limit: TimeLimit = None,
    full_precision: Annotated[
        bool,
        typer.Option(
            "--float32",
            help="Store 32-bit numbers, also where 16 bits do not change the error.",
        ),
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="Start anew in a folder that is in use.")] = False,
) -> None:
    """Learn a character: everything from the source to the files of an engine.

    Samples the rig or reads the file, fits the method that suits it, measures it on animation that
    took no part in the fit, beside linear blend skinning, writes a report and exports. Everything
    goes to one folder. The method is `auto`: the cheapest that keeps a budget (--max-error,
    --max-ms, --max-bytes). Without one, it is a plain skin where that has no visible error, else
    the default size of the method that suits the source. If it is interrupted, run the same command
    again: it resumes.
    """
    need_drawing()
    budget = {"max_error": max_error, "max_ms": max_ms, "max_bytes": max_bytes, "time": limit}
    if method is None and any(value is not None for value in budget.values()):
        method = AUTO
    wanted = names_of(to)
    for suffix in wanted:
        format_of(f"hero.{suffix.lstrip('.')}", to="write")
    request = Request(
        list(source),
        method,
        budget_settings(
            method or "the method that suits the source", settings_of(settings), budget
        ),
        count,
        seed,
        processes,
        tuple(held_out),
        part_options(without, part_error),
        read_options(
            up, unit, frame_rate, rest, CharacterOptions(cache, clip, meshes, frame_offset)
        ),
        BlenderOptions(tuple(meshes), tuple(patterns), trust_scripts, ignore_drivers, modifiers),
        ranges,
        active,
        full_precision,
    )
    folder = JobFolder(out, name_of_source(source), request.facts(), overwrite)
    learned = learner_of(request)(request, folder, TerminalProgress())
    print(f"{learned.file}: {file_text(learned.file, Deformer.load(learned.file))}")
    export_all(learned, folder, wanted)


@dataclass(frozen=True)
class Request:
    """What the user asked for; fields as the options of `learn`."""

    sources: list[str]
    method: str | None
    options: Mapping[str, str]
    count: int
    seed: int
    processes: int | None
    held_out: tuple[str, ...]
    parts: PartOptions
    read: ReadOptions
    blender: BlenderOptions
    ranges: Path | None
    active: float
    full_precision: bool = False

    def facts(self) -> dict[str, Any]:
        """What defines the job; the number of processes does not change it."""
        read = {k: v for k, v in vars(self.read).items() if v is not None and v != ()}
        return {
            "source": source_facts(self.sources),
            "cache": source_facts([] if self.read.cache is None else [str(self.read.cache)]),
            "method": self.method,
            "options": dict(self.options),
            "count": self.count,
            "seed": self.seed,
            "held_out": list(self.held_out),
            "without": list(self.parts.without),
            "part_errors": dict(self.parts.errors),
            "blender": {k: v for k, v in vars(self.blender).items() if v},
            "ranges": None if self.ranges is None else source_facts([str(self.ranges)]),
            "active": self.active,
            "full_precision": self.full_precision,
            "read": {k: str(v) if isinstance(v, Path) else v for k, v in read.items()},
        }


Learner = Callable[[Request, JobFolder, TerminalProgress], Learned]


def learner_of(request: Request) -> Learner:
    """How to learn this kind of source."""
    if request.method is not None and request.method not in method_names():
        FitJob.of(request.method, "x.understudy")  # raises, and names the methods
    if any(is_rig(source) for source in request.sources):
        if len(request.sources) > 1:
            raise InputError("source: a rig is learned alone; give one")
        return learn_rig
    kinds = [format_of(source) for source in request.sources]
    characters = [kind.read_character is not None for kind in kinds]
    as_it_is = request.method is None and request.parts == PartOptions()
    if len(kinds) == 1 and characters[0] and request.read.cache is None and as_it_is:
        return learn_character
    return learn_poses


def learn_rig(request: Request, folder: JobFolder, progress: TerminalProgress) -> Learned:
    """Sample a rig, fit, and measure on its animations, or on random poses that it has not seen."""
    store = folder.path / "poses.zarr"
    plan = SamplePlan(request.count, request.seed, active=request.active)
    rig = load_asked(request.sources[0], request.blender, progress)
    if isinstance(rig, BlenderRig):
        for note in rig.notes:
            print(f"note: {note}")

    def sample() -> None:
        sample_poses(
            # Worker processes build a rig of Python again; one of Blender brings its own.
            (lambda: rig) if isinstance(rig, BlenderRig) else request.sources[0],
            plan,
            store,
            processes=request.processes,
            progress=progress,
            ranges=request.ranges,
        )

    folder.step("sample", [store], sample)
    poses = read_poses(str(store))
    made_by = source_provenance(str(store))

    def cases(files: Mapping[Path, Deformer]) -> CaseSet:
        return cases_of_rig(rig, request.held_out, files)

    learned = _fit_and_measure(request, folder, progress, Lesson(poses, made_by, cases))
    return Learned(learned, ("all",) if animation_names(rig) else (), rig=rig)


def learn_poses(
    request: Request,
    folder: JobFolder,
    progress: TerminalProgress,
    own: Deformer | None = None,
) -> Learned:
    """Fit recorded poses, and measure on some that are held out; a bare sequence is compressed.

    own  the skin and the blend shapes that the file has, which may be better than what is fitted
    """
    poses = read_poses(request.sources, request.read, progress)
    if poses.skeleton is None and poses.controls is None:
        return learn_sequence(request, folder, progress)
    made_by = source_provenance(request.sources)
    if request.parts.without:
        poses = without_parts(poses, request.parts.without)
        made_by = {**made_by, "without_parts": list(request.parts.without)}
        request = replace(request, parts=replace(request.parts, without=()))
    split = split_poses(poses, request.held_out)
    title = ", ".join(split.held_out)

    def cases(files: Mapping[Path, Deformer]) -> CaseSet:
        return CaseSet(title, poses.mesh, split.held_out, [split.note])

    learned = _fit_and_measure(request, folder, progress, Lesson(split.fit, made_by, cases, own))
    animated = poses.frame_rate is not None or bool(poses.spans)
    return Learned(learned, motions=(poses,) if animated else ())


def learn_sequence(request: Request, folder: JobFolder, progress: TerminalProgress) -> Learned:
    """Compress a mesh sequence: bones, weights and clips."""
    learned = folder.file(".understudy")

    def work() -> None:
        compress(
            request.sources,
            learned,
            method=request.method,
            settings=[f"{name}={value}" for name, value in request.options.items()],
            rest=None if request.read.rest is None else Path(request.read.rest),
            frame_rate=request.read.frame_rate,
            up=request.read.up_axis,
            unit=request.read.unit,
            as_json=folder.path / "errors.json",
            seed=request.seed,
        )

    folder.step("compress", [learned], work)
    poses = read_poses(request.sources, request.read, progress)
    test = CaseSet(
        poses.name, poses.mesh, {poses.name: poses}, ["Measured on the sequence itself."]
    )
    _measure(folder, [learned], test, progress)
    keep_bones = request.method is not None  # as `compress --method` does
    return Learned(learned, sequence=poses, keep_bones=keep_bones, seed=request.seed)


def learn_character(request: Request, folder: JobFolder, progress: TerminalProgress) -> Learned:
    """Take the skin and the blend shapes of a character's file as they are."""
    character = read_character(request.sources[0], request.read, progress)
    if any(clip.vertices is not None for clip in character.clips):
        own = None if character.skeleton is None else deformer_of_character(character)
        return learn_poses(request, folder, progress, own)
    if character.skeleton is None and not character.shapes:
        raise InputError(f"{request.sources[0]}: nothing in it moves: no bones, no blend shapes")
    learned = folder.file(".understudy")
    made_by = source_provenance(request.sources)

    def work() -> None:
        made = deformer_of_character(character)
        if character.clips:
            made = with_posing(made, character.poses(), progress)
        write_deformer(replace(made, provenance={**made.provenance, "sample": made_by}), learned)

    folder.step("convert", [learned], work)
    note = (
        "The file holds a skin and blend shapes, which the stand-in takes as they are: nothing was "
        "learned. A vertex cache of the original (--cache) has more to learn from."
    )
    poses = character.poses()
    test = CaseSet(character.name, character.mesh, {character.name: poses}, [note])
    _measure(folder, [learned], test, progress)
    return Learned(learned, motions=(poses,) if character.clips else ())


@dataclass(frozen=True, eq=False)
class Lesson:
    """What to fit, and what to measure on.

    poses    to fit
    made_by  their provenance
    cases    files with their deformers -> the cases to measure on
    own      a stand-in that needs no fit: the skin and the blend shapes of the file; or None
    """

    poses: Poses
    made_by: Mapping[str, Any]
    cases: Callable[[Mapping[Path, Deformer]], CaseSet]
    own: Deformer | None = None


def _fit_and_measure(
    request: Request, folder: JobFolder, progress: TerminalProgress, lesson: Lesson
) -> Path:
    """Fit the method and linear blend skinning, measure both, and keep the better one.

    A skin that the source has is measured too.
    """
    poses, chosen = lesson.poses, request.method or default_method(request, lesson.poses)
    names = [chosen]
    if request.method is None and chosen == SIMPLE:
        print(f"{poses.pose_count} poses are too few for networks: a linear skin is fitted.")
    if poses.skeleton is not None and chosen != SIMPLE:
        names.append(SIMPLE)
    files = {name: folder.path / f"{name}.understudy" for name in names}
    fitted = {}
    for name, file in files.items():
        options = {"seed": str(request.seed)}
        if name == chosen:
            options |= request.options
        work = partial(_fit, name, file, options, request, lesson, progress)
        fitted[name] = folder.step(f"fit {name}", [file], work)["seconds"]
    if lesson.own is not None:
        made = with_source(lesson.own, lesson.made_by)
        file = files[made.method] = folder.path / f"{made.method}.understudy"
        folder.step("convert", [file], partial(write_deformer, made, file))
    loaded = load_deformers(list(files.values()))
    deformers = dict(zip(files.values(), loaded.values()))
    # Rows have the name of the method, which `auto` chooses.
    row = dict(zip(files, loaded))
    test = lesson.cases(deformers)
    seconds = {row[name]: taken for name, taken in fitted.items()}
    results = _measure(folder, list(files.values()), test, progress, seconds)
    best = chosen
    error = {name: overall(results, row[name])["mean"] for name in files}
    if len(names) > 1:
        worse = error[chosen] > error[SIMPLE]
        best = SIMPLE if worse and request.method is None else chosen
        share = f"{digits3(100 * error[chosen] / error[SIMPLE])} %" if error[SIMPLE] else "more"
        fit = row[chosen]
        print(f"The mean error of {fit} is {share} of linear blend skinning's.")
        if best != chosen:
            print(f"So {SIMPLE} is kept. More poses, or poses nearer to the tests, help {fit}.")
    # The skin of the file says which bones carry a part; fitted weights may be on any bone.
    skinned = lesson.own or deformers[files[best]]
    missed = {
        name: _unexplained(test, skinned, [r for r in results if r.method == row[name]])
        for name in files
    }
    if lesson.own is not None:
        own = lesson.own.method
        if (len(missed[own]), error[own]) < (len(missed[best]), error[best]):
            best = own
            print("The skin and the blend shapes that the file has are kept.")
    for found in missed[best]:
        print(found.warning(test.mesh.unit, poses.pose_count))
    learned = folder.file(".understudy")
    folder.step(f"keep {best}", [learned], partial(_copy, files[best], learned))
    return learned


def default_method(request: Request, poses: Poses) -> str:
    """The method where the user names none.

    Few poses suit a skin alone. Options that `auto` does not have are those of the method that
    suits the poses; so is an error of a part.
    """
    suits = method_for(poses)
    own = {option.name for option in fields(method_type(AUTO).Config)}
    others = request.parts.errors or set(request.options) - own - {PRESET}
    return suits if suits == SIMPLE or others or PRESET in request.options else AUTO


def _unexplained(
    test: CaseSet, skinned: Deformer, results: Sequence[CaseResult]
) -> list[Unexplained]:
    """The parts that a stand-in does not follow, each where it is worst.

    skinned  whose skin says which bones carry a part
    results  of the stand-in
    """
    worst: dict[str, Unexplained] = {}
    for result in results:
        poses = test.cases.get(result.case)
        # The animations of a rig are evaluated when they are measured, and not again.
        if not isinstance(poses, Poses) or result.per_vertex_mean is None:
            continue
        for found in unexplained_parts(poses, skinned, result.per_vertex_mean):
            if found.part not in worst or found.error > worst[found.part].error:
                worst[found.part] = found
    return list(worst.values())


def _fit(
    method: str,
    out: Path,
    options: Mapping[str, str],
    request: Request,
    lesson: Lesson,
    progress: TerminalProgress,
) -> None:
    decides = decides_storage(method_type(method))
    if decides and request.full_precision:
        options = {"storage": "float32", **options}
    job = FitJob.of(method, out, options)
    errors = request.parts.errors if method != SIMPLE else {}
    parts = replace(request.parts, errors=errors)
    made = fit_poses(job, lesson.poses, lesson.made_by, "auto", parts, progress)
    if not decides and not request.full_precision:
        made = compact(made, without_parts(lesson.poses, parts.without))
    job.write(made)


def _measure(
    folder: JobFolder,
    files: Sequence[Path],
    test: CaseSet,
    progress: TerminalProgress,
    seconds: Mapping[str, float] | None = None,
) -> list[CaseResult]:
    """Measure the files; the report and the figures go to the folder."""
    outputs = Outputs(
        f"understudy learn -o {folder.path.name}",
        folder.path / "report.html",
        folder.path / "errors.json",
    )
    return measure_files(files, test, outputs, progress, seconds)


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)


def name_of_source(sources: Sequence[str]) -> str:
    """What the character's files are called.

    >>> name_of_source(["scenes/hero.blend"]), name_of_source(["rigs/lid.py:Lid"])
    ('hero', 'lid')
    >>> name_of_source(["my_package.rigs:Lid"])
    'Lid'
    """
    first = sources[0]
    where, _, kind = first.rpartition(":")
    if where.endswith(".py"):
        text = where
    else:
        text = kind if where and kind.isidentifier() else first
    name = Path(text.rstrip("/*")).stem.replace("*", "").strip("._- ")
    return name or "character"
