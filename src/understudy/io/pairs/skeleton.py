"""Pairs of bones without a mesh (.bvh) and a mesh sequence.

There is no skin to compare with. But most vertices of a body follow one bone nearly rigidly: in the
frame of that bone they hardly move. So the axes, the unit and the frame offset are those for which
the better half of the vertices moves least in its best bone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.character import Character, CharacterClip
from understudy.core.clip import ClipSpan
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses, evenly
from understudy.core.skeleton import Skeleton
from understudy.geometry.transforms import apply, bounded_inverse
from understudy.io.pairs.agreement import alignment_notes, axes_text
from understudy.io.pairs.alignment import (
    AXES,
    RATIOS,
    Alignment,
    Overlap,
    better_half,
    choose_offset,
    distances,
    offsets_to_try,
)
from understudy.io.vertex_cache import VertexCache
from understudy.system.errors import InputError

_VERTICES, _FRAMES = 60, 30
_RIGID = 0.015  # what the better half moves in its bone, as a fraction of the size
_FOLLOWED = 0.2  # and as a fraction of its motion


def skeleton_poses(
    character: Character, cache: VertexCache, mesh: Mesh, frame_offset: int | None = None
) -> tuple[Poses, list[str]]:
    """Return the poses of a pair, and what was put right; the first shared frame is the rest pose.

    character  bones with one clip; frame_offset: as in `pair_poses`
    mesh       with the polygons of the cache
    """
    clip = character.clips[0]
    assert character.skeleton is not None  # it has bones and nothing else
    alignment, motion = _aligned(clip, cache, frame_offset)
    overlap = Overlap.of(clip.frame_count, cache.frame_count, alignment.frame)
    vertices = alignment.apply(cache.vertices[overlap.first : overlap.last])
    size = float(np.ptp(vertices[0], axis=0).max()) or 1.0
    moving = motion > 1e-3 * size
    if alignment.score > _RIGID * size or (moving and alignment.score > _FOLLOWED * motion):
        raise InputError(
            f"the cache {cache.name!r} does not follow the bones of {character.name!r}: at best "
            f"(frame offset {alignment.frame}, scale {alignment.scale:.4g}, "
            f"{axes_text(alignment.axes, character.mesh)}) half of the vertices move by "
            f"{100 * alignment.score / size:.3g} % of the size or more in the bone that they "
            "follow best. Check that both are of one take, in one place; or say more: "
            "--frame-offset, --frame-rate"
        )
    part = slice(overlap.first + overlap.frame, overlap.last + overlap.frame)
    bones = clip.world_from_bone[part]
    notes = alignment_notes(alignment, cache, clip, character, 0)
    notes.append(
        f"half of the vertices move by less than {100 * alignment.score / size:.2g} % of the size "
        "in the bone that they follow best"
    )
    skeleton = Skeleton(character.skeleton.names, character.skeleton.parents, bones[0])
    span = ClipSpan(clip.name, len(bones), clip.frame_rate, clip.start_frame + part.start)
    rest = replace(mesh, vertices=vertices[0])
    poses = Poses(
        rest, vertices, skeleton, bones, frame_rate=clip.frame_rate, name=clip.name, spans=(span,)
    )
    return poses, notes


def _aligned(
    clip: CharacterClip, cache: VertexCache, frame_offset: int | None
) -> tuple[Alignment, float]:
    """Return the best alignment, and how far the better half of the vertices moves."""
    some = evenly(cache.vertex_count, _VERTICES)
    positions = np.asarray(cache.vertices[:, some], np.float64)
    joints = clip.world_from_bone[..., 3]
    extent = lambda points: float(np.ptp(points, axis=1).max()) or 1.0
    ratio = extent(joints) / extent(positions)
    scales = RATIOS[np.argsort(np.abs(np.log(RATIOS / ratio)))[:3]]
    possible = offsets_to_try(clip.frame_count, cache.frame_count)
    near = possible[np.abs(possible) <= 1] if frame_offset is None else np.array([frame_offset])
    score = lambda axes, scale, frame: _score(clip, positions, axes, float(scale), int(frame))
    first = min(
        (score(axes, scale, frame) for axes in AXES for scale in scales for frame in near),
        key=lambda one: one.score,
    )
    tried = possible if frame_offset is None else near
    found = [score(first.axes, first.scale, frame) for frame in tried]
    size = extent(positions) * first.scale
    best = choose_offset(found, 0, size)
    moved = best.apply(positions)
    return best, better_half(distances(moved, moved.mean(axis=0, keepdims=True)))


def _score(
    clip: CharacterClip, positions: np.ndarray, axes: np.ndarray, scale: float, frame: int
) -> Alignment:
    """Return an alignment with what the better half of the vertices moves in its best bone."""
    at, where = Overlap.of(clip.frame_count, len(positions), frame).some(_FRAMES)
    points = scale * positions[at] @ axes.T
    local = apply(bounded_inverse(clip.world_from_bone[where])[:, :, None], points[:, None])
    moved = np.sqrt(((local - local.mean(axis=0)) ** 2).sum(axis=3).mean(axis=0))  # (B,v)
    return Alignment(axes, scale, np.zeros(3), frame, score=better_half(moved.min(axis=0)))
