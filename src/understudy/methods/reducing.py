"""Reducing the skin of a character that exists: `understudy reduce`.

skin = read_skin("hero.glb")                      artist's weights, or those of any program
reduced = reduce_skin(TwoLayer(), skin)           example poses: the clips of the file
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core.character import Character
from understudy.core.clip import Clip
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress
from understudy.io.npz_skin import has_skin, read_npz_skin
from understudy.io.registry import ReadOptions, read_character
from understudy.io.understudy_file import SUFFIX
from understudy.methods.base import Method
from understudy.methods.character_deformer import deformer_of_character
from understudy.methods.sparse_skinning.skin_reducer import SkinReducer


@dataclass(frozen=True, eq=False)
class SourceSkin:
    """A skin to reduce.

    deformer  with the clips of its file
    vertices  (T,V,3) true vertices of all frames of the clips, where the file has them; or None
    """

    deformer: Deformer
    vertices: np.ndarray | None = None

    @property
    def bare(self) -> Deformer:
        """The deformer with its skin alone: what a reduction approximates."""
        d = self.deformer
        return Deformer(d.mesh, d.skeleton, skin=d.skin, clips=d.clips, method=d.method)

    def poses(self) -> Poses | None:
        """The frames of the clips as a mesh sequence of the skin alone; None without clips."""
        bare = self.bare
        if not bare.clips:
            return None
        bones = np.concatenate([clip.world_from_bone for clip in bare.clips])
        vertices = self.vertices
        if vertices is None:
            vertices = bare.deform_reference(bones)
        return Poses(bare.mesh, vertices, name=bare.clips[0].name)


def read_skin(
    path: str | Path, options: ReadOptions | None = None, progress: Progress = SILENT
) -> SourceSkin:
    """The skin of a file.

    path  a .understudy file, a character (.glb, .fbx, .usd, ...), or a .npz with dense weights
          (`io.npz_skin`)
    """
    suffix = Path(path).suffix.lower()
    if suffix == SUFFIX:
        return SourceSkin(Deformer.load(path))
    if suffix == ".npz":
        if not has_skin(path):
            raise InputError(
                f"{path}: has no array 'weights', so there is no skin to reduce; fit one first: "
                f"understudy fit lbs {path}"
            )
        return skin_of_character(read_npz_skin(path))
    return skin_of_character(read_character(path, options, progress))


def skin_of_character(character: Character) -> SourceSkin:
    """The skin of a character with its clips.

    Point caches are true vertices, if all clips have one and there are no blend shapes.
    """
    if character.skin is None:
        raise InputError(f"{character.name!r} has no skin to reduce; give a character with bones")
    clips = tuple(
        Clip(clip.name, clip.world_from_bone, clip.frame_rate, clip.start_frame)
        for clip in character.clips
    )
    caches = [clip.vertices for clip in character.clips]
    known = [cache for cache in caches if cache is not None]
    whole = bool(known) and len(known) == len(caches) and not character.shapes
    deformer = replace(deformer_of_character(character), clips=clips)
    return SourceSkin(deformer, np.concatenate(known) if whole else None)


def reduce_skin(
    method: Method, skin: SourceSkin, examples: bool = True, progress: Progress = SILENT
) -> Deformer:
    """The deformer of a skin with fewer influences; its correctives and clips stay.

    method    one that reduces skins (`traits.reduces_skin`)
    examples  use the frames of the clips, if there are any; false: the weights alone
    """
    if not isinstance(method, SkinReducer):
        raise InputError(f"{method.name} does not reduce skins; see `understudy methods`")
    # A deformer with clips would take them as examples by itself.
    bare = skin.bare if examples else replace(skin.bare, clips=())
    vertices = skin.vertices if examples and bare.clips else None
    reduced = method.reduce(bare, None, vertices, progress=progress)
    return replace(
        skin.deformer,
        skin=reduced.skin,
        method=reduced.method,
        training=reduced.training,
        provenance=reduced.provenance,
    )
