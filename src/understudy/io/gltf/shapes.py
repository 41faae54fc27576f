"""Morph targets of the parts of a file, as the blend shapes of one character.

A target belongs to one mesh in glTF. Targets of several parts that have the same name and the same
weights in every animation are one blend shape, as "smile" on the face and on the teeth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.character import BlendShape
from understudy.io.gltf.document import Entry, clean_text, unique


@dataclass(frozen=True)
class Target:
    """One morph target of one part.

    name      in the file; "" if it has none
    part      name of the part
    vertices  (n,) of the character, increasing
    offsets   (n,3)
    curves    weights per clip, each (F,), or (1,) if they do not change; at the end that without
              animation, (1,)
    """

    name: str
    part: str
    vertices: np.ndarray
    offsets: np.ndarray
    curves: tuple[np.ndarray, ...]


def target_names(mesh: Entry, count: int) -> list[str]:
    """Return the names of the morph targets of a mesh; "" for those without one."""
    extras = mesh.data.get("extras")
    names = extras.get("targetNames") if isinstance(extras, dict) else None
    if not isinstance(names, list) or len(names) < count:
        return [""] * count
    return [clean_text(name) if isinstance(name, str) else "" for name in names[:count]]


def blend_shapes(
    targets: list[Target], order: list[str]
) -> tuple[list[BlendShape], list[tuple[np.ndarray, ...]]]:
    """Return the blend shapes of all targets, and the weight curves of each.

    order  names that come first, in this order
    """
    groups: dict[str, list[Target]] = {}
    taken: dict[str, int] = {}
    seen: dict[str, str] = {}  # name in the file -> name of the first shape
    for number, target in enumerate(targets):
        first = seen.get(target.name) if target.name else None
        if first is not None and _together(groups[first], target):
            groups[first].append(target)
            continue
        name = target.name or f"{target.part}_target_{number}"
        name = unique(name if name not in taken else f"{target.part}_{name}", taken)
        seen.setdefault(target.name, name)
        groups[name] = [target]
    rank = {name: place for place, name in enumerate(order)}
    names = sorted(groups, key=lambda name: rank.get(name, len(rank)))
    return [_shape(name, groups[name]) for name in names], [groups[n][0].curves for n in names]


def _together(group: list[Target], target: Target) -> bool:
    """Return whether a target of another part always has the weights of a group."""
    if any(target.part == other.part for other in group):
        return False
    return all(np.array_equal(a, b) for a, b in zip(group[0].curves, target.curves))


def _shape(name: str, group: list[Target]) -> BlendShape:
    """Return the blend shape of targets on several parts; a vertex of two parts counts once."""
    vertices = np.concatenate([target.vertices for target in group])
    offsets = np.concatenate([target.offsets for target in group])
    vertices, first = np.unique(vertices, return_index=True)
    return BlendShape(name, vertices, offsets[first])
