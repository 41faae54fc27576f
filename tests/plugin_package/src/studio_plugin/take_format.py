"""All that a format can do: characters, sequences, caches and skins (.take), frames (.frame).

A `.take` holds arrays by name. With bones it is a character, without them a mesh sequence.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from understudy import Character, CharacterClip, Deformer, Mesh, Skeleton, Skin
from understudy.io.atomic_write import atomic_write
from understudy.io.mesh_clips import MeshClip
from understudy.io.registry import Format, ReadOptions
from understudy.io.vertex_cache import VertexCache
from understudy.system.errors import FileError
from understudy.system.progress import Progress


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file."""
    try:
        with np.load(path, allow_pickle=False) as found:
            return {"vertices": found["vertices"], **{name: found[name] for name in found.files}}
    except (OSError, ValueError, EOFError, KeyError) as problem:
        raise FileError(f"{path}: is not a take: {problem}") from problem


def write_arrays(path: str | Path, **arrays: np.ndarray) -> None:
    """Write a file, whole or not at all."""
    with atomic_write(path) as draft, draft.open("wb") as file:
        np.savez(file, **arrays)


def mesh_of(arrays: dict[str, np.ndarray]) -> Mesh:
    """The mesh at rest."""
    return Mesh(arrays["rest"], arrays["polygon_sizes"], arrays["polygon_vertices"])


def has_bones(path: str | Path) -> bool:
    """Whether a file is a character."""
    return "bones" in read_arrays(path)


def read_character(path: str | Path, options: ReadOptions, progress: Progress) -> Character:
    """Bones, weights and one clip; it has the vertices of every frame if the file has them."""
    arrays = read_arrays(path)
    if "bones" not in arrays:
        raise FileError(f"{path}: has no bones")
    skeleton = Skeleton([str(n) for n in arrays["names"]], arrays["parents"], arrays["bind"])
    bones = arrays["bones"]
    clip = CharacterClip("take", bones, np.zeros((len(bones), 0)), options.frame_rate or 30.0)
    skin = Skin(arrays["index"], arrays["weight"])
    return Character(mesh_of(arrays), skeleton, skin, clips=(clip,), name=Path(path).stem)


def read_clips(path: str | Path, options: ReadOptions, progress: Progress) -> list[MeshClip]:
    """One clip of a mesh sequence."""
    arrays = read_arrays(path)
    places = [f"{path}, frame {k}" for k in range(len(arrays["vertices"]))]
    frames = arrays["vertices"].astype(np.float32)
    return [MeshClip(Path(path).stem, mesh_of(arrays), frames, places, 30.0)]


def read_cache(path: str | Path, options: ReadOptions, progress: Progress) -> VertexCache:
    """Positions alone."""
    vertices = read_arrays(path)["vertices"]
    return VertexCache(vertices, np.arange(len(vertices)), name=Path(path).stem, numbered=False)


def read_mesh(path: str | Path, options: ReadOptions, progress: Progress) -> Mesh:
    """The shape at rest."""
    return mesh_of(read_arrays(path))


def write_character(character: Character, path: str | Path) -> None:
    """The only clip of a character."""
    mesh, (clip,) = character.mesh, character.clips
    about = {}
    if character.skeleton is not None and character.skin is not None:
        about = {
            "names": np.array(character.skeleton.names),
            "parents": character.skeleton.parents,
            "bind": character.skeleton.world_from_bone,
            "bones": clip.world_from_bone,
            "index": character.skin.bone_index,
            "weight": character.skin.weight,
        }
    write_arrays(
        path,
        vertices=character.evaluate_clip(clip),
        rest=mesh.vertices,
        polygon_sizes=mesh.polygon_sizes,
        polygon_vertices=mesh.polygon_vertices,
        **about,
    )


def write_deformer(deformer: Deformer, path: str | Path) -> None:
    """The shape at rest."""
    mesh = replace(deformer.mesh, parts={})
    write_arrays(
        path,
        vertices=mesh.vertices[None],
        rest=mesh.vertices,
        polygon_sizes=mesh.polygon_sizes,
        polygon_vertices=mesh.polygon_vertices,
    )


TAKE = Format(
    "studio take",
    (".take",),
    "a character with its clip, or a mesh sequence",
    read_character=read_character,
    read_clips=read_clips,
    is_driven=has_bones,
    read_cache=read_cache,
    read_mesh=read_mesh,
    read_skin=read_character,
    write_character=write_character,
    one_clip=True,
)
FRAME = Format(
    "studio frame",
    (".frame",),
    "one frame of a mesh sequence",
    read_mesh=read_mesh,
    write_deformer=write_deformer,
)
