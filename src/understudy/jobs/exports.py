"""The files for other programs that a job writes beside its stand-in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, distinct_names
from understudy.evaluation.metric_catalogue import size_text
from understudy.export.character import ExportSettings, engine_character
from understudy.export.errors import Errors, about_lines
from understudy.export.job import ExportJob
from understudy.io.files import file_size
from understudy.io.registry import format_of, write_character, write_deformer
from understudy.io.sequences import file_name
from understudy.jobs.folder import JobFolder
from understudy.rigs.base import Rig
from understudy.system.progress import SILENT, Progress


@dataclass(frozen=True)
class Exported:
    """Files that were written: one, or one per clip.

    sizes  a line for each: its path and size
    about  what they hold and what they lose, as lines
    """

    sizes: Sequence[str]
    about: Sequence[str]


@dataclass(frozen=True, eq=False)
class Exports:
    """Writes a stand-in for other programs; what the files hold is computed once.

    file        the stand-in
    folder      of its job: a file that is there is not written again
    clips, motions, rig   as in `ExportJob`
    sequence    the mesh sequence that it was compressed from
    keep_bones  whether an engine's file has the bones of the stand-in, not one skeleton
    seed        of the fit of that skeleton
    """

    file: Path
    folder: JobFolder
    clips: Sequence[str] = ()
    motions: Sequence[Poses] = ()
    rig: Rig | None = None
    sequence: Poses | None = None
    keep_bones: bool = False
    seed: int = 0
    _made: dict[bool, tuple[Character, Errors]] = field(default_factory=dict, init=False)

    def write(self, suffix: str, progress: Progress = SILENT) -> Exported:
        """Write the file with this suffix, such as `glb`; an error says why it cannot hold it."""
        target = self.folder.file(f".{suffix.lstrip('.')}")
        work = partial(self._write, target, progress)
        facts = self.folder.step(f"export {suffix}", [target], work)
        return Exported(facts["sizes"], facts["about"])

    @cached_property
    def _deformer(self) -> Deformer:
        return Deformer.load(self.file)

    def _character(self, target: Path, progress: Progress) -> tuple[Character, Errors]:
        """The character for a file, and its errors; files of vertices have one of their own."""
        kind = not format_of(target, to="write").holds_skin
        if kind not in self._made:
            if self.sequence is not None and not kind:
                self._made[kind] = engine_character(
                    self.sequence,
                    self._deformer,
                    keep_bones=self.keep_bones,
                    seed=self.seed,
                    name=target.stem,
                    progress=progress,
                )
            else:
                job = ExportJob(ExportSettings(), self.clips, self.motions, self.rig)
                self._made[kind] = job.make(self._deformer, target, progress)
        return self._made[kind]

    def _write(self, target: Path, progress: Progress) -> dict[str, Any]:
        """Write one file, or one per clip where the format holds one clip; return what was done."""
        known = format_of(target, to="write")
        if known.write_deformer is not None:
            write_deformer(self._deformer, target)
            return {"sizes": [_size_line(target)], "about": []}
        character, errors = self._character(target, progress)
        about = about_lines(character, errors)
        if not known.one_clip or len(character.clips) < 2:
            about = [*about, *write_character(character, target)]
            return {"sizes": [_size_line(target)], "about": about}
        names = distinct_names([file_name(clip.name) for clip in character.clips])
        files = [target.with_name(f"{target.stem}_{name}{target.suffix}") for name in names]
        for file, clip in zip(files, character.clips):
            lost = write_character(character.with_clips([clip]), file)
        about = [*about, *lost]
        sizes = [_size_line(file) for file in files]
        return {"sizes": sizes, "about": about, "files": [file.name for file in files]}


def _size_line(file: Path) -> str:
    return f"{file}: {size_text(file_size(file))}"
