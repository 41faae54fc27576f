"""`learn`: the whole job, from a rig or a file to a stand-in whose error is known.

Sample the rig or take the recorded poses, hold some out, fit a method and linear blend skinning,
measure both on what was held out, and keep the better one. Each step is done once for a folder: an
interrupted call continues.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from understudy.core.deformer import Deformer
from understudy.core.noun import OneLine
from understudy.core.parts import without_parts
from understudy.core.poses import Poses, content_of
from understudy.core.posing import PosingSkeleton
from understudy.core.provenance import with_source
from understudy.evaluation.coverage import unmoved_warning
from understudy.evaluation.shading import need_drawing
from understudy.io.pose_store import occupied
from understudy.io.registry import ReadOptions, read_poses, source_provenance, write_deformer
from understudy.jobs.choosing import (
    WIDE,
    choose,
    comparison,
    contender,
    exactness,
    missed_parts,
    verdict,
)
from understudy.jobs.compressing import Compressed, compress, trial_of_sequence
from understudy.jobs.exports import Exported, Exports
from understudy.jobs.first_look import FEW, FIRST_POSES, first_look
from understudy.jobs.fitting import (
    RIG_OF_POSES,
    SIMPLE,
    Fit,
    Options,
    PartOptions,
    method_for,
    method_with,
    option_names,
    refuse_found_bones,
)
from understudy.jobs.folder import JobFolder
from understudy.jobs.measuring import (
    Measured,
    Outputs,
    Trial,
    measure,
    shown_poses,
    trial_of_rig,
)
from understudy.jobs.planning import POSES, plan_for
from understudy.jobs.source import (
    CharacterSource,
    Place,
    PosesSource,
    RigSource,
    SequenceSource,
    Source,
    can_be_sent,
    file_facts,
    read,
)
from understudy.jobs.split import check_held_out, split_animations, split_poses
from understudy.methods.base import PRESET, Method
from understudy.methods.character_deformer import (
    OWN_SKIN,
    deformer_of_character,
    deformer_of_skin,
)
from understudy.methods.correctives.storage import decides_storage, stored
from understudy.methods.posing_fitting import can_pose, with_posing
from understudy.methods.registry import method_type
from understudy.rigs.base import ExternalRig, Rig, animation_names
from understudy.rigs.blender.options import BlenderOptions
from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.parallel_sampling import need_same_rig, sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress
from understudy.viewer.subjects import Subject, load_subjects

AUTO = "auto"
FEW_BONES = 4  # linear blend skinning has as many influences


@dataclass(frozen=True, eq=False, repr=False)
class Result(OneLine):
    """What was learned.

    file      the stand-in
    measured  on animation that took no part in the fit
    notes     sentences for the user, in the order in which they came up; warnings begin with
              "Warning"
    """

    file: Path
    measured: Measured
    notes: Sequence[str]
    _exports: Exports = field(repr=False)

    @property
    def deformer(self) -> Deformer:
        """The stand-in, read from its file."""
        return Deformer.load(self.file)

    def export(self, suffix: str, progress: Progress = SILENT) -> Exported:
        """Write the stand-in beside its file for another program: `glb`, `usd`, `fbx`, `onnx`.

        It has the clips that it was measured on or learned from.
        """
        return self._exports.write(suffix, progress)


@checks.typed
def learn(
    source: Source | Rig | Poses | Place | Sequence[Place],
    out: str | Path,
    *,
    method: str | Method | None = None,
    options: Options | None = None,
    count: int = POSES,
    around: Sequence[str] = (),
    modes: str | Path | None = None,
    active: float | None = None,
    plan: SamplePlan | None = None,
    ranges: str | Path | None = None,
    processes: int | None = None,
    held_out: Sequence[str] = (),
    parts: PartOptions | None = None,
    seed: int = 0,
    full_precision: bool = False,
    overwrite: bool = False,
    reading: ReadOptions | None = None,
    blender: BlenderOptions | None = None,
    progress: Progress = SILENT,
) -> Result:
    """Learn a character: from a rig, recorded poses, a mesh sequence or a character's file.

    source     what `read` takes, or returned
    out        folder for the stand-in, the report and what a further call continues from
    method     None: `auto`, or what suits the source (see `default_method`)
    options    of the method, where it is named or chosen: {"epochs": 50}
    count      of poses to sample from a rig
    around, modes, active  which these are, where they differ from what suits the rig; `plan_for`
    plan       all of this in one
    ranges     TOML file of training ranges of a rig
    processes  worker processes that sample; None: one for each processor
    held_out   clips to measure on; empty: chosen
    parts      parts to leave out, or to learn with another error
    seed       of all random numbers; the seed of a plan or of a method's config wins
    full_precision  keep 32-bit numbers also where 16 bits do not change the error
    overwrite  start anew in a folder that holds another job
    reading, blender  as in `read`

    In a script, call it under `if __name__ == "__main__":`, because worker processes import the
    script.
    """
    need_drawing()
    if method is not None:  # refuses unknown names and options before any work
        method_with(method, options or {})
    source = read(source, reading, blender, progress)
    parts = parts or PartOptions()
    as_it_is = method is None and parts == PartOptions()
    if isinstance(source, CharacterSource) and (source.has_cache or not as_it_is):
        source = source.recorded()
    if not isinstance(source, SequenceSource) and method is not None:
        refuse_found_bones(type(method_with(method, options or {})), source.name)
    if isinstance(source, RigSource):
        check_held_out(source.rig, held_out)
        parts.check(source.rig.mesh)
        plan = plan or plan_for(
            source.rig, count, seed, held_out, around=around, modes=modes, active=active
        )
        if method is None:
            has_bones = source.rig.skeleton is not None
            suits = default_method(has_bones, plan.count, options or {}, bool(parts.errors))
            method_with(suits, options or {})
    facts = {
        **source.facts,
        "method": method.name if isinstance(method, Method) else method,
        "options": _plain(method.config if isinstance(method, Method) else options or {}),
        "seed": seed,
        "plan": plan.facts() if isinstance(source, RigSource) and plan else None,
        "held_out": list(held_out),
        "without": list(parts.without),
        "part_errors": dict(parts.errors),
        "ranges": None if ranges is None else file_facts({Path(ranges).name: Path(ranges)}),
        "full_precision": full_precision,
    }
    folder = JobFolder(Path(out), source.name, facts, overwrite)
    job = _Job(
        folder, method, options or {}, seed, parts, full_precision, tuple(held_out), progress
    )
    if isinstance(source, RigSource) and plan is not None:
        more: dict[str, Any] = {"held_out": held_out, "ranges": ranges, "processes": processes}
        return job.learn_rig(source, plan, partial(sample_rig, source, **more, progress=progress))
    if isinstance(source, CharacterSource):
        return job.convert(source)
    if isinstance(source, SequenceSource):
        return job.compress(source)
    assert isinstance(source, PosesSource)
    return job.learn_poses(source)


def default_method(
    has_bones: bool, pose_count: int, options: Collection[str] = (), parts: bool = False
) -> str:
    """The method where the user names none.

    options  names of the options that are given
    parts    whether parts have errors of their own

    Few poses suit a skin alone. Options that `auto` does not have are those of the method that
    suits the poses; so is an error of a part.
    """
    suits = method_for(has_bones, pose_count)
    others = parts or set(options) - option_names(method_type(AUTO)) - {PRESET}
    return suits if suits == SIMPLE or others or PRESET in options else AUTO


def _plain(options: Any) -> dict[str, str]:
    """Options by name as texts, for the record of a job."""
    named = options if isinstance(options, Mapping) else vars(options)
    return {name: str(value) for name, value in named.items()}


@dataclass(frozen=True, eq=False)
class Lesson:
    """What to fit, and what to measure on.

    poses    to fit
    made_by  their provenance
    trial    stand-ins -> what to measure them on
    rig      the live rig, its name, or None
    own      a stand-in that needs no fit: the skin and the blend shapes of the file; or None
    """

    poses: Poses
    made_by: Mapping[str, Any]
    trial: Callable[[Sequence[Subject]], Trial]
    rig: Rig | str | None = None
    own: Deformer | None = None

    def add_own(
        self,
        folder: JobFolder,
        files: dict[str, Path],
        without: Sequence[str] = (),
        posing: PosingSkeleton | None = None,
    ) -> None:
        """Add the skin that the source has to `files`, where it has one.

        without  parts that it is cut by
        posing   what poses it without its rig
        """
        own = self.own or deformer_of_skin(without_parts(self.poses, without))
        if own is None:
            return
        if posing is not None and can_pose(own, self.poses):
            own = replace(own, posing=posing)
        made = with_source(own, self.made_by)
        file = files[made.method] = folder.path / f"{made.method}.understudy"
        folder.step("convert", [file], partial(write_deformer, made, file))


@dataclass(frozen=True, eq=False)
class _Job:
    """One call of `learn`; fields as its arguments."""

    folder: JobFolder
    method: str | Method | None
    options: Options
    seed: int
    parts: PartOptions
    full_precision: bool
    held_out: Sequence[str]
    progress: Progress
    notes: list[str] = field(default_factory=list)

    def learn_rig(
        self, source: RigSource, plan: SamplePlan, sample: Callable[..., Lesson]
    ) -> Result:
        """Sample a rig, fit, and measure on its animations, or on random poses.

        sample  samples it into a folder by a plan
        """
        for note in source.notes:
            self._say(f"note: {note}")
        rig = source.rig
        self._look_first(rig, plan, sample)
        file, measured = self._fit_and_measure(sample(self.folder, plan))
        clips = ("all",) if animation_names(rig) else ()
        return self._result(file, measured, clips=clips, rig=rig)

    def _look_first(self, rig: Rig, plan: SamplePlan, sample: Callable[..., Lesson]) -> None:
        """Fit few poses of a slow rig quickly, so that there is something to see early."""
        learned = self.folder.file(".understudy")
        slow = isinstance(rig, ExternalRig) and rig.skeleton is not None
        many = plan.count >= FEW * FIRST_POSES
        there = learned.exists() and not self.folder.is_anew
        if not slow or not many or self.method is not None or there:
            return
        folder = self.folder.inside("preview")
        lesson = sample(folder, replace(plan, count=FIRST_POSES))
        said = first_look(lesson, folder, learned, self.seed, self.parts.without, self.progress)
        if said:
            self._say(f"{said} until all {plan.count} poses are learned.")

    def learn_poses(self, source: PosesSource) -> Result:
        """Fit recorded poses, and measure on some that are held out."""
        poses, made_by, parts = source.poses, source.made_by, self.parts
        job = self
        if parts.without:
            poses = without_parts(poses, parts.without)
            made_by = {**made_by, "without_parts": list(parts.without)}
            job = replace(self, parts=replace(parts, without=()))
        lesson = recorded(replace(source, poses=poses, made_by=made_by), self.held_out)
        lesson = replace(lesson, own=None) if parts.without else lesson
        file, measured = job._fit_and_measure(lesson)
        animated = poses.frame_rate is not None or bool(poses.spans)
        return self._result(file, measured, motions=(poses,) if animated else ())

    def compress(self, source: SequenceSource) -> Result:
        """Compress a mesh sequence: bones, weights and clips."""
        file = self.folder.file(".understudy")
        given = isinstance(self.method, Method)
        options = {} if given else {"seed": self.seed, **self.options}
        more: dict[str, Any] = {"outputs": self._outputs(), "progress": self.progress}
        done: list[Compressed] = []

        def work() -> None:
            done.append(compress(source, file, method=self.method, options=options, **more))

        self.folder.step("compress", [file], work)
        measured = done[0].measured if done else None
        if measured is None:  # finished before
            measured = self._measure(load_subjects([file]), trial_of_sequence(source.poses))
        keep_bones = self.method is not None  # as `compress --method` does
        return self._result(
            file, measured, sequence=source.poses, keep_bones=keep_bones, seed=self.seed
        )

    def convert(self, source: CharacterSource) -> Result:
        """Take the skin and the blend shapes of a character's file as they are."""
        if not source.moves:
            raise InputError(f"{source.name}: nothing in it moves: no bones, no blend shapes")
        file, character = self.folder.file(".understudy"), source.character
        poses = character.poses()

        def work() -> None:
            made = deformer_of_character(character)
            if character.clips:
                made = with_posing(made, poses, self.progress)
            write_deformer(with_source(made, source.made_by), file)

        self.folder.step("convert", [file], work)
        note = (
            "The file holds a skin and blend shapes, which the stand-in takes as they are: nothing "
            "was learned. A vertex cache of the original (--cache) has more to learn from."
        )
        trial = Trial(character.name, character.mesh, {character.name: poses}, [note])
        measured = self._measure(load_subjects([file]), trial)
        return self._result(file, measured, motions=(poses,) if character.clips else ())

    def _fit_and_measure(self, lesson: Lesson) -> tuple[Path, Measured]:
        """Fit the method and plain skins, measure them all, and keep what loses to no other.

        The skin that the source has is measured too; where it is exact, nothing is fitted.
        """
        poses, asked = lesson.poses, self.method
        if asked is None:
            has_bones, count = poses.skeleton is not None, poses.pose_count
            asked = default_method(has_bones, count, self.options, bool(self.parts.errors))
            if asked == SIMPLE:
                self._say(
                    f"{poses.pose_count} poses are too few for networks: a linear skin is fitted."
                )
        chosen = asked.name if isinstance(asked, Method) else asked
        files, seconds = {}, {}
        posing: PosingSkeleton | None = None
        exact = False
        for name, method in {chosen: asked, **self._skins(chosen, poses)}.items():
            file = files[name] = self.folder.path / f"{name}.understudy"
            work = partial(self._fit, method, name == chosen, file, posing, lesson)
            seconds[name] = self.folder.step(f"fit {name}", [file], work)["seconds"]
            if name == chosen and chosen == AUTO and Deformer.load(file).method == OWN_SKIN:
                exact = True
                break
            if posing is None:  # the bones move alike for all
                posing = Deformer.load(file).posing
        if not exact:
            lesson.add_own(self.folder, files, self.parts.without, posing)
        subjects = dict(zip(files, load_subjects(list(files.values()))))
        trial = lesson.trial(list(subjects.values()))
        trial = replace(trial, learned=shown_poses(without_parts(poses, self.parts.without)))
        warning = unmoved_warning(subjects[chosen].deformer, poses.skin)
        if warning:
            trial = replace(trial, notes=[warning, *trial.notes])
        # Rows have the name of the method, which `auto` chooses.
        took = {subjects[name].label: value for name, value in seconds.items()}
        measured = self._measure(list(subjects.values()), trial, took)
        if exact:
            best, own = chosen, subjects[chosen]
            self._say(exactness(contender(best, own, measured), own.deformer, trial.mesh))
        else:
            best = self._best(chosen, subjects, measured, lesson, trial)
        learned = self.folder.file(".understudy")
        work = partial(_copy, files[best], learned)
        self.folder.step(f"keep {best}", [learned], work)
        return learned, measured

    def _skins(self, chosen: str, poses: Poses) -> dict[str, str | Method]:
        """The plain skins that the method is compared with, by the names of their files."""
        skeleton = poses.skeleton
        skins: dict[str, str | Method] = {}
        if skeleton is not None and chosen != SIMPLE:
            skins[SIMPLE] = SIMPLE
        if skeleton is not None and self.method is None and skeleton.bone_count > FEW_BONES:
            skins[WIDE] = method_with(SIMPLE, {"influences": 8, "seed": self.seed})
        return skins

    def _best(
        self,
        chosen: str,
        subjects: Mapping[str, Subject],
        measured: Measured,
        lesson: Lesson,
        trial: Trial,
    ) -> str:
        """The stand-in to keep, by its name in `subjects`."""
        # The skin of the file says which bones carry a part; fitted weights may be on any bone.
        skinned = lesson.own or subjects[chosen].deformer
        missed, found = {}, {}
        for name, subject in subjects.items():
            rows = [row for row in measured.rows if row.method == subject.label]
            missed[name] = missed_parts(trial, skinned, rows)
            found[name] = replace(contender(name, subject, measured), missed=len(missed[name]))
        learned = found.pop(chosen)
        best = learned
        if found:
            skins = list(found.values())
            self._say(comparison(learned, skins))
            best = choose(learned, skins) if self.method is None else learned
            if best != learned:
                self._say(verdict(best, learned))
        for one in missed[best.name]:
            self._say(one.warning(trial.mesh.unit, lesson.poses.pose_count))
        return best.name

    def _fit(
        self,
        method: str | Method,
        is_chosen: bool,
        out: Path,
        posing: PosingSkeleton | None,
        lesson: Lesson,
    ) -> None:
        options: dict[str, Any] = {}
        if isinstance(method, str):
            options = {"seed": self.seed, **(self.options if is_chosen else {})}
        kind = method_type(method) if isinstance(method, str) else type(method)
        decides = decides_storage(kind)
        if decides and self.full_precision and isinstance(method, str):
            options = {"storage": "float32", **options}
        fitting = Fit.of(method, out, options)
        parts = self.parts if is_chosen else replace(self.parts, errors={})
        made = fitting.run(
            lesson.poses, lesson.made_by, lesson.rig, parts, posing, progress=self.progress
        )
        if not decides and not self.full_precision:
            made = stored(made, "auto", without_parts(lesson.poses, parts.without))
        fitting.write(made)

    def _measure(
        self,
        subjects: Sequence[Subject],
        trial: Trial,
        seconds: Mapping[str, float] | None = None,
    ) -> Measured:
        """Measure stand-ins; the report and the figures go to the folder."""
        return measure(subjects, trial, self._outputs(), seconds, self.progress)

    def _outputs(self) -> Outputs:
        return Outputs(
            f"understudy learn -o {self.folder.path.name}",
            self.folder.path / "report.html",
            self.folder.path / "errors.json",
        )

    def _say(self, text: str) -> None:
        self.notes.append(text)
        self.progress.say(text)

    def _result(self, file: Path, measured: Measured, **exports: Any) -> Result:
        sources = [*exports.get("motions", ()), exports.get("sequence")]
        dress = [name for poses in sources if poses is not None for name in poses.mesh.dress()]
        dress += ["clips"] if exports.get("motions") else []
        if dress:
            self._say(
                f"{file.name} holds no {', '.join(dict.fromkeys(dress))}; exports take them from "
                "the file that has them (--motion, --looks)."
            )
        return Result(file, measured, tuple(self.notes), Exports(file, self.folder, **exports))


def recorded(source: PosesSource | SequenceSource, held_out: Sequence[str]) -> Lesson:
    """Recorded poses, measured on those that are held out; a mesh sequence on itself."""
    if isinstance(source, SequenceSource):
        whole = trial_of_sequence(source.poses)
        return Lesson(source.poses, source.made_by, lambda _: whole)
    split = split_poses(source.poses, held_out)
    trial = Trial(", ".join(split.held_out), source.poses.mesh, split.held_out, [split.note])
    live = RIG_OF_POSES if isinstance(source.rig, str) else source.rig
    return Lesson(split.fit, source.made_by, lambda _: trial, live, source.own)


def sample_rig(
    source: RigSource,
    folder: JobFolder,
    plan: SamplePlan,
    held_out: Sequence[str],
    ranges: str | Path | None = None,
    processes: int | None = None,
    progress: Progress = SILENT,
) -> Lesson:
    """Sample a rig into the folder's pose store; it is measured on its animations.

    Those that the plan samples around take no part in that, where others are left.
    """
    store, rig = folder.path / "poses.zarr", source.rig
    by_name = isinstance(source.build, str)
    if not by_name and not isinstance(rig, ExternalRig) and not can_be_sent(rig):
        processes = 1  # a rig in memory that worker processes cannot be given

    def sample() -> None:
        sample_poses(source.build, plan, store, processes, progress, ranges, folder.is_anew)

    if occupied(store) and not folder.is_anew:
        need_same_rig(store, rig)
    folder.step("sample", [store], sample)
    poses = read_poses(store)
    folder.settle_sample(content_of(poses))
    for said in poses.notes:
        progress.say(f"note: {said}")
    tests, note = _tests(rig, plan, held_out)
    return Lesson(
        poses,
        source_provenance(store),
        lambda subjects: trial_of_rig(rig, tests, subjects, note),
        # A rig of Blender is slow, and the poses tell nearly as much.
        RIG_OF_POSES if isinstance(rig, BlenderRig) else rig,
    )


def _tests(
    rig: Rig, plan: SamplePlan, held_out: Sequence[str]
) -> tuple[Sequence[str] | Mapping[str, int], str]:
    """The animations of a rig to measure on, and what to say of them."""
    if not plan.animation_share:
        return held_out, ""
    split = split_animations(rig, held_out)
    if (split.around, split.until) == (plan.animations, plan.until):
        return split.tests, split.note
    around = plan.animations or animation_names(rig)
    left = [name for name in held_out or animation_names(rig) if name not in around]
    if left:
        return left, f"Sampled around {', '.join(around)}; measured on {', '.join(left)}."
    return held_out, (
        "Warning: measured on animations that were sampled around: others may have a larger error."
    )


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
