"""From what the user names to a scene: files of stand-ins, a rig, or poses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.export.clips import distinct_clips
from understudy.export.job import ALL, ExportJob
from understudy.methods.fitting import rig_of
from understudy.rigs.base import Rig, animate, animation_names
from understudy.viewer.packing import Container
from understudy.viewer.scene import Model, deformer_scene


@dataclass(frozen=True)
class ViewJob:
    """Which clips a scene of stand-ins has, and from which rig.

    clips    names of own clips of the files, or of animations of their rig; empty: all of them, or
             none where there are `motions`
    motions  files of bone motion, or recorded poses
    rig      the rig that the files were learned from, or its name; None: the one in the first file
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
            clips = (
                job.source_clips(subject.deformer, rig, progress) if job.motions or names else []
            )
            models.append(
                Model(subject.label, subject.deformer, distinct_clips(clips), subject.size)
            )
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
    """One stand-in to show: what the page calls it, and the bytes of its file where known."""

    label: str
    deformer: Deformer
    size: int | None = None


def title_of(path: str | Path, deformer: Deformer | None = None) -> str:
    """Return what a page calls a character: its rig where the file says it, else the file's name.

    >>> title_of("out/hero.understudy")
    'hero'
    """
    rig = None if deformer is None else rig_of(deformer)
    return Path(path).stem if rig is None else rig.partition("?")[0]
