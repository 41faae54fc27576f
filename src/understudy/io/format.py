"""`Format`: what can be done with files of one kind, and `ReadOptions`, which every reader takes.

Readers are called alike, whatever they return: (path, options, progress).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.mesh import UNITS, UP_AXES, Mesh
from understudy.core.poses import Poses
from understudy.io.mesh_clips import FrameData, MeshClip
from understudy.io.vertex_cache import VertexCache
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import Progress

Source = str | Path


@dataclass(frozen=True)
class ReadOptions:
    """What a file cannot say. An option that is given wins over what the file says.

    rest        the shape at rest, for mesh sequences: a mesh, or a file that has one
    up_axis     "Y" or "Z"
    unit        one of `understudy.core.mesh.UNITS`
    frame_rate  frames per second
    clips       names of the animations to read from a character's file; empty: all
    meshes      names of the objects to read from a character's file; empty: all
    cache       vertex cache that goes with a character's file: the two are read as a pair
    frame_offset  of a pair: the frame of the clip, counted from its first, that is the first frame
                of the cache; None: it is found
    """

    rest: Source | Mesh | None = None
    up_axis: str | None = None
    unit: str | None = None
    frame_rate: float | None = None
    clips: tuple[str, ...] = ()
    meshes: tuple[str, ...] = ()
    cache: Source | None = None
    frame_offset: int | None = None

    def __post_init__(self):
        if self.up_axis is not None:
            checks.one_of(self.up_axis, "up axis", UP_AXES)
        if self.unit is not None:
            checks.one_of(self.unit, "unit", UNITS)
        if self.frame_rate is not None:
            checks.between(self.frame_rate, "frame rate", above=0)

    @property
    def rest_mesh(self) -> Mesh | None:
        """`rest` as a mesh. The registry reads the file before it calls a reader."""
        if isinstance(self.rest, str | Path):
            raise InputError(f"rest: expected a Mesh, got the path {self.rest}; read it first")
        return self.rest


AS_IT_IS = ReadOptions()

Noun = TypeVar("Noun")
Reader = Callable[[Source, ReadOptions, Progress], Noun]


@dataclass(frozen=True)
class Format:
    """One file format. What it can do is what it has functions for.

    name            what help texts call it
    suffixes        lower case, with the dot: (".npz",)
    summary         one line: what such a file holds

    Readers, (path, options, progress) -> what they return. A file is read as poses by the first of
    these that its format has:

    read_poses      the poses. `understudy.io.registry` applies `up_axis`, `unit` and `frame_rate`
    read_character  a `Character`, whose clips are the poses. It applies `clips`, `meshes` and
                    `frame_rate` (the rate at which animations are sampled)
    read_clips      the clips of a mesh sequence, as they were read; several files are one sequence
    read_cache      a `VertexCache`, without polygons; these come from `options.rest`
    read_mesh       a `Mesh`: the shape at rest of other files. A format that has nothing else has
                    one file per frame; a folder or a pattern is a sequence

    and others:

    read_frame      the positions of a frame, faster than `read_mesh`; None: they are taken of it
    read_skin       a `Character` with the skin to reduce, of files that are read as poses otherwise
    is_driven       (path) -> whether a file that `read_clips` reads has bones or controls too, and
                    is not read as a sequence where there is another way; None: always
    provenance      (path) -> what is known of a sample of a rig. Samples have their own rest shape,
                    and several are joined into one sample

    Writers. They write the whole file or nothing (`understudy.io.atomic_write`):

    write_deformer  (deformer, path) -> None
    write_character (character, path) -> None
    check_write     () -> anything; raises a `MissingDependencyError` if a program that writes it is
                    not installed
    only_read       suffixes that are not written
    one_clip        whether a file holds one clip at most
    holds_skin      whether a character's file holds its skin; else the vertices of every frame
    holds           what of `Mesh.dress` a character's file holds; writing names the rest

    needs           the optional module it imports, or ""
    install         the command that installs that module
    """

    name: str
    suffixes: tuple[str, ...]
    summary: str
    read_poses: Reader[Poses] | None = None
    write_deformer: Callable[[Deformer, Source], None] | None = None
    read_character: Reader[Character] | None = None
    write_character: Callable[[Character, Source], None] | None = None
    needs: str = ""
    install: str = ""
    check_write: Callable[[], object] | None = None
    only_read: tuple[str, ...] = ()
    one_clip: bool = False
    holds_skin: bool = True
    holds: tuple[str, ...] = ()
    read_clips: Reader[list[MeshClip]] | None = None
    read_cache: Reader[VertexCache] | None = None
    read_mesh: Reader[Mesh] | None = None
    read_frame: Reader[FrameData] | None = None
    read_skin: Reader[Character] | None = None
    is_driven: Callable[[Source], bool] | None = None
    provenance: Callable[[Source], Mapping[str, Any]] | None = None

    @property
    def is_one_frame(self) -> bool:
        """Whether a file is one frame of a sequence."""
        others = (self.read_poses, self.read_character, self.read_clips, self.read_cache)
        return self.read_mesh is not None and not any(others)

    @property
    def holds_poses(self) -> bool:
        """Whether poses can be read from its files."""
        wholes = (self.read_poses, self.read_character, self.read_clips, self.read_cache)
        return any(wholes) or self.read_mesh is not None
