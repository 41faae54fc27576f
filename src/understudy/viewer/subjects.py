"""From what the user names (files, a rig, poses), or what a report measured, to a scene."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.core.provenance import rig_of
from understudy.export.clips import SourceClip, distinct_clips, own_clips, poses_clips
from understudy.export.job import ALL, ExportJob
from understudy.io.registry import read_poses
from understudy.io.understudy import SUFFIX
from understudy.rigs.base import Rig, animate, animation_names
from understudy.rigs.registry import is_rig, load_rig
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress
from understudy.viewer.packing import Container
from understudy.viewer.page import write_page
from understudy.viewer.scene import Model, deformer_scene, poses_scene, rig_scene

Case = Poses | Callable[[], Poses]
MOST_FRAMES = 600  # of all cases together
_FEWEST_FRAMES = 30  # of a case, however many there are
_RESTLESS = 0.05  # of the size: frames whose vertices move further on average are single poses
_JUMPS = 1.4  # of the change from frame to frame: a motion of four frames has as much; poses 1.7
_SLOW_RATE = 2.0  # frames per second of single poses


@dataclass(frozen=True)
class ViewJob:
    """Which clips a scene of stand-ins has, and from which rig.

    Fields are as in `ExportJob`; without clips and motions, all clips and animations are shown.
    """

    clips: Sequence[str] = ()
    motions: Sequence[str | Poses] = ()
    rig: str | Rig | None = None

    def scene(
        self, subjects: Sequence[Subject], title: str, *, served: bool = False,
        progress: Progress = SILENT,
    ) -> tuple[Container, Rig | None]:  # fmt: skip
        """Return the scene of some stand-ins of one character, and its rig if there is one.

        served  whether a server stays with the page: it evaluates the rig, and models keep the
                precision of their files
        """
        rig = self.load_rig(subjects[0].deformer)
        known = () if rig is None else animation_names(rig)
        own = {clip.name for subject in subjects for clip in subject.deformer.clips}
        wanted = [n for n in self.clips if n != ALL]
        for name in wanted:
            checks.one_of(name, "clip", (*sorted(own), *known, ALL))
        everything = ALL in self.clips or not (self.clips or self.motions)
        animations = [n for n in known if n not in own and (everything or n in wanted)]
        # The rig is evaluated once for all stand-ins.
        recorded = [animate(rig, name) for name in animations] if rig is not None else []
        models = []
        for subject in subjects:
            names = [c.name for c in subject.deformer.clips if everything or c.name in wanted]
            job = ExportJob(clips=names, motions=[*recorded, *self.motions], rig=rig)
            wants = bool(job.motions or names)
            clips = distinct_clips(
                job.source_clips(subject.deformer, rig, progress) if wants else ()
            )
            models.append(Model(subject.label, subject.deformer, clips, subject.size))
        live = rig if served else None
        return deformer_scene(models, title, half=not served, rig=live), rig

    def load_rig(self, deformer: Deformer) -> Rig | None:
        """Return the rig of a deformer; None where it cannot be loaded and nobody asked for it."""
        try:
            return ExportJob(rig=self.rig).load_rig(deformer)
        except InputError:
            if self.rig is not None:
                raise
            return None


@dataclass(frozen=True, eq=False)
class Subject:
    """One stand-in to show or to measure.

    label     what pages and tables call it
    deformer  the stand-in
    size      bytes of its file, where it has one
    file      or None
    """

    label: str
    deformer: Deformer
    size: int | None = None
    file: Path | None = None

    @property
    def who(self) -> str:
        """What messages call it."""
        return self.label if self.file is None else str(self.file)


def load_subjects(files: Sequence[Path]) -> list[Subject]:
    """Return the stand-ins of some files: named by method, or by file where two share a method."""
    loaded = [(file, Deformer.load(file)) for file in files]
    methods = [deformer.method for _, deformer in loaded]
    found: dict[str, Subject] = {}
    for file, deformer in loaded:
        label = deformer.method if methods.count(deformer.method) == 1 else file.stem
        if label in found:
            raise InputError(f"{file}: another file is called {label!r} too; rename one of them")
        found[label] = Subject(label, deformer, file.stat().st_size, file)
    return list(found.values())


def scene_of(
    things: Sequence[str], job: ViewJob, progress: Progress = SILENT
) -> tuple[Container, Rig | None]:
    """Return what to show of files, a rig or poses, and the live rig behind it if there is one."""
    files = [thing for thing in things if thing.lower().endswith(SUFFIX)]
    if files and len(files) < len(things):
        raise InputError(
            "view: name .understudy files, or one rig, or poses; give the original of a file with "
            "--rig or --motion"
        )
    if files:
        subjects = load_subjects([Path(file) for file in files])
        return job.scene(
            subjects, title_of(files[0], subjects[0].deformer), served=True, progress=progress
        )
    if job.clips or job.motions or job.rig is not None:
        raise InputError("--clip, --motion and --rig belong to .understudy files; leave them out")
    if any(is_rig(thing) for thing in things):
        if len(things) > 1:
            raise InputError(f"view: one rig at a time, got {len(things)}")
        rig = load_rig(things[0])
        return rig_scene(rig), rig
    return poses_scene(read_poses(list(things), progress=progress), title_of(things[0])), None


def title_of(path: str | Path, deformer: Deformer | None = None) -> str:
    """Return what a page calls a character: its rig where the file says it, else the file's name.

    >>> title_of("out/hero.understudy")
    'hero'
    """
    rig = None if deformer is None else rig_of(deformer)
    return Path(path).stem if rig is None else rig.partition("?")[0]


class KeptFrames:
    """The first frames of some cases, kept while `cases` are measured.

    cases  name -> the original poses, or a function that returns them
    """

    def __init__(self, cases: Mapping[str, Case]):
        self._poses: dict[str, Poses] = {}
        self._left = MOST_FRAMES
        self.cases: Mapping[str, Callable[[], Poses]] = {
            name: self._keeping(name, case) for name, case in cases.items()
        }

    def _keeping(self, name: str, case: Case) -> Callable[[], Poses]:
        def evaluate() -> Poses:
            poses = case() if callable(case) else case
            if name not in self._poses:
                count = min(poses.pose_count, max(self._left, _FEWEST_FRAMES))
                self._left -= count
                part = poses.between(0, count)
                self._poses[name] = replace(part, vertices=part.read_poses(0, count).copy())
            return poses

        return evaluate

    def frames(self, count: int) -> np.ndarray:
        """Up to `count` original frames (n,V,3), evenly from those that were kept."""
        whole = [poses.read_poses(0, poses.pose_count) for poses in self._poses.values()]
        each = np.concatenate(whole)
        return each[evenly(len(each), count)]

    def scene(self, deformers: Mapping[str, Deformer], title: str) -> Container:
        """Return the scene of the stand-ins that were measured; the first is compared."""
        models = []
        for label, deformer in deformers.items():
            clips = [clip for n, p in self._poses.items() for clip in _clips(deformer, p, n)]
            models.append(Model(label, deformer, distinct_clips(clips)))
        return deformer_scene(models, title)

    def write_page(self, deformers: Mapping[str, Deformer], title: str, path: str | Path) -> int:
        """Write the page of `scene`; return its size in bytes."""
        return write_page(self.scene(deformers, title), path)


def page_beside(report: str | Path) -> Path:
    """Return where the page of a report goes.

    >>> page_beside("out/report.html").name, page_beside("hero.html").name
    ('page.html', 'hero_page.html')
    """
    path = Path(report)
    return path.with_name("page.html" if path.stem == "report" else f"{path.stem}_page.html")


def _clips(deformer: Deformer, poses: Poses, name: str) -> list[SourceClip]:
    """Return some frames of a case as clips of a stand-in."""
    calm = lambda clip: replace(clip, frame_rate=_rate(clip, deformer.mesh.height))
    if poses.skeleton is not None or poses.controls is not None:
        return [calm(clip) for clip in poses_clips(deformer, poses, name)]
    # A mesh sequence: the clips of the stand-in are its frames, one after the other.
    clips, start = [], 0
    for clip in own_clips(deformer):
        count = min(clip.frame_count, poses.pose_count - start)
        if count <= 0 or clip.world_from_bone is None:
            break
        original = poses.read_poses(start, start + count)
        bones = clip.world_from_bone[:count]
        clips.append(calm(replace(clip, world_from_bone=bones, original=original)))
        start += clip.frame_count
    return clips


def _rate(clip: SourceClip, size: float) -> float:
    """Return the frame rate of a clip; low if it consists of unrelated poses.

    Of unrelated poses, the change from frame to frame changes more than the shape does.
    """
    if clip.original is None or len(clip.original) < 3:
        return clip.frame_rate
    step, change = (
        np.linalg.norm(np.diff(clip.original[:20], n, axis=0), axis=2).mean() for n in (1, 2)
    )
    unrelated = step > _RESTLESS * size and change > _JUMPS * step
    return _SLOW_RATE if unrelated else clip.frame_rate
