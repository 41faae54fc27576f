"""How a vertex cache lies to the animation of a character: axes, scale, offset and frames.

    reference[i + frame]  ~  scale * axes @ cache[i] + shift

`axes` is a signed permutation of X, Y and Z: what exporters confuse is up axis and handedness.
The two never agree exactly, because a cache has what a skin cannot do. Many vertices do agree,
though: those where the original is a skin too. So fits use the better half of the vertices, and
the score that decides about frames the better half of those that move. Whether that is good
enough to be the same character is decided by `Agreement`.

Letters: F frames, V vertices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np

from understudy.core.coordinates import METRES
from understudy.core.poses import evenly

_METRES = set(METRES.values())
# Lengths of one unit in another.
RATIOS = np.array(sorted({round(a / b, 9) for a in _METRES for b in _METRES} | {0.1, 10.0}))
_NEAR_RATIO = 0.03
_SAME_SCORE = 1.02  # frame offsets whose scores differ by less are not told apart
_FEW_VERTICES, _FEW_FRAMES = 32, 80
_SOME_VERTICES, _SOME_FRAMES = 600, 120
_TRIED_OFFSETS = 16
_MUCH = 0.3  # a vertex moves if it moves this fraction of what the one does that moves most


def _signed_permutations() -> np.ndarray:
    """Return the 48 matrices that permute and negate axes: rotations first, the identity first."""
    made = [
        np.eye(3)[list(order)] * np.array(signs)[:, None]
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
    ]
    return np.array(sorted(made, key=lambda p: (-round(np.linalg.det(p)), -np.trace(p))))


AXES = _signed_permutations()


@dataclass(frozen=True, eq=False)
class Alignment:
    """A transform of the cache into the space and the frames of the character.

    axes    (3,3) signed permutation
    scale   of the cache's lengths
    shift   (3,), added after scaling
    frame   the frame of the clip, counted from its first, that is frame 0 of the cache
    order   (V,) the vertex of the cache for each vertex of the character; None: the same
    score   distance of the better half of the vertices that move, in the character's unit
    sure    whether other frame offsets are clearly worse
    doubtful  vertices whose partner is hardly nearer than another one
    """

    axes: np.ndarray
    scale: float
    shift: np.ndarray
    frame: int
    order: np.ndarray | None = None
    score: float = 0.0
    sure: bool = True
    doubtful: int = 0

    def apply(self, positions: np.ndarray) -> np.ndarray:
        """Return cache positions (...,V,3) in the order and the space of the character."""
        if self.order is not None:
            positions = positions[..., self.order, :]
        return self.scale * (np.asarray(positions, np.float64) @ self.axes.T) + self.shift


@dataclass(frozen=True)
class Overlap:
    """The frames that a cache and a clip share: [first, last) of the cache."""

    first: int
    last: int
    frame: int

    @staticmethod
    def of(clip_frames: int, cache_frames: int, frame: int) -> Overlap:
        """Return the overlap if cache frame 0 is clip frame `frame`."""
        return Overlap(max(0, -frame), min(cache_frames, clip_frames - frame), frame)

    @property
    def count(self) -> int:
        """The number of shared frames."""
        return max(0, self.last - self.first)

    def some(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Return at most `most` shared frames, as indices into the cache and into the clip."""
        cache = self.first + evenly(self.count, most)
        return cache, cache + self.frame


def offsets_to_try(clip_frames: int, cache_frames: int) -> np.ndarray:
    """Return every frame offset at which half of the shorter one overlaps the other, (n,)."""
    least = max(2, (min(clip_frames, cache_frames) + 1) // 2)
    every = np.arange(least - cache_frames, clip_frames - least + 1)
    return every if len(every) else np.zeros(1, np.int64)


def align(
    reference: np.ndarray,
    cache: np.ndarray,
    size: float,
    expected: int = 0,
    frame: int | None = None,
) -> Alignment:
    """Return the best alignment of a cache whose vertices have the order of the reference.

    reference  (F,V,3) the character's own animation
    cache      (G,V,3)
    size       of the character
    expected   the frame offset that frame numbers suggest: taken if another is hardly better
    frame      the frame offset, if it is known
    """
    if frame is not None:
        tried = np.array([frame])
    else:
        tried = offsets_to_try(len(reference), len(cache))
        few = moving_vertices(reference, _FEW_VERTICES)
        rough = [_fit(reference[:, few], cache[:, few], int(k), _FEW_FRAMES)[0] for k in tried]
        near = tried[np.argsort(rough)[:_TRIED_OFFSETS]]
        about = expected + np.arange(-2, 3)
        tried = np.unique(np.concatenate([near, about[np.isin(about, tried)]]))
    still, moving = some_vertices(reference)
    some = np.concatenate([still, moving])
    a, b = reference[:, some], cache[:, some]
    found = [_refined(a, b, int(k), size, len(still)) for k in tried]
    return choose_offset(found, expected, size)


def some_vertices(reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices of all kinds, and vertices that move: indices, a few hundred each."""
    each = _SOME_VERTICES // 2
    return evenly(reference.shape[1], each), moving_vertices(reference, each)


def moving_vertices(reference: np.ndarray, most: int) -> np.ndarray:
    """Return at most `most` of the vertices that move about as far as any: (F,V,3) -> indices."""
    frames = reference[evenly(len(reference), _SOME_FRAMES)].astype(np.float64)
    motion = distances(frames, frames.mean(axis=0, keepdims=True))
    found = np.flatnonzero(motion >= _MUCH * motion.max(initial=0))
    return found[evenly(len(found), most)]


def choose_offset(found: list[Alignment], expected: int, size: float) -> Alignment:
    """Return the best alignment; of those that are about as good, the one nearest to `expected`."""
    best = min(found, key=lambda one: one.score)
    limit = _SAME_SCORE * best.score + 1e-7 * size
    same = [one for one in found if one.score <= limit]
    chosen = min(same, key=lambda one: (abs(one.frame - expected), one.score))
    return replace(chosen, sure=len(same) == 1)


def best_axes(moment: np.ndarray) -> int:
    """Return which of `AXES` has the greatest inner product with a (3,3) matrix.

    Mirrored axes must be clearly better than the best rotation.
    """
    gain = np.einsum("pij,ij->p", AXES, moment)
    rotation, mirrored = int(np.argmax(gain[:24])), 24 + int(np.argmax(gain[24:]))
    scale = np.abs(moment).sum() + 1e-300
    return mirrored if gain[mirrored] > gain[rotation] + 1e-4 * scale else rotation


def _fit(
    reference: np.ndarray, cache: np.ndarray, frame: int, most: int
) -> tuple[float, np.ndarray]:
    """Return the mean squared distance after the best fit at a frame offset, and its axes."""
    at, where = Overlap.of(len(reference), len(cache), frame).some(most)
    a = reference[where].reshape(-1, 3).astype(np.float64)
    b = cache[at].reshape(-1, 3).astype(np.float64)
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    moment = a.T @ b / len(a)
    axes = AXES[best_axes(moment)]
    gain, spread = max(0.0, float((axes * moment).sum())), float((b**2).sum() / len(b))
    return float((a**2).sum() / len(a)) - gain**2 / max(spread, 1e-300), axes


def _refined(
    reference: np.ndarray, cache: np.ndarray, frame: int, size: float, scored: int
) -> Alignment:
    """Return the alignment at a frame offset that fits the better half of the vertices best.

    scored  the first vertex of those that the score counts
    """
    at, where = Overlap.of(len(reference), len(cache), frame).some(_SOME_FRAMES)
    _, axes = _fit(reference, cache, frame, _SOME_FRAMES)
    a, b = reference[where].astype(np.float64), cache[at].astype(np.float64)
    return fit_axes(a, b, axes, frame, size, scored)


def fit_axes(
    a: np.ndarray, b: np.ndarray, axes: np.ndarray, frame: int, size: float, scored: int = 0
) -> Alignment:
    """Return the alignment with given axes: a (n,V,3) character, b (n,V,3) cache, frame by frame.

    Scale and shift fit the better half of the vertices. A scale that is nearly the ratio of two
    units is that ratio, a shift that is nearly none is none, if that fits about as well.

    scored  the first vertex of those that the score counts
    """
    b = b @ axes.T
    use = np.arange(a.shape[1])
    for _ in range(4):
        scale, shift = _similarity(a[:, use], b[:, use])
        apart = distances(a, scale * b + shift)
        use = np.flatnonzero(apart <= np.median(apart))
    best = (better_half(apart), scale, shift)
    limit = 1.2 * best[0] + 1e-5 * size
    ratio = float(RATIOS[np.argmin(np.abs(np.log(RATIOS / scale)))])
    for factor in (scale, ratio) if abs(scale / ratio - 1) < _NEAR_RATIO else (scale,):
        for moved in (np.median((a - factor * b)[:, use], axis=(0, 1)), np.zeros(3)):
            score = better_half(distances(a, factor * b + moved))
            if score <= limit:
                best = (score, factor, moved)
    apart = distances(a[:, scored:], best[1] * b[:, scored:] + best[2])
    return Alignment(axes, best[1], best[2], frame, score=better_half(apart))


def _similarity(a: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the scale and shift (3,) for which scale * b + shift fits a, both (n,V,3)."""
    x, y = a.reshape(-1, 3), b.reshape(-1, 3)
    middle_x, middle_y = x.mean(axis=0), y.mean(axis=0)
    spread = float(((y - middle_y) ** 2).sum())
    scale = float(((x - middle_x) * (y - middle_y)).sum()) / max(spread, 1e-300)
    return max(scale, 1e-12), middle_x - max(scale, 1e-12) * middle_y


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the root mean square distance of every vertex over the frames, (V,): (n,V,3) each."""
    return np.sqrt(((a - b) ** 2).sum(axis=2).mean(axis=0))


def better_half(apart: np.ndarray) -> float:
    """Return the root mean square of the smaller half of distances (V,)."""
    count = (len(apart) + 1) // 2
    return float(np.sqrt((np.partition(apart, count - 1)[:count] ** 2).mean()))
