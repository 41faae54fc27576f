"""What was put right in a pair, in words."""

from __future__ import annotations

import numpy as np

from understudy.core.character import Character, CharacterClip
from understudy.core.mesh import Mesh
from understudy.io.pairs.agreement import size_of
from understudy.io.pairs.alignment import Alignment, Overlap
from understudy.io.vertex_cache import VertexCache

_METERS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048}


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
    own = _METERS.get(character.mesh.unit)
    for name, meters in _METERS.items():
        if own is not None and abs(alignment.scale * own / meters - 1) < 1e-6:
            return f": it is in {name}, the character in {character.mesh.unit}"
    return ""
