"""Reducing the skin of a character that exists: `understudy reduce`.

The weights are an artist's, or those of any program; the clips of the file are example poses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core.character import Character
from understudy.core.clip import Clip
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.core.provenance import with_source
from understudy.evaluation.measure import Reference, deform_clips, measure
from understudy.evaluation.metric_catalogue import digits3
from understudy.io.registry import ReadOptions, read_skinned, source_provenance
from understudy.io.understudy import SUFFIX
from understudy.jobs.fitting import Fit, Options
from understudy.methods.base import Method
from understudy.methods.character_deformer import deformer_of_character
from understudy.methods.reducing import SkinReducer
from understudy.methods.registry import methods_by_name
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress


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
          (`io.npz.skin`)
    """
    if Path(path).suffix.lower() == SUFFIX:
        return SourceSkin(Deformer.load(path))
    return skin_of_character(read_skinned(path, options, progress))


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


@checks.typed
def reduce(
    method: str | Method,
    skin: str | Path,
    out: str | Path,
    *,
    options: Options | None = None,
    examples: bool = True,
    reading: ReadOptions | None = None,
    progress: Progress = SILENT,
) -> tuple[Deformer, list[str]]:
    """Give the skin of a file fewer influences, and write the result to `out`.

    Correctives and clips of the file stay.

    skin      what `read_skin` takes
    examples  use the frames of the clips, if there are any; false: the weights alone

    Returns the deformer, and what the reduction did as lines.
    """
    known = methods_by_name()[0].items()
    reducers = [name for name, kind in known if issubclass(kind, SkinReducer)]
    name = method if isinstance(method, str) else method.name
    if name not in reducers:
        raise InputError(f"{name!r} does not reduce skins; use {', '.join(reducers)}")
    fitting = Fit.of(method, out, options)
    source = read_skin(skin, reading, progress)
    # A deformer with clips would take them as examples by itself.
    bare = source.bare if examples else replace(source.bare, clips=())
    vertices = source.vertices if examples and bare.clips else None
    assert isinstance(fitting.method, SkinReducer)  # by its name
    made = fitting.method.reduce(bare, None, vertices, progress=progress)
    reduced = replace(
        source.deformer,
        skin=made.skin,
        method=made.method,
        training=made.training,
        provenance=made.provenance,
    )
    reduced = with_source(reduced, source_provenance(skin))
    fitting.write(reduced)
    return reduced, _reduction_lines(source, replace(source, deformer=reduced))


def _reduction_lines(before: SourceSkin, after: SourceSkin) -> list[str]:
    """What a reduction did to the weights and, if there are clips, to the poses."""
    old, new = before.deformer.skin, after.deformer.skin
    training = after.deformer.training
    assert old is not None  # `read_skin` refuses such files
    assert new is not None
    virtual = "" if new.virtual_index is None else f", {len(new.virtual_index)} virtual bones"
    cost = training.get("bones_per_vertex", new.influences)
    lines = [
        f"influences   {old.influences} before, {new.influences} after{virtual} "
        f"({cost:.3g} blending operations per vertex)",
        f"weights      ΔW {digits3(training['delta_w'])} thousandths",
    ]
    poses = before.poses()
    if poses is None:
        return [*lines, "The file has no clips: the weights alone were approximated."]
    reference = Reference.of("clips", poses)
    rows = {
        name: measure(name, deform_clips(one.bare), reference).figures
        for name, one in (("before", before), ("after", after))
    }
    truth = "the true vertices" if before.vertices is not None else "the skin before"
    for figure, label in (("e", "E"), ("norm_distort", "NormDistort")):
        values = ", ".join(f"{digits3(rows[name][figure])} {name}" for name in rows)
        lines.append(f"{label:<12} {values}, against {truth}")
    return lines
