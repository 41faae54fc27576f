"""`Clip`: bone transforms of an animation. `ClipSpan`: which frames of a sequence are one clip.

`ClipKeys` is how a file may store a clip: keys where they are needed, in 32 or 16 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.noun import Noun
from understudy.system import checks
from understudy.system.errors import InputError


@dataclass(frozen=True, eq=False, repr=False)
class ClipKeys(Noun):
    """Keys of bones: between two keys, every number of a bone's transform changes linearly.

    is_key  (F,B) bool, which bone has a key in which frame; every bone in the first and the last
    values  (n,12) float32, the transforms of all keys, frame by frame

    >>> keys = ClipKeys(np.array([[1], [0], [1]], bool), np.array([[0.0] * 12, [1.0] * 12]))
    >>> keys.world_from_bone()[1].max()
    np.float64(0.5)
    """

    is_key: np.ndarray
    values: np.ndarray

    def __post_init__(self):
        put = self._keep
        put("is_key", np.ascontiguousarray(checks.shape_of(self.is_key, "keys", (None, None))))
        checks.kind_of(self.is_key, "keys", "b")
        put("values", checks.array(self.values, "values of keys", (None, 12), np.float32))
        have = int(self.is_key.sum())
        checks.same_count(have, len(self.values), "keys", "is_key", "values of keys")
        if not len(self.is_key) or not self.is_key[[0, -1]].all():
            raise InputError("keys: every bone needs one in the first and in the last frame")

    def world_from_bone(self) -> np.ndarray:
        """Return the transforms of all frames, (F,B,3,4) float64."""
        frames, bones = self.is_key.shape
        at = np.where(self.is_key, np.arange(frames)[:, None], -1)
        before = np.maximum.accumulate(at, axis=0)
        after = np.where(self.is_key, at, frames)
        after = np.minimum.accumulate(after[::-1], axis=0)[::-1]
        keys = np.zeros((frames, bones, 12))
        keys[self.is_key] = self.values
        bone = np.arange(bones)
        start = keys[before, bone]
        share = (np.arange(frames)[:, None] - before) / np.maximum(after - before, 1)
        moved = start + (keys[after, bone] - start) * share[..., None]
        return moved.reshape(frames, bones, 3, 4)


@dataclass(frozen=True, eq=False, repr=False)
class Clip(Noun):
    """Bone transforms of every frame, which drive `Deformer.deform`.

    name             of the sequence
    world_from_bone  (F,B,3,4) float64, one transform per bone and frame
    frame_rate       frames per second, or None: unknown
    start_frame      the number of its first frame in the original sequence
    keys             how a file stores it, or None: every frame in float64. Keys that do not give
                     `world_from_bone` are dropped

    >>> Clip("walk", np.tile(np.eye(3, 4), (24, 2, 1, 1)), frame_rate=24.0).frame_count
    24
    """

    name: str
    world_from_bone: np.ndarray
    frame_rate: float | None = None
    start_frame: int = 0
    keys: ClipKeys | None = None

    def __post_init__(self):
        put = self._borrow
        what = f"of clip {checks.full_text(self.name, 'clip name')!r}"
        shape = (None, None, 3, 4)
        bones = checks.array(self.world_from_bone, f"world_from_bone {what}", shape, np.float64)
        put("world_from_bone", bones)
        if not self.frame_count:
            raise InputError(f"clip {self.name!r} has no frames")
        if self.frame_rate is not None:
            checks.between(self.frame_rate, f"frame_rate {what}", above=0)
            put("frame_rate", float(self.frame_rate))
        put("start_frame", checks.of_type(self.start_frame, f"start_frame {what}", int))
        if self.keys is not None and not np.array_equal(self.keys.world_from_bone(), bones):
            put("keys", None)

    @staticmethod
    def from_keys(
        name: str, keys: ClipKeys, frame_rate: float | None = None, start_frame: int = 0
    ) -> Clip:
        """Return the clip of some keys."""
        return Clip(name, keys.world_from_bone(), frame_rate, start_frame, keys)

    @property
    def frame_count(self) -> int:
        """F."""
        return len(self.world_from_bone)

    @property
    def bone_count(self) -> int:
        """B."""
        return self.world_from_bone.shape[1]


@dataclass(frozen=True)
class ClipSpan:
    """The name and length of one clip, in poses that consist of several, one after the other.

    name         of the clip
    frame_count  at least one
    frame_rate   frames per second, or None: unknown
    start_frame  the number of its first frame in the original sequence

    >>> ClipSpan("walk", 24).frame_count
    24
    """

    name: str
    frame_count: int
    frame_rate: float | None = None
    start_frame: int = 0

    def __post_init__(self):
        checks.full_text(self.name, "clip name")
        if self.frame_count < 1:
            raise InputError(f"clip {self.name!r} has no frames")


def cut_clips(world_from_bone: np.ndarray, spans: Sequence[ClipSpan]) -> tuple[Clip, ...]:
    """Return the bones of all frames as one `Clip` per span.

    world_from_bone  (T,B,3,4)
    spans            whose frames add up to T

    >>> clips = cut_clips(np.zeros((5, 1, 3, 4)), [ClipSpan("a", 2), ClipSpan("b", 3)])
    >>> [clip.frame_count for clip in clips]
    [2, 3]
    """
    world_from_bone = np.asarray(world_from_bone)
    have, want = sum(span.frame_count for span in spans), len(world_from_bone)
    checks.same_count(have, want, "frames", "the spans together", "world_from_bone")
    ends = np.cumsum([span.frame_count for span in spans])
    return tuple(
        Clip(s.name, world_from_bone[end - s.frame_count : end], s.frame_rate, s.start_frame)
        for s, end in zip(spans, ends)
    )
