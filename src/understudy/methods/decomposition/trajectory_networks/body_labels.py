"""One set of labels for the bones of all characters.

A network can only say "bone 17" if bone 17 means the same in every character, and the characters'
own names and numbers do not. Here a label is a place: bones are matched to `LABELS` slots by where
they are in their sequence's own frame (`trajectories`) and by how much they move. Slots and
matching are found together, as k-means finds centres and members, except that within a character no
two bones may share a slot (an assignment problem, solved exactly). So "bone 17" is, say, the one at
the end of the left front limb of whatever has one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

_ROUNDS = 30
_MOTION = 0.3  # how much the size of a bone's motion counts beside its place


def descriptor(read: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(B,4) of bones: mean place of the vertices they move and the size of those vertices' motion,
    from trajectories (V,F,6) and weights (V,B).
    """
    share = weights / weights.sum(axis=0)
    place = share.T @ read[:, 0, :3]
    motion = share.T @ np.sqrt((read[:, :, 3:] ** 2).sum(axis=2).mean(axis=1))
    return np.column_stack([place, _MOTION * motion])


def common_labels(bones: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    """A label in 0..count for each bone of each character (their descriptors (B_i,4), at most
    `count` each), different within a character.
    """
    everyone = np.concatenate(bones)
    slots = _spread(everyone, count)
    labels = [_matched(own, slots) for own in bones]
    for _ in range(_ROUNDS):
        label = np.concatenate(labels)
        total = np.zeros_like(slots)
        np.add.at(total, label, everyone)
        members = np.bincount(label, minlength=count)[:, None]
        slots = np.where(members > 0, total / np.maximum(members, 1), slots)
        before, labels = labels, [_matched(own, slots) for own in bones]
        if all((a == b).all() for a, b in zip(before, labels)):
            break
    return labels


def _matched(own: np.ndarray, slots: np.ndarray) -> np.ndarray:
    row, column = linear_sum_assignment(((own[:, None] - slots[None]) ** 2).sum(axis=2))
    return column[np.argsort(row)]


def _spread(points: np.ndarray, count: int) -> np.ndarray:
    """`count` points far from each other, beginning with the one farthest from the middle; where
    there are fewer, the last are repeated.
    """
    chosen = [int(np.argmax(((points - points.mean(axis=0)) ** 2).sum(axis=1)))]
    away = np.full(len(points), np.inf)
    while len(chosen) < min(count, len(points)):
        away = np.minimum(away, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(np.argmax(away)))
    return points[np.resize(np.array(chosen), count)]
