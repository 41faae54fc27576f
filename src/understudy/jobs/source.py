"""`Source`: what a job learns from, read once and handed on as it is.

read("hero.blend")                      RigSource: a live rig, which is sampled
read("poses.npz")                       PosesSource: recorded poses with bones or controls
read("frames/")                         SequenceSource: vertices alone
read("hero.glb")                        CharacterSource: a skin, blend shapes and clips
read("hero.fbx", ReadOptions(cache="hero.pc2"))   PosesSource: a skeleton and a vertex cache
read(rig), read(poses)                  the same of objects in memory
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.io.registry import (
    ReadOptions,
    format_of,
    read_character,
    read_poses,
    source_provenance,
    with_options,
)
from understudy.methods.character_deformer import deformer_of_character
from understudy.rigs.base import Rig, name_of
from understudy.rigs.blender.options import BlenderOptions, is_blend, parse_blend
from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.registry import checked_rig, is_rig, load_rig
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

Place = str | Path


@dataclass(frozen=True, eq=False)
class Source:
    """What a job learns from.

    name   of the character; its files are called after it
    facts  JSON values that tell this source from another one: names, and hashes of files
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
        return _of_poses(source, source.name, {"poses": digest_of_poses(source)}, {})
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
    facts: dict[str, Any] = {"source": file_facts(texts), "read": _facts_of_options(options)}
    if any(is_rig(text) for text in texts):
        if len(texts) > 1:
            raise InputError("source: a rig is learned alone; give one")
        return _named_rig(texts[0], name, facts, blender or BlenderOptions(), progress)
    kinds = [format_of(place) for place in places]
    if len(kinds) == 1 and kinds[0].read_character is not None and options.cache is None:
        character = read_character(places[0], options, progress)
        return CharacterSource(name, facts, character, source_provenance(places), options)
    poses = read_poses(places, options, progress)
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
    plain = BlenderOptions()
    return BlenderRig(
        path,
        replace(
            asked,
            meshes=options.meshes + asked.meshes,
            controls=options.controls + asked.controls,
            collections=options.collections + asked.collections,
            simulations=options.simulations or asked.simulations,
            ignore_drivers=options.ignore_drivers or asked.ignore_drivers,
            modifiers=(
                options.modifiers if asked.modifiers == plain.modifiers else asked.modifiers
            ),
            bendy=options.bendy,
        ),
        progress or SILENT,
    )


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
    facts = {**facts, "blender": chosen} if isinstance(rig, BlenderRig) else facts
    # Worker processes build a rig of Python again; one of Blender brings its own.
    return RigSource(name, facts, rig, partial(_same, rig) if isinstance(rig, BlenderRig) else text)


def _of_rig(rig: Rig) -> RigSource:
    """The source of a rig in memory; worker processes get a copy of it, if it can be copied."""
    mesh, spec = rig.mesh, rig.controls
    digest = digest_of(mesh.vertices, mesh.triangles, spec.low, spec.high, spec.rest)
    name = name_of(rig)
    facts = {"source": [{"name": name, "controls": list(spec.names), "sha256": digest}]}
    return RigSource(name, facts, rig, partial(_same, rig))


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
    if poses.skeleton is None and poses.controls is None:
        return SequenceSource(name, facts, poses, made_by)
    return PosesSource(name, facts, poses, made_by, own, rig)


def file_facts(places: Sequence[str]) -> list[dict[str, Any]]:
    """What identifies some files: their names, and the content of those that are single files."""
    return [_facts_of(place) for place in places]


def _facts_of_options(options: ReadOptions) -> dict[str, Any]:
    """What was asked of the files, for the record of a job."""
    files = {"cache": options.cache, "rest": options.rest}
    found: dict[str, Any] = {}
    for name, given in files.items():
        if isinstance(given, Mesh):
            found[name] = digest_of(given.vertices, given.triangles)
        elif given is not None:
            found[name] = file_facts([str(given)])
    plain = {n: value for n, value in vars(options).items() if n not in files}
    return found | {n: value for n, value in plain.items() if value is not None and value != ()}


def _facts_of(place: str) -> dict[str, Any]:
    path = Path(place)
    if not path.is_file():
        return {"name": path.name if path.exists() else place}
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "sha256": digest}


def digest_of(*arrays: np.ndarray | None) -> str:
    """The sha256 of some arrays, with their shapes."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is not None:
            digest.update(repr((array.shape, array.dtype.str)).encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def digest_of_poses(poses: Poses) -> str:
    """The sha256 of poses: mesh, vertices, bones and controls."""
    digest = hashlib.sha256(
        digest_of(
            poses.mesh.vertices, poses.mesh.triangles, poses.world_from_bone, poses.controls
        ).encode()
    )
    for _, block in poses.pose_blocks():
        digest.update(np.ascontiguousarray(block).data)
    return digest.hexdigest()


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
