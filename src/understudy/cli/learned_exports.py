"""The files for other programs that `understudy learn --to` writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from understudy.cli.export import about_lines
from understudy.cli.job_folder import JobFolder
from understudy.cli.output import file_size
from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses, distinct_names
from understudy.core.terminal_progress import TerminalProgress
from understudy.evaluation.metric_catalogue import size_text
from understudy.export.character import ExportSettings
from understudy.export.errors import Errors
from understudy.export.job import VERTEX_FILES, ExportJob
from understudy.export.sequence import engine_character
from understudy.io.registry import format_of, write_character, write_deformer
from understudy.io.sequence_writing import file_name
from understudy.rigs.base import Rig


@dataclass(frozen=True)
class Learned:
    """The stand-in, and what an export of it needs.

    clips       animations of its rig to bake
    motions     recorded motion to bake
    rig         that it was learned from
    sequence    the mesh sequence that it was compressed from
    keep_bones  whether an engine's file has the bones of the stand-in, not one skeleton
    seed        of the fit of that skeleton
    """

    file: Path
    clips: tuple[str, ...] = ()
    motions: tuple[Poses, ...] = ()
    rig: Rig | None = None
    sequence: Poses | None = None
    keep_bones: bool = False
    seed: int = 0


def export_all(learned: Learned, folder: JobFolder, wanted: Sequence[str]) -> None:
    """Write the stand-in in other formats. One that cannot hold it does not stop the others."""
    work = Exports(learned)
    said: list[str] = []
    refused: list[str] = []
    for suffix in wanted:
        target = folder.file(f".{suffix.lstrip('.')}")
        try:
            facts = folder.step(f"export {suffix}", [target], partial(work.write, target))
        except InputError as problem:
            refused.append(str(problem))
            continue
        print(facts["file"])
        if facts["about"] and facts["about"] != said:
            said = facts["about"]
            print("\n".join(said))
    if refused:
        raise InputError("\n".join(refused))


class Exports:
    """Files of a stand-in for other programs; what they hold is computed once."""

    def __init__(self, learned: Learned):
        self._learned = learned
        self._made: dict[bool, tuple[Character, Errors]] = {}

    @cached_property
    def _deformer(self) -> Deformer:
        return Deformer.load(self._learned.file)

    def _character(self, target: Path) -> tuple[Character, Errors]:
        """The character for a file, and its errors; files of vertices have one of their own."""
        kind = target.suffix.lower() in VERTEX_FILES
        if kind not in self._made:
            learned = self._learned
            if learned.sequence is not None and not kind:
                self._made[kind] = engine_character(
                    learned.sequence,
                    self._deformer,
                    keep_bones=learned.keep_bones,
                    seed=learned.seed,
                    name=target.stem,
                    progress=TerminalProgress(),
                )
            else:
                job = ExportJob(ExportSettings(), learned.clips, learned.motions, learned.rig)
                self._made[kind] = job.make(self._deformer, target, TerminalProgress())
        return self._made[kind]

    def write(self, target: Path) -> dict[str, Any]:
        """Write one file, or one per clip where the format holds one clip.

        Returns what to print: the lines of the files, and lines about them.
        """
        known = format_of(target, to="write")
        if known.write_deformer is not None:
            write_deformer(self._deformer, target)
            return {"file": _file_line(target), "about": []}
        character, errors = self._character(target)
        about = about_lines(character, errors)
        if not known.one_clip or len(character.clips) < 2:
            write_character(character, target)
            return {"file": _file_line(target), "about": about}
        names = distinct_names([file_name(clip.name) for clip in character.clips])
        files = [target.with_name(f"{target.stem}_{name}{target.suffix}") for name in names]
        for file, clip in zip(files, character.clips):
            write_character(character.with_clips([clip]), file)
        lines = "\n".join(map(_file_line, files))
        return {"file": lines, "about": about, "files": [file.name for file in files]}


def _file_line(file: Path) -> str:
    """What is printed of a file that was written."""
    return f"{file}: {size_text(file_size(file))}"
