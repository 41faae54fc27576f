"""One set of labels for the bones of all characters.

A network can predict label 17 only if label 17 means the same in every character, but names and
numbers of bones differ. Here a label is a place on the body. Bones are matched to label centres by
their position in the sequence's own axes (`trajectories`) and by the size of their motion.

Centres and matching are found together, as in k-means, except that two bones of one character never
share a label. That is an assignment problem, solved exactly. A label then means, for example, the
end of the left front limb of every character that has one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

_ITERATIONS = 30
_MOTION = 0.3  # weight of the size of the motion, relative to the position


def bone_descriptors(trajectories: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return (B,4) descriptors: mean position of a bone's vertices and size of their motion.

    trajectories  (V,F,6)
    weights       (V,B)
    """
    share = weights / weights.sum(axis=0)
    position = share.T @ trajectories[:, 0, :3]
    motion = share.T @ np.sqrt((trajectories[:, :, 3:] ** 2).sum(axis=2).mean(axis=1))
    return np.column_stack([position, _MOTION * motion])


def common_labels(characters: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    """Return the labels (B_i,) of the bones of each character, different within a character.

    characters  descriptors (B_i,4) of the bones of each, at most `count`
    count       number of labels; they are 0..count
    """
    everyone = np.concatenate(characters)
    centres = _spread(everyone, count)
    labels = [_match(own, centres) for own in characters]
    for _ in range(_ITERATIONS):
        label = np.concatenate(labels)
        total = np.zeros_like(centres)
        np.add.at(total, label, everyone)
        members = np.bincount(label, minlength=count)[:, None]
        centres = np.where(members > 0, total / np.maximum(members, 1), centres)
        before, labels = labels, [_match(own, centres) for own in characters]
        if all((a == b).all() for a, b in zip(before, labels)):
            break
    return labels


def _match(own: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the label (B,) of each bone that minimises the sum of squared distances."""
    row, column = linear_sum_assignment(((own[:, None] - centres[None]) ** 2).sum(axis=2))
    return column[np.argsort(row)]


def _spread(points: np.ndarray, count: int) -> np.ndarray:
    """Return `count` points far from each other; if there are fewer, some are repeated."""
    chosen = [int(np.argmax(((points - points.mean(axis=0)) ** 2).sum(axis=1)))]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < min(count, len(points)):
        nearest = np.minimum(nearest, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(np.argmax(nearest)))
    return points[np.resize(np.array(chosen), count)]
