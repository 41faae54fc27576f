"""Left and right: which bone mirrors which, from names or from the rest pose.

Letters: B bones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from understudy.core.skeleton import Skeleton

_NEAR = 0.03  # of the skeleton's size: how far a mirrored joint may be from its twin
_PAIRS = 0.6  # share of the bones off the middle that need a twin for a symmetric skeleton
# A side is a word of its own: hand.L, hand_l, l_hand, LeftHand, Left Hand, hand-right.
_WORD = re.compile(r"left|right|(?<![a-z0-9])[lr](?![a-z0-9])", re.IGNORECASE)
_CAMEL = re.compile(r"(?<![A-Za-z])[LR](?=[A-Z][a-z])|(?<=[a-z0-9])[LR](?![A-Za-z])")
_OTHER = {"left": "right", "right": "left", "l": "r", "r": "l"}


def other_side(name: str) -> str | None:
    """Return the name of the other side, or None if a name has no side.

    >>> other_side("hand.L"), other_side("LeftFoot"), other_side("l_clavicle"), other_side("head")
    ('hand.R', 'RightFoot', 'r_clavicle', None)
    """
    last = _last_side(name)
    return last and name[: last.start()] + _swapped(last.group()) + name[last.end() :]


def side_of_name(name: str) -> str | None:
    """Return "left", "right", or None if a name has no side.

    >>> side_of_name("mixamorig:RightHand"), side_of_name("Bone.012")
    ('right', None)
    """
    last = _last_side(name)
    return last and ("left" if last.group().lower() in ("l", "left") else "right")


def _last_side(name: str) -> re.Match[str] | None:
    """Return the last word, or else capital, of a name that says a side."""
    found = [*_CAMEL.finditer(name)], [*_WORD.finditer(name)]
    return next((matches[-1] for matches in reversed(found) if matches), None)


def name_twins(names: Sequence[str]) -> np.ndarray:
    """Return the index of the name of the other side, (n,); its own where there is none.

    >>> name_twins(["smile_L", "blink", "smile_R"]).tolist()
    [2, 1, 0]
    """
    number = {name: k for k, name in enumerate(names)}
    twins = [number.get(other_side(name) or name, k) for k, name in enumerate(names)]
    return np.array(
        [twin if twins[twin] == k else k for k, twin in enumerate(twins)], dtype=np.int32
    )


def mirror_bones(skeleton: Skeleton) -> tuple[np.ndarray, int]:
    """Return the bone of the other side (B,), itself where there is none, and the mirrored axis.

    The axis is 0, 1 or 2, or -1 if the rest pose is not symmetric.
    """
    place = skeleton.world_from_bone[:, :, 3]
    own = np.arange(skeleton.bone_count, dtype=np.int32)
    size = float(np.ptp(place, axis=0).max()) if len(place) else 0.0
    if size <= 0:
        return own, -1
    named = name_twins(skeleton.names)
    best: tuple[float, np.ndarray, int] | None = None
    for axis in range(3):
        twins = _axis_twins(skeleton, place, axis, size, named)
        if twins is None:
            continue
        paired = float((twins != own).mean())
        if best is None or paired > best[0]:
            best = (paired, twins, axis)
    return (own, -1) if best is None else (best[1], best[2])


def _axis_twins(
    skeleton: Skeleton, place: np.ndarray, axis: int, size: float, named: np.ndarray
) -> np.ndarray | None:
    """Return the twins (B,) across a plane at right angles to `axis`, or None."""
    own = np.arange(len(place), dtype=np.int32)
    pairs = np.flatnonzero(named != own)
    centre = place[skeleton.roots[0], axis]
    if pairs.size:
        centre = float(np.median(0.5 * (place[pairs, axis] + place[named[pairs], axis])))
    image = place.copy()
    image[:, axis] = 2 * centre - image[:, axis]
    fits = lambda twins: np.linalg.norm(image - place[twins], axis=1) < _NEAR * size
    twins = np.where(fits(named), named, own)
    if (twins != own).sum() < 0.5 * pairs.size or not pairs.size:
        _, nearest = cKDTree(place).query(image)
        mutual = (nearest[nearest] == own) & fits(nearest)
        twins = np.where(mutual, nearest, own)
    off = np.abs(place[:, axis] - centre) > _NEAR * size
    if not off.any() or (twins[off] != own[off]).mean() < _PAIRS:
        return None
    return twins.astype(np.int32)


def _swapped(side: str) -> str:
    other = _OTHER[side.lower()]
    if side.isupper():
        return other.upper()
    return other.capitalize() if side[0].isupper() else other
