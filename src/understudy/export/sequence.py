"""A compressed mesh sequence as engines play it: one skeleton, few influences.

For its own file, `compress` chooses bones by error alone: they may be affine, without parents, with
six influences. For the file of an engine, bones and weights are fitted to the sequence again under
the engine's limits, which is better than approximating the first result.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.character import Character
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses
from understudy.export.character import ExportSettings, make_character
from understudy.export.clips import own_clips
from understudy.export.errors import Errors
from understudy.methods.decomposition.temporal import Temporal, TemporalConfig
from understudy.system.progress import SILENT, Progress

INFLUENCES = 4


def joined_deformer(
    poses: Poses,
    bones: int | None = None,
    influences: int = INFLUENCES,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Deformer:
    """Return a mesh sequence as one skeleton.

    bones       number of bones; None: found from the motion
    influences  largest number of bones per vertex
    """
    config = TemporalConfig(seed=seed, bones=bones, influences=influences, skeleton=True)
    return Temporal(config).fit(poses, progress=progress)


def engine_character(
    poses: Poses,
    deformer: Deformer,
    influences: int = INFLUENCES,
    *,
    keep_bones: bool = False,
    seed: int = 0,
    name: str = "character",
    progress: Progress = SILENT,
) -> tuple[Character, Errors]:
    """Return a compressed mesh sequence as engines play it, and its errors.

    poses       the sequence
    deformer    fitted to it, as a `.understudy` file has it
    influences  largest number of bones per vertex
    keep_bones  whether the user chose the kind of bones; else bones are fitted again, as one
                skeleton: as many, or if `temporal` found their number, as a skeleton needs
    seed        of that fit
    name        of the character
    """
    if not keep_bones:
        given = dict(deformer.provenance.get("config", {})).get("bones", 0)
        is_open = deformer.method == Temporal.name and given is None
        bones = None if is_open else deformer.bone_count
        deformer = joined_deformer(poses, bones, influences, seed, progress)
    return sequence_character(poses, deformer, influences, name=name, progress=progress)


def sequence_character(
    poses: Poses,
    deformer: Deformer,
    influences: int = INFLUENCES,
    *,
    name: str = "character",
    progress: Progress = SILENT,
) -> tuple[Character, Errors]:
    """Return a deformer fitted to a mesh sequence as a character, and its errors.

    poses       the sequence; weights that have to be fitted again are fitted to it
    deformer    with one clip for each of the sequence's
    influences  largest number of bones per vertex
    name        of the character

    Bones that shear become exact pairs of joints. There are no blend shapes.
    """
    ends = np.cumsum([clip.frame_count for clip in deformer.clips])
    clips = [
        replace(clip, original=poses.read_poses(int(end) - clip.frame_count, int(end)))
        for clip, end in zip(own_clips(deformer), ends)
    ]
    settings = ExportSettings(influences, morphs=0, target="original")
    return make_character(deformer, clips, settings, name=name, progress=progress)
