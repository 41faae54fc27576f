"""`make_character`: a deformer as stock engines play it, with what that costs.

1. The bones of the clips become joints that a translation, rotation and scale describe (`joints`).
   Virtual bones with weights of both signs first get convex ones (`virtual_bones`).
2. The skin is fitted again with few influences, to the clips and to poses of the training range
   (`engine_skin`). Without the latter it would be overfitted to the clips.
3. What the skin leaves of the deformer in the frames of the clips becomes blend shapes (`shapes`).

A skin and blend shapes of a character's file, which engines play already, stay as they are.

The bones of a mesh sequence are found again under an engine's limits (`engine_character`), which is
better than approximating those of the `.understudy` file.

Letters: F frames, V vertices, B bones, J joints, S blend shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from understudy.core.character import BlendShape, Character, CharacterClip
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.export.bones import (
    EngineBones,
    Frames,
    deformed_frames,
    join_bones,
    packed,
    plays_as_it_is,
    range_clip,
    refit_skin,
)
from understudy.export.clips import SourceClip, distinct_clips, own_clips
from understudy.export.errors import ErrorRow, Errors, error_row
from understudy.export.joints import Joints, make_joints
from understudy.export.shapes import (
    MAX_SHAPES,
    SkinnedFrames,
    corrective_shapes,
    low_rank_displacements,
    own_shapes,
)
from understudy.export.virtual_bones import convex_virtual_bones
from understudy.methods.decomposition.temporal import Temporal, TemporalConfig
from understudy.system import checks
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

BONES = ("pair", "rigid")
TARGETS = ("deformer", "original")
_SKIN_FRAMES = 300  # of the clips that the skin is fitted to
INFLUENCES = 4


@dataclass(frozen=True)
class ExportSettings:
    """What engines can play.

    influences   largest number of bones per vertex; 0: no limit. Most engines have 4, some 8
    morphs       largest number of blend shapes, at most 128; 0: none
    bones        "pair": bones that shear become exact pairs of joints; "rigid": bones neither scale
                 nor shear, and those found in a mesh sequence are joined to one skeleton
    target       what skin and blend shapes are fitted to: "deformer", or "original", the rig or the
                 recorded poses, for clips that have it
    """

    influences: int = 4
    morphs: int = 64
    bones: str = "pair"
    target: str = "deformer"

    def __post_init__(self):
        checks.between(self.influences, "influences", 0)
        checks.between(self.morphs, "morphs", 0, MAX_SHAPES)
        checks.one_of(self.bones, "bones", BONES)
        checks.one_of(self.target, "target", TARGETS)


def make_character(
    deformer: Deformer,
    clips: Sequence[SourceClip] = (),
    settings: ExportSettings | None = None,
    *,
    range_poses: Poses | None = None,
    name: str = "character",
    progress: Progress = SILENT,
) -> tuple[Character, Errors]:
    """Return `deformer` as a character with baked clips, and its errors.

    clips        what to bake, see `understudy.export.clips`; empty: the bind pose alone, with a
                 skin fitted to `range_poses` and no blend shapes, since nothing would drive them
    settings     influences, blend shapes, joints
    range_poses  poses of the training range, which the skin is fitted to as well; None: none
    name         of the character
    """
    settings = ExportSettings() if settings is None else settings
    clips = distinct_clips(clips)
    spare = () if range_poses is None else (range_clip(deformer, range_poses),)
    mesh = deformer.mesh
    notes: list[str] = []
    joints = None
    bones = engine_bones(deformer, [*clips, *spare], settings, progress)
    original = settings.target == "original"
    for clip in clips:
        if original and clip.original is None:
            raise InputError(
                f"clip {clip.name!r}: its original is not known; name an animation of the rig or "
                "poses with vertices, or take the deformer as the target"
            )
    kept = None if original else _kept_shapes(deformer, bones, settings)
    frames = [deformed_frames(deformer, bones, clip, original) for clip in clips]
    extra = [deformed_frames(deformer, bones, clip, original) for clip in spare]
    skin = None
    displacements = []
    if bones is not None and bones.rest is not None and bones.is_rigid and frames:
        mesh, bones, frames = join_bones(deformer, bones, frames, settings.influences, progress)
        extra, skin = [], packed(bones.skin)
    if kept is not None and bones is not None:
        skin = packed(bones.skin)
    if bones is None:
        made = Character(mesh, name=name)
        displacements = [part.target - mesh.vertices for part in frames]
    else:
        if skin is None:
            skin = engine_skin(deformer, bones, [*frames, *extra], settings.influences, progress)
        others = np.concatenate([part.in_world for part in extra]) if extra else None
        worlds = [part.in_world for part in frames]
        joints = make_joints(bones.skeleton, worlds, others)
        made = Character(mesh, joints.skeleton, joints.skin(skin), name=name)
        notes += notes_on(joints, deformer)
    with progress.task("finding blend shapes", 1) as task:
        if kept is None and bones is not None and frames and settings.morphs:
            assert skin is not None  # there are bones
            moved = np.concatenate([part.world_from_bone for part in frames])
            targets = np.concatenate([part.target for part in frames])
            skinned = SkinnedFrames(mesh.vertices, bones.skeleton, skin, moved, targets)
            displacements = [low_rank_displacements(skinned, settings.morphs)]
        if kept is not None:
            none = np.zeros((0, len(kept)))
            # A deformer with shapes of its own reads controls, so clips have them.
            given = [clip.controls for clip in clips if clip.controls is not None]
            shapes, weights = kept, np.concatenate([none, *given])
        else:
            none = np.zeros((0, mesh.vertex_count, 3), np.float32)
            every = np.concatenate([none, *displacements])
            shapes, weights = corrective_shapes(every, settings.morphs, mesh.height)
        task.advance()
    baked, start = [], 0
    for number, (clip, part) in enumerate(zip(clips, frames)):
        stop = start + part.frame_count
        world = part.in_world if joints is None else joints.world_from_bone[number]
        own = weights[start:stop] if shapes else np.zeros((part.frame_count, 0))
        baked.append(CharacterClip(clip.name, world, own, clip.frame_rate, clip.start_frame))
        start = stop
    made = replace(made, shapes=shapes, clips=tuple(baked)).with_unit_bones()
    rows = [row for clip, part in zip(made.clips, frames) for row in clip_errors(made, clip, part)]
    shown = {c.shown_by for c in clips if c.original is not None}
    if shown - {""}:
        notes.append(f"The original is what {', '.join(sorted(shown))} shows.")
    if not clips and not kept:
        notes.append("No clip: the file holds the bind pose and the skin, without correctives.")
    return made, Errors(tuple(rows), mesh.unit, tuple(notes))


def baked_character(
    deformer: Deformer, clips: Sequence[SourceClip] = (), *, name: str = "character"
) -> tuple[Character, Errors]:
    """Return `deformer` with the vertices of every frame baked: exact, for files of vertices.

    clips  what to bake; empty: the rest shape alone
    name   of the character
    """
    bones = None if deformer.skeleton is None else EngineBones.of(deformer)
    made, rows = [], []
    for clip in distinct_clips(clips):
        part = deformed_frames(deformer, bones, clip)
        shown = (part.vertices + part.centre[:, None]).astype(np.float32)
        still = np.zeros((part.frame_count, 0))
        made.append(
            CharacterClip(clip.name, part.in_world, still, clip.frame_rate, clip.start_frame, shown)
        )
        if part.original is not None:
            rows.append(error_row(clip.name, "deformer", "original", part.original, part.vertices))
    skeleton, skin = (None, None) if bones is None else (bones.skeleton, bones.skin)
    character = Character(deformer.mesh, skeleton, skin, clips=tuple(made), name=name)
    return character, Errors(tuple(rows), deformer.mesh.unit)


def _kept_shapes(
    deformer: Deformer, bones: EngineBones | None, settings: ExportSettings
) -> tuple[BlendShape, ...] | None:
    """Return the deformer's own blend shapes if engines play them and its skin as they are."""
    shapes = own_shapes(deformer)
    if shapes is None or len(shapes) > settings.morphs:
        return None
    if bones is not None and (
        bones.is_rigid or not plays_as_it_is(bones.skin, settings.influences)
    ):
        return None
    return shapes


def engine_bones(
    deformer: Deformer, clips: Sequence[SourceClip], settings: ExportSettings, progress: Progress
) -> EngineBones | None:
    """Return the bones of the export, whose skin has to follow `clips`; None without bones."""
    if deformer.skeleton is None:
        return None
    bones = EngineBones.of(deformer, settings.bones == "rigid")
    return convex_virtual_bones(bones, deformer, clips, settings.influences, progress)


def engine_skin(
    deformer: Deformer,
    bones: EngineBones,
    frames: Sequence[Frames],
    influences: int,
    progress: Progress = SILENT,
) -> Skin:
    """Return the skin of the export on `bones`: the deformer's own, or one fitted to `frames`."""
    exact = not bones.is_rigid and not deformer.bases and deformer.mean is None
    exact = exact and all(part.target is part.vertices for part in frames)
    if plays_as_it_is(bones.skin, influences) and (exact or not frames):
        return packed(bones.skin)
    if not frames:
        raise InputError(
            "the skin has to be fitted to poses, and there are none: name a clip, or pass poses "
            "of the bones"
        )
    total = sum(part.frame_count for part in frames)
    chosen = [
        (part, evenly(part.frame_count, max(2, _SKIN_FRAMES * part.frame_count // total)))
        for part in frames
    ]
    poses = Poses(
        deformer.mesh,
        np.concatenate([part.target[at] for part, at in chosen]),
        bones.skeleton,
        np.concatenate([part.world_from_bone[at] for part, at in chosen]),
        name="frames",
    )
    return refit_skin(poses, influences, progress)


def clip_errors(made: Character, clip: CharacterClip, frames: Frames) -> list[ErrorRow]:
    """Return the errors of one clip of a character."""
    near = clip.world_from_bone.copy()
    near[..., 3] -= frames.centre[:, None]
    skinned = made.evaluate(near)
    shown = made.evaluate(near, clip.shape_weights) if made.shapes else skinned
    row = partial(error_row, clip.name)
    rows = [
        row("skin", "deformer", frames.vertices, skinned),
        row("export", "deformer", frames.vertices, shown),
    ]
    if frames.original is not None:
        rows += [
            row("deformer", "original", frames.original, frames.vertices),
            row("skin", "original", frames.original, skinned),
            row("export", "original", frames.original, shown),
        ]
    return rows


def notes_on(joints: Joints, deformer: Deformer) -> list[str]:
    """Return sentences on what was changed."""
    notes = []
    own = deformer.skin
    if own is not None and own.blend != "linear":
        notes.append("Dual quaternion blending was approximated by a linear skin.")
    if joints.pairs:
        many = f"{joints.pairs} bones that shear became exact pairs of joints."
        one = "1 bone that shears became an exact pair of joints."
        notes.append(one if joints.pairs == 1 else many)
    if joints.moved:
        many = f"{joints.moved} bones have another parent, because theirs is scaled unevenly."
        one = "1 bone has another parent, because its own is scaled unevenly."
        notes.append(one if joints.moved == 1 else many)
    return notes


def engine_character(
    poses: Poses,
    deformer: Deformer,
    *,
    keep_bones: bool = False,
    seed: int = 0,
    name: str = "character",
    progress: Progress = SILENT,
) -> tuple[Character, Errors]:
    """Return a compressed mesh sequence as engines play it, and its errors.

    poses       the sequence
    deformer    fitted to it, as a `.understudy` file has it
    keep_bones  whether the user chose the kind of bones; else bones are fitted again, as one
                skeleton: as many, or if `temporal` found their number, as a skeleton needs
    seed        of that fit
    name        of the character
    """
    if not keep_bones:
        given = dict(deformer.provenance.get("config", {})).get("bones", 0)
        is_open = deformer.method == Temporal.name and given is None
        bones = None if is_open else deformer.bone_count
        config = TemporalConfig(seed=seed, bones=bones, influences=INFLUENCES, skeleton=True)
        deformer = Temporal(config).fit(poses, progress=progress)
    return sequence_character(poses, deformer, INFLUENCES, name=name, progress=progress)


def sequence_character(
    poses: Poses,
    deformer: Deformer,
    influences: int,
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
    deformer = replace(deformer, mesh=deformer.mesh.dressed(poses.mesh))
    return make_character(deformer, clips, settings, name=name, progress=progress)
