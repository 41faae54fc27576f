"""Pairs: a character's file for the bones, and a vertex cache of the original for the vertices.

Such pairs often do not line up: another axis is up, another unit, a frame late, vertices in another
order. What differs is found by comparing the cache with the character's own skinned animation. It
is put right and stated, or the pair is refused with the distance that remains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from understudy.core.character import Character, CharacterClip
from understudy.core.poses import Poses
from understudy.io.mesh_clips import same_polygons
from understudy.io.pairs.agreement import (
    WRONG_EDGES,
    Agreement,
    alignment_notes,
    axes_text,
    size_of,
)
from understudy.io.pairs.alignment import Alignment, Overlap, align
from understudy.io.pairs.order import Edges, align_reordered, order_strays
from understudy.io.pairs.skeleton import skeleton_poses
from understudy.io.vertex_cache import VertexCache
from understudy.system.errors import InputError
from understudy.system.progress import SILENT, Progress

_DOUBTFUL = 0.01  # share of vertices whose order may be uncertain
_FEW_VERTICES = 3000  # another order is always tried
_RATES = (24.0, 25.0, 30.0, 48.0, 50.0, 60.0, 120.0)


@dataclass(frozen=True, eq=False)
class _Match:
    """A clip with the alignment of the cache to it."""

    character: Character
    clip: CharacterClip
    alignment: Alignment
    agreement: Agreement
    expected: int

    @property
    def good(self) -> bool:
        """Whether the pair can be learned."""
        count = self.character.mesh.vertex_count
        return self.agreement.good and self.alignment.doubtful <= _DOUBTFUL * count

    @property
    def rank(self) -> tuple[bool, float]:
        """Lower is better."""
        return not self.good, self.agreement.middle + self.agreement.followed


def pair_poses(
    read: Callable[[float | None], Character],
    cache: VertexCache,
    frame_offset: int | None = None,
    progress: Progress = SILENT,
) -> Poses:
    """Return the poses of a pair: bones of a clip, vertices of the cache. Their notes say what
    was put right.

    read          returns the character with its clips sampled at a rate; None: that of its file
    cache         the positions, numbered and with polygons where the file has them
    frame_offset  the frame of the clip, counted from its first, that is the first of the cache;
                  None: it is found
    """
    with progress.task("aligning", 1) as bar:
        character = _sampled(read, cache)
        if not len(character.mesh.polygon_sizes) and cache.mesh is not None:
            found = skeleton_poses(character, cache, cache.mesh, frame_offset)
            bar.advance()
            return _stated(*found, progress)
        match = _best_match(read, character, cache, frame_offset)
        bar.advance()
    if not match.good:
        raise InputError(_refusal(match, cache))
    overlap = _overlap(match, cache)
    part = slice(overlap.first + overlap.frame, overlap.last + overlap.frame)
    clip = replace(
        match.clip,
        world_from_bone=match.clip.world_from_bone[part],
        shape_weights=match.clip.shape_weights[part],
        start_frame=match.clip.start_frame + part.start,
        vertices=match.alignment.apply(cache.vertices[overlap.first : overlap.last]),
    )
    notes = alignment_notes(match.alignment, cache, match.clip, match.character, match.expected)
    own, rate = character.clips[0].frame_rate, match.clip.frame_rate
    if abs(rate - own) > 1e-3 * own:
        notes.append(f"the cache has {rate:g} frames per second, the file states {own:g}")
    notes.append(
        f"the cache is {100 * match.agreement.middle:.2g} % of the size away from the skinned clip "
        f"{clip.name!r} (median of the vertices; 95 % of them: {100 * match.agreement.most:.2g} %)"
    )
    return _stated(match.character.with_clips([clip]).poses(), notes, progress)


def _stated(poses: Poses, notes: list[str], progress: Progress) -> Poses:
    """Return poses with notes, which are also said."""
    notes = [*poses.notes, *notes]
    for note in notes:
        progress.say(note)
    return replace(poses, notes=tuple(notes))


def _overlap(match: _Match, cache: VertexCache) -> Overlap:
    return Overlap.of(match.clip.frame_count, cache.frame_count, match.alignment.frame)


def _sampled(read: Callable[[float | None], Character], cache: VertexCache) -> Character:
    """Return the character with a frame for every frame of the cache, as far as rates are known."""
    step = np.diff(cache.frames)
    if len(step) and np.abs(step - step[0]).max() > 1e-3 * step[0]:
        raise InputError(f"{cache.name!r} has uneven frames; export every frame")
    character = read(cache.frame_rate / cache.spacing if cache.frame_rate else None)
    if cache.frame_rate is None and abs(cache.spacing - 1) > 1e-3 and character.clips:
        character = read(character.clips[0].frame_rate / cache.spacing)
    return character


def _best_match(
    read: Callable[[float | None], Character],
    character: Character,
    cache: VertexCache,
    frame_offset: int | None,
) -> _Match:
    """Return the best clip and alignment; the order of the vertices last, as the least likely."""
    _need_same_vertices(character, cache)
    reorder = cache.mesh is None or not same_polygons(cache.mesh, character.mesh)
    found = _matches(character, cache, frame_offset, reorder)
    best = min(found, key=lambda match: match.rank)
    if best.good or cache.frame_rate is not None:
        return best
    own = character.clips[0].frame_rate
    for rate in _RATES:
        if abs(rate - own) > 1e-3 * own:
            found += _matches(read(rate), cache, frame_offset, reorder=False)
            best = min(found, key=lambda match: match.rank)
            if best.good:
                break
    return best


def _matches(
    character: Character, cache: VertexCache, frame_offset: int | None, reorder: bool
) -> list[_Match]:
    """Return the best alignment to each clip; in another order only if none fits as it is."""
    pair = _Pair(cache, frame_offset)
    found = [pair.match(character, clip) for clip in character.clips]
    best = min(found, key=lambda match: match.rank)
    if not reorder or (best.good and best.agreement.in_order):
        return found
    many = character.mesh.vertex_count > _FEW_VERTICES
    if many and best.agreement.edges <= WRONG_EDGES and not best.good:
        return found  # edges have their length: the order is right, something else is not
    if best.good:  # but some vertices are far from their neighbours
        other = pair.match_strays(best)
        fewer = len(other.agreement.stray) < len(best.agreement.stray)
        return [other if other.good and fewer else best]
    others = [pair.match_reordered(character, clip) for clip in character.clips]
    return found + [match for match in others if match is not None]


@dataclass(frozen=True, eq=False)
class _Pair:
    """A cache, and what is known about its frames."""

    cache: VertexCache
    frame_offset: int | None
    last: list = field(default_factory=list)  # the clip compared last, and its vertices

    def match(self, character: Character, clip: CharacterClip) -> _Match:
        """Return the best alignment of the cache to a clip, in the order of its vertices."""
        reference, size, expected = self._compared(character, clip)
        found = align(reference, self._positions(), size, expected, self.frame_offset)
        return self._judged(character, clip, found)

    def match_reordered(self, character: Character, clip: CharacterClip) -> _Match | None:
        """Return the best alignment of the cache to a clip, in any order of its vertices."""
        reference, size, expected = self._compared(character, clip)
        mesh = self.cache.mesh
        edges = Edges(character.mesh.edges, None if mesh is None else mesh.edges)
        found = align_reordered(
            reference, self._positions(), edges, size, expected, self.frame_offset
        )
        if found is None or found.order is None:
            return None
        if edges.confirm(found.order):
            found = replace(found, doubtful=0)
        match = self._judged(character, clip, found)
        return match if match.agreement.in_order else None

    def match_strays(self, match: _Match) -> _Match:
        """Return the same match with the vertices that are far from their neighbours exchanged."""
        reference, _, _ = self._compared(match.character, match.clip)
        stray = match.agreement.stray
        found = order_strays(reference, self._positions(), match.alignment, stray)
        return self._judged(match.character, match.clip, found)

    def _positions(self) -> np.ndarray:
        return np.asarray(self.cache.vertices, np.float32)

    def _compared(self, character: Character, clip: CharacterClip) -> tuple[np.ndarray, float, int]:
        """Return the skinned clip (F,V,3), the character's size, and the expected frame offset."""
        if self.last and self.last[0] is clip:
            reference = self.last[1]
        else:
            # Not `evaluate_clip`: a point cache of the file is not its skin.
            bones = clip.world_from_bone if character.skeleton is not None else None
            reference = character.evaluate(bones, clip.shape_weights)
            self.last[:] = [clip, reference]
        cache, expected = self.cache, 0
        if cache.numbered:
            expected = round(cache.frames[0] / cache.spacing) - clip.start_frame
            if not -cache.frame_count < expected < clip.frame_count:
                expected = 0
        return reference, size_of(character), expected

    def _judged(self, character: Character, clip: CharacterClip, alignment: Alignment) -> _Match:
        """Return an alignment with the distance that remains."""
        reference, _, expected = self._compared(character, clip)
        agreement = Agreement.of(reference, self._positions(), alignment, character, clip)
        return _Match(character, clip, alignment, agreement, expected)


def _need_same_vertices(character: Character, cache: VertexCache) -> None:
    """Raise unless the cache has a position for every vertex, and there is motion to compare."""
    have, want = cache.vertex_count, character.mesh.vertex_count
    name, other = cache.name, character.name
    if not len(character.mesh.polygon_sizes):
        raise InputError(
            f"{other!r} has bones and no mesh, the cache {name!r} no polygons; give a cache with "
            "polygons: .obj, .ply, .abc or .usd"
        )
    if have != want:
        parts = [part for part, index in character.mesh.parts.items() if len(index) == have]
        help_ = f"; its part {parts[0]!r} has {have}: add --mesh '{parts[0]}'" if parts else ""
        if not help_ and len(character.mesh.parts) > 1:
            counts = ", ".join(f"{k} {len(v)}" for k, v in character.mesh.parts.items())
            help_ = f" ({counts}); name the objects that are in the cache with --mesh"
        raise InputError(
            f"the cache {name!r} has {have} vertices, the character {other!r} has {want}{help_}"
        )
    if not character.clips:
        raise InputError(f"{other!r} has no animation, so the cache {name!r} belongs to nothing")


def _refusal(match: _Match, cache: VertexCache) -> str:
    """Return why a pair cannot be learned, by how much, and what to do."""
    agreement, alignment = match.agreement, match.alignment
    reasons = [
        f"half of the vertices are {100 * agreement.middle:.3g} % of the size away or more",
        f"5 % of them {100 * agreement.most:.3g} % or more",
    ]
    if agreement.followed > 0:
        reasons.append(f"{100 * agreement.followed:.3g} % of the motion remains")
    if agreement.rest > 0.001:
        reasons.append(f"{100 * agreement.rest:.2g} % in the shape at rest")
    if alignment.doubtful:
        reasons.append(f"the order of {alignment.doubtful} vertices cannot be told")
    if agreement.edges > 0:
        reasons.append(f"{100 * agreement.edges:.2g} % of the edges have another length")
    return (
        f"the cache {cache.name!r} does not fit the character {match.character.name!r}: at best "
        f"(clip {match.clip.name!r}, frame offset {alignment.frame}, scale {alignment.scale:.4g}, "
        f"{axes_text(alignment.axes, match.character.mesh)}) {'; '.join(reasons)}. Check that "
        "both come from one scene and one take; export both again without changing the vertices, "
        "or say more: --clip, --mesh, --frame-offset, --frame-rate"
    )
