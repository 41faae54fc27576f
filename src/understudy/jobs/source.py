"""`Source`: what a job learns from, read once and handed on as it is.

read("hero.blend")                      RigSource: a live rig, which is sampled
read("poses.npz")                       PosesSource: recorded poses with bones or controls
read("frames/")                         SequenceSource: vertices alone
read("hero.glb")                        CharacterSource: a skin, blend shapes and clips
read("hero.fbx", ReadOptions(cache="hero.pc2"))   PosesSource: a skeleton and a vertex cache
read(rig), read(poses)                  the same of objects in memory
"""

from __future__ import annotations

import importlib.util
import inspect
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.noun import fingerprint
from understudy.core.poses import Poses, content_of
from understudy.io.files import file_hash
from understudy.io.registry import (
    ReadOptions,
    format_of,
    read_character,
    read_poses,
    source_provenance,
    with_options,
)
from understudy.jobs.folder import CONTENT
from understudy.methods.character_deformer import deformer_of_character
from understudy.methods.fit_arguments import is_sequence
from understudy.rigs.base import Rig, name_of
from understudy.rigs.blender.options import BlenderOptions, is_blend, parse_blend, together
from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.registry import checked_rig, is_rig, load_rig, portable_name
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

Place = str | Path


@dataclass(frozen=True, eq=False)
class Source:
    """What a job learns from.

    name   of the character; its files are called after it
    facts  JSON values that tell this source from another one: names, and hashes of what was read
    """

    name: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class RigSource(Source):
    """A live rig.

    rig    in this process
    build  builds it in a worker process: a name that `load_rig` takes, or a function
    """

    rig: Rig
    build: str | Callable[[], Rig]

    @property
    def notes(self) -> tuple[str, ...]:
        """What opening the rig found out, such as channels that were left out."""
        return self.rig.notes if isinstance(self.rig, BlenderRig) else ()


@dataclass(frozen=True, eq=False)
class PosesSource(Source):
    """Recorded poses with bones or controls, or a sample of a rig.

    poses    all of them
    made_by  their provenance
    own      a stand-in that needs no fit: the skin and the blend shapes of the file; or None
    rig      the live rig that they were sampled from, its name as `load_rig` takes it, or None:
             methods learn from the poses alone
    """

    poses: Poses
    made_by: Mapping[str, Any]
    own: Deformer | None = None
    rig: Rig | str | None = None


@dataclass(frozen=True, eq=False)
class SequenceSource(Source):
    """A mesh sequence: vertices without bones and controls."""

    poses: Poses
    made_by: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class CharacterSource(Source):
    """The file of a rigged character, whose skin and blend shapes can be taken as they are."""

    character: Character
    made_by: Mapping[str, Any]
    options: ReadOptions

    @property
    def moves(self) -> bool:
        """Whether anything in the file can move its mesh."""
        return self.character.skeleton is not None or bool(self.character.shapes)

    @property
    def has_cache(self) -> bool:
        """Whether the file has true vertices beside its skin, from which more can be learned."""
        return any(clip.vertices is not None for clip in self.character.clips)

    def recorded(self) -> PosesSource | SequenceSource:
        """The clips as recorded poses, beside the file's own skin, or as a mesh sequence."""
        poses = with_options(self.character.poses(), self.options)
        has_skin = self.character.skeleton is not None
        skin = deformer_of_character(self.character) if has_skin else None
        return _of_poses(poses, self.name, self.facts, self.made_by, skin)


@checks.typed
def read(
    source: Source | Rig | Poses | Place | Sequence[Place],
    options: ReadOptions | None = None,
    blender: BlenderOptions | None = None,
    progress: Progress = SILENT,
) -> Source:
    """Return what `source` holds, ready to be learned.

    source   a rig (its name, `path/to/rig.py:Class`, a .blend, or an object), poses (a pose store,
             a .npz, or an object), a character's file, a mesh sequence, or several files of one
             kind
    options  what the files cannot say, and what to read of them
    blender  which part of a .blend file is the rig

    >>> read("tube").rig.mesh.vertex_count
    104
    """
    options = ReadOptions() if options is None else options
    if isinstance(source, Source):
        return source
    if isinstance(source, Poses):
        return _of_poses(source, source.name, {CONTENT: content_of(source)}, {})
    if inspect.isclass(source):
        raise InputError(
            f"source: {source.__qualname__} is a class; give a rig that was built, "
            f"{source.__qualname__}()"
        )
    if not isinstance(source, str | Path | list | tuple):
        return _of_rig(checked_rig(source, "source"))
    places = [source] if isinstance(source, str | Path) else list(source)
    if not places:
        raise InputError("source: nothing to read; give a rig, poses or a mesh sequence")
    texts = [str(place) for place in places]
    name = name_of_source(texts)
    named = [portable_name(text) if is_rig(text) else Path(text).name for text in texts]
    facts: dict[str, Any] = {"source": named, "read": _facts_of_options(options)}
    if any(is_rig(text) for text in texts):
        if len(texts) > 1:
            raise InputError("source: a rig is learned alone; give one")
        return _named_rig(texts[0], name, facts, blender or BlenderOptions(), progress)
    kinds = [format_of(place) for place in places]
    if len(kinds) == 1 and kinds[0].read_character is not None and options.cache is None:
        character = read_character(places[0], options, progress)
        facts[CONTENT] = content_of(character)
        return CharacterSource(name, facts, character, source_provenance(places), options)
    poses = read_poses(places, options, progress)
    facts[CONTENT] = content_of(poses)
    made_by = source_provenance(places)
    rig = made_by.get("rig")
    return _of_poses(poses, name, facts, made_by, rig=rig if isinstance(rig, str) else None)


def load_asked(text: str, asked: BlenderOptions, progress: Progress | None) -> Rig:
    """The rig that `text` names; `asked` adds to the options of a .blend file in the text."""
    if not is_blend(text):
        if asked != BlenderOptions():
            raise InputError(
                f"{text}: --mesh, --control, --collection, --animation, --library, --simulations, "
                "--trust-scripts, --ignore-drivers and --modifiers are for .blend files; narrow "
                "the controls of other rigs with --ranges"
            )
        return load_rig(text)
    path, options = parse_blend(text)
    return BlenderRig(path, together(options, asked), progress or SILENT)


def ranges_text(rig: Rig, patterns: Sequence[str] = ()) -> str:
    """The controls of a rig with their training ranges (TOML), and what was left out of them.

    patterns  names to keep: 'arm_*'; empty: all. A rig of Blender was opened with them
    """
    if not isinstance(rig, BlenderRig):
        return rig.controls.ranges_text(patterns)
    left_out = [f"# left out, {why}: {', '.join(names)}\n" for why, names in rig.left_out.items()]
    warnings = [f"# {note}\n" for note in rig.notes if note.startswith("Warning")]
    return "".join([*warnings, rig.controls.ranges_text(), "\n", *left_out])


def _named_rig(
    text: str, name: str, facts: Mapping[str, Any], blender: BlenderOptions, progress: Progress
) -> RigSource:
    rig = load_asked(text, blender, progress)
    chosen = {key: value for key, value in vars(blender).items() if value}
    read = {f"animation {k}": Path(file) for k, file in enumerate(blender.animations)}
    facts = {**facts, CONTENT: file_facts(_files_of_rig(text) | read)}
    facts = {**facts, "blender": chosen} if isinstance(rig, BlenderRig) else facts
    # Worker processes build a rig of Python again; one of Blender brings its own.
    return RigSource(name, facts, rig, partial(_same, rig) if isinstance(rig, BlenderRig) else text)


def _of_rig(rig: Rig) -> RigSource:
    """The source of a rig in memory; worker processes get a copy of it, if it can be copied."""
    name = name_of(rig)
    parts = {"mesh": rig.mesh, "skeleton": rig.skeleton, "controls": rig.controls}
    content = {part: fingerprint(value) for part, value in parts.items()}
    return RigSource(name, {"source": [name], CONTENT: content}, rig, partial(_same, rig))


def can_be_sent(rig: Rig) -> bool:
    """Whether a rig in memory can be sent to worker processes."""
    try:
        pickle.dumps(rig)
    except Exception:  # whatever the rig's own class raises
        return False
    return True


def _same(rig: Rig) -> Rig:
    return rig


def _of_poses(
    poses: Poses,
    name: str,
    facts: Mapping[str, Any],
    made_by: Mapping[str, Any],
    own: Deformer | None = None,
    rig: str | None = None,
) -> PosesSource | SequenceSource:
    if is_sequence(poses):
        return SequenceSource(name, facts, poses, made_by)
    return PosesSource(name, facts, poses, made_by, own, rig)


def file_facts(files: Mapping[str, Path]) -> dict[str, str]:
    """Hashes of some files, by their names."""
    return {name: file_hash(file) for name, file in sorted(files.items())}


def _facts_of_options(options: ReadOptions) -> dict[str, Any]:
    """What was asked of the files, for the record of a job; its content is in that of the poses."""
    given = {n: value for n, value in vars(options).items() if value is not None and value != ()}
    named = {n: Path(given[n]).name for n in ("cache", "rest") if isinstance(given.get(n), Place)}
    return {**given, **({"rest": "mesh"} if "rest" in given else {}), **named}


def _files_of_rig(text: str) -> dict[str, Path]:
    """The files that `text` names, and what these import of their own folder or package, by name:
    their place in the folder that they are imported from.
    """
    if is_blend(text):
        path = parse_blend(text)[0]
        return {path.name: path}
    where, colon, _ = text.rpartition(":")
    if not colon:
        return {}
    is_file = where.endswith(".py")
    found = None if is_file else importlib.util.find_spec(where)
    path = Path(where if found is None else found.origin or where).absolute()
    if path.suffix != ".py" or not path.is_file():  # compiled, or in an archive
        return {path.name: path} if path.is_file() else {}
    above = 0 if is_file else where.count(".") + (path.stem == "__init__")
    root, package = path.parents[above], where.partition(".")[0]
    # Beside a package lies whatever else is installed.
    names = {entry.name.partition(".")[0] for entry in root.iterdir()} if above else set()
    finder = ModuleFinder([str(root)], excludes=names - {package})
    if above:
        finder.import_hook(where)
    else:
        finder.run_script(str(path))
    used = (module.__file__ for module in finder.modules.values())  # type: ignore[attr-defined]
    return {Path(file).relative_to(root).as_posix(): Path(file) for file in used if file}


def name_of_source(places: Sequence[str]) -> str:
    """What the character's files are called.

    >>> name_of_source(["scenes/hero.blend"]), name_of_source(["rigs/lid.py:Lid"])
    ('hero', 'lid')
    >>> name_of_source(["my_package.rigs:Lid"])
    'Lid'
    """
    first = places[0]
    where, _, kind = first.rpartition(":")
    if where.endswith(".py"):
        text = where
    else:
        text = kind if where and kind.isidentifier() else first
    name = Path(text.rstrip("/*")).stem.replace("*", "").strip("._- ")
    return name or "character"
