"""A first look at a slow rig: a quick fit of few poses, before thousands are learned."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.core.parts import without_parts
from understudy.core.provenance import with_source
from understudy.io.registry import write_deformer
from understudy.jobs.choosing import choose, comparison, contender
from understudy.jobs.fitting import method_with
from understudy.jobs.folder import JobFolder
from understudy.jobs.measuring import Outputs, measure, shown_poses
from understudy.methods.character_deformer import deformer_of_skin, is_exact
from understudy.system.progress import Progress
from understudy.viewer.subjects import load_subjects

if TYPE_CHECKING:
    from understudy.jobs.learning import Lesson

FIRST_POSES = 160
FEW = 4  # times as many poses have to follow, or the first look is not worth its time
_METHOD = "corrected_skin"
_QUICK = {"epochs": 12, "guard": False, "input_poses": 2}


def first_look(
    lesson: Lesson,
    folder: JobFolder,
    out: Path,
    seed: int,
    without: Sequence[str],
    progress: Progress,
) -> str:
    """Write a stand-in that is learned in seconds to `out`, and a page; return what to say of it.

    lesson   of few poses
    folder   for its files
    without  parts to leave out

    It is the skin that the rig has if that is better. Where that is exact, nothing is fitted, and
    there is nothing to say.
    """
    poses = without_parts(lesson.poses, without)
    own = deformer_of_skin(poses)
    if own is not None and is_exact(own, poses):
        return ""
    file = folder.path / f"{_METHOD}.understudy"

    def fit() -> None:
        made = method_with(_METHOD, {"seed": seed, **_QUICK}).fit(poses, progress=progress)
        write_deformer(with_source(made, lesson.made_by), file)

    folder.step("fit", [file], fit)
    files = {_METHOD: file}
    lesson.add_own(folder, files, without)
    subjects = load_subjects(list(files.values()))
    trial = replace(lesson.trial(subjects), learned=shown_poses(poses))
    report = folder.path / "report.html"
    measured = measure(subjects, trial, Outputs("", report), progress=progress)
    found = [contender(name, one, measured) for name, one in zip(files, subjects)]
    shutil.copyfile(files[choose(found[0], found[1:]).name], out)
    return (
        f"First look, from {poses.pose_count} poses: {measured.page}. "
        f"{comparison(found[0], found[1:])} The better one is {out},"
    )
