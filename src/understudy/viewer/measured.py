"""The page beside a report: the frames that were measured, kept while they are at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.export.clips import SourceClip, distinct_clips, own_clips, poses_clips
from understudy.viewer.packing import Container
from understudy.viewer.page import write_page
from understudy.viewer.scene import Model, deformer_scene

Case = Poses | Callable[[], Poses]
MOST_FRAMES = 600  # of all cases together
_FEWEST_FRAMES = 30  # of a case, however many there are
_RESTLESS = 0.05  # of the size: frames whose vertices move further on average are single poses
_SLOW_RATE = 2.0  # frames per second of single poses


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
    """Return the frame rate of a clip; low if it consists of unrelated poses."""
    if clip.original is None or len(clip.original) < 2:
        return clip.frame_rate
    some = clip.original[:20]
    step = np.linalg.norm(np.diff(some, axis=0), axis=2).mean()
    return _SLOW_RATE if step > _RESTLESS * size else clip.frame_rate
