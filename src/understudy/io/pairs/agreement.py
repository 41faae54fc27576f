"""Whether an aligned vertex cache is the animation of a character; what was put right, in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.character import Character, CharacterClip
from understudy.core.coordinates import METRES
from understudy.core.mesh import Mesh
from understudy.core.poses import evenly
from understudy.geometry.transforms import compose
from understudy.io.pairs.alignment import RATIOS, Alignment, Overlap, distances
from understudy.io.vertex_cache import VertexCache

_FRAMES, _EDGE_FRAMES = 200, 24
_REST_VERTICES = 2000
# Correctives move vertices by less than this, as fractions of the size: half of all, and 95 %.
_MIDDLE, _MOST = 0.02, 0.1
_TIGHT = 0.005  # so near, any scale is believed
_FOLLOWED = 0.35  # distance, as a fraction of the motion, of half of the vertices that move
_MOVES = 0.002
_SAME_REST = 0.003
_LONG = 1.0  # an edge is wrong if it is more than twice as long as in the character
WRONG_EDGES = 0.01


@dataclass(frozen=True, eq=False)
class Agreement:
    """The distances between an aligned cache and the skinned animation.

    middle    median distance of the vertices, as a fraction of the size
    most      95th percentile
    followed  distance as a fraction of the motion, median of the vertices that move; 0: none does
    edges     fraction of edges with a wrong length
    stray     vertices all of whose edges are wrong
    scaled    whether the scale is a ratio of units
    rest      distance that all frames have in common, taken to the rest pose, as a fraction of the
              size: median of the vertices
    """

    middle: float
    most: float
    followed: float
    edges: float
    stray: np.ndarray
    scaled: bool
    rest: float

    @staticmethod
    def of(
        reference: np.ndarray,
        cache: np.ndarray,
        alignment: Alignment,
        character: Character,
        clip: CharacterClip,
    ) -> Agreement:
        """Return how far an alignment of a cache (G,V,3) is from the reference (F,V,3).

        character, clip  of which the reference is the skinned animation
        """
        mesh_edges = character.mesh.edges
        size = size_of(character)
        overlap = Overlap.of(len(reference), len(cache), alignment.frame)
        at, where = overlap.some(_FRAMES)
        a = reference[where].astype(np.float64)
        b = alignment.apply(cache[at])
        apart = distances(a, b)
        motion = distances(a, a.mean(axis=0, keepdims=True))
        moving = motion > _MOVES * size
        few = evenly(len(a), _EDGE_FRAMES)
        wrong = wrong_edges(a[few], b[few], mesh_edges, size)
        count = a.shape[1]
        all_of = np.bincount(mesh_edges.reshape(-1), minlength=count)
        bad_of = np.bincount(mesh_edges[wrong].reshape(-1), minlength=count)
        return Agreement(
            float(np.median(apart)) / size,
            float(np.quantile(apart, 0.95)) / size,
            float(np.median(apart[moving] / motion[moving])) if moving.any() else 0.0,
            float(wrong.mean()) if len(wrong) else 0.0,
            np.flatnonzero((all_of > 0) & (bad_of == all_of)),
            bool(np.abs(RATIOS / alignment.scale - 1).min() < 1e-6),
            _rest_distance(character, clip, where[few], (b - a)[few]) / size,
        )

    @property
    def near(self) -> bool:
        """Whether positions and motion agree."""
        return (
            self.middle <= _MIDDLE
            and self.most <= _MOST
            and self.followed <= _FOLLOWED
            and (self.scaled or self.middle <= _TIGHT)
            and self.rest <= _SAME_REST
        )

    @property
    def in_order(self) -> bool:
        """Whether the vertices have the order of the character, as edges show it."""
        return self.edges <= WRONG_EDGES and not self.stray.size

    @property
    def good(self) -> bool:
        """Whether the pair can be learned."""
        return self.near and self.edges <= WRONG_EDGES


def size_of(character: Character) -> float:
    """Return the longest side of a character at rest."""
    return float(np.ptp(character.mesh.vertices, axis=0).max()) or 1.0


def _rest_distance(
    character: Character, clip: CharacterClip, frames: np.ndarray, offsets: np.ndarray
) -> float:
    """Return the median length of the offsets (n,V,3) of some frames that are always there.

    Correctives come and go with the pose. An offset that a vertex has in every frame, in the space
    of the rest pose, is another shape at rest.
    """
    if character.skeleton is None or character.skin is None:
        return 0.0
    some = evenly(offsets.shape[1], _REST_VERTICES)
    matrices = compose(clip.world_from_bone[frames], character.skeleton.bone_from_world)[..., :3]
    weight = character.skin.weight[some].astype(np.float64)
    linear = np.einsum("vk,fvkij->fvij", weight, matrices[:, character.skin.bone_index[some]])
    flat = np.abs(np.linalg.det(linear)) < 1e-6
    linear[flat] = np.eye(3)
    back = np.linalg.solve(linear, offsets[:, some, :, None])[..., 0]
    back[flat] = 0.0
    return float(np.median(np.linalg.norm(back.mean(axis=0), axis=1)))


def wrong_edges(a: np.ndarray, b: np.ndarray, edges: np.ndarray, size: float) -> np.ndarray:
    """Return which edges (E,) have another length in b than in a, (n,V,3) each."""
    if not len(edges):
        return np.zeros(0, bool)
    length = lambda points: np.linalg.norm(points[:, edges[:, 0]] - points[:, edges[:, 1]], axis=2)
    have, want = length(b), length(a)
    # Not the scale is in question here, but which vertices are neighbours.
    have = have / max(float(np.median(have / (want + 1e-9 * size))), 1e-12)
    off = np.abs(have - want) / (want + 1e-3 * size)
    return np.median(off, axis=0) > _LONG


def alignment_notes(
    alignment: Alignment,
    cache: VertexCache,
    clip: CharacterClip,
    character: Character,
    expected: int,
) -> list[str]:
    """Return what an alignment puts right, a sentence each.

    expected  the frame offset that frame numbers suggest
    """
    notes = [f"the vertices are those of the cache {cache.name!r}"]
    size = size_of(character)
    if not np.array_equal(alignment.axes, np.eye(3)):
        notes.append(f"the cache is turned: {axes_text(alignment.axes, character.mesh)}")
    if abs(alignment.scale - 1) > 1e-9:
        notes.append(
            f"the cache is scaled by {alignment.scale:g}{_unit_text(alignment, character)}"
        )
    if np.abs(alignment.shift).max() > 1e-5 * size:
        notes.append(f"the cache is moved by {', '.join(f'{v:.4g}' for v in alignment.shift)}")
    if alignment.order is not None:
        moved = int((alignment.order != np.arange(len(alignment.order))).sum())
        notes.append(
            f"{moved} of {len(alignment.order)} vertices are in another order in the cache; they "
            "are matched by their motion"
        )
        if alignment.doubtful:
            notes.append(
                f"the order of about {alignment.doubtful} vertices is uncertain; a cache with "
                "polygons (.obj, .abc) makes it certain"
            )
    if alignment.frame != expected or alignment.frame:
        doubt = "" if alignment.sure else ", as far as the motion tells; --frame-offset sets it"
        notes.append(
            f"the first frame of the cache is frame {alignment.frame} of the clip "
            f"{clip.name!r}{doubt}"
        )
    overlap = Overlap.of(clip.frame_count, cache.frame_count, alignment.frame)
    if overlap.count < max(cache.frame_count, clip.frame_count):
        notes.append(
            f"the cache has {cache.frame_count} frames, the clip {clip.name!r} has "
            f"{clip.frame_count}: {overlap.count} are used"
        )
    return notes


def axes_text(axes: np.ndarray, mesh: Mesh) -> str:
    """Return which axes of the cache become X, Y and Z, and what that means."""
    names = []
    for row in axes:
        axis = int(np.abs(row).argmax())
        names.append(f"{'-' if row[axis] < 0 else ''}{'XYZ'[axis]}")
    text = f"X, Y, Z are {', '.join(names)} of the cache"
    if mesh.up_axis in ("Y", "Z"):
        up = names["XYZ".index(mesh.up_axis)]
        text += f"; up is {mesh.up_axis} here and {up} there"
    return text + (", mirrored" if np.linalg.det(axes) < 0 else "")


def _unit_text(alignment: Alignment, character: Character) -> str:
    """Return the unit of the cache in words, if the scale is that of a unit."""
    unit = character.mesh.unit
    for name, metres in METRES.items():
        if unit != "unitless" and abs(alignment.scale * METRES[unit] / metres - 1) < 1e-6:
            return f": it is in {name}, the character in {unit}"
    return ""
