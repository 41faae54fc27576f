"""The start: groups of vertices that move together, one affine bone each, grown one at a time.

The group that is explained worst is split: the vertex it misses most and that vertex's surroundings
(the members that stay nearest to it over all frames) get a bone of their own; then all vertices
choose again and all bones are fitted again, a few times. Only motion enters, never the mesh's
connectivity: Dem Bones starts from patches of the surface and fails on meshes of many shells.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.decomposition.alternating_solve import (
    Fit,
    Search,
    affine_bones,
    with_weights,
)
from understudy.methods.decomposition.motion import Motion

_ROUNDING = (
    1e-14  # squared, of a coordinate: what float32 vertices of a mesh of unit size carry anyway
)
_LEAST = 8  # vertices a new bone is made from, where there are as many
_REPEATS = 3  # of choosing and fitting after a split
_LAST_REPEATS = 10
_HARD = Search(influences=1, exchanges=0)


def one_bone(motion: Motion) -> Fit:
    """All vertices on one affine bone."""
    count = motion.vertex_count
    start = Fit(
        np.zeros((motion.rows, 4)),
        np.zeros((count, 1), np.int32),
        np.ones((count, 1)),
        motion.square,
    )
    return chosen(motion, affine_bones(motion, start))


def chosen(motion: Motion, columns: np.ndarray) -> Fit:
    """Every vertex on the bone that explains it best."""
    count = motion.vertex_count
    return with_weights(
        motion, columns, np.zeros((count, 1), np.int32), np.zeros((count, 1)), _HARD
    )


def grown(motion: Motion, fit: Fit, bones: int, locked: int = 0, share: float = 0.25) -> Fit:
    """More groups, up to `bones`; the first `locked` bones stay as they are. Fewer where every
    vertex is explained.

    share: of a group, what its worst vertex takes along
    """
    exact = _ROUNDING * motion.vertex_count * motion.rows
    while fit.bones < bones and fit.error > exact:
        fit = chosen(motion, np.column_stack([fit.columns, split_off(motion, fit, share)]))
        fit = settled(motion, fit, _REPEATS, locked)
    return settled(motion, fit, _LAST_REPEATS, locked)


def settled(motion: Motion, fit: Fit, repeats: int, locked: int = 0) -> Fit:
    """Fitted and chosen again, a few times."""
    moving = np.arange(fit.bones) >= locked
    for _ in range(repeats):
        fit = chosen(motion, affine_bones(motion, fit, moving))
    return fit


def split_off(motion: Motion, fit: Fit, share: float) -> np.ndarray:
    """A bone (R,4) for the worst vertex of the worst group and its surroundings."""
    group = int(np.argmax(np.bincount(fit.index[:, 0], fit.value, fit.bones)))
    members = np.flatnonzero(fit.index[:, 0] == group)
    seed = members[np.argmax(fit.value[members])]
    away = ((motion.targets[members] - motion.targets[seed]) ** 2).sum(axis=1) * (3 / motion.rows)
    away += ((motion.rest[members] - motion.rest[seed]) ** 2).sum(axis=1)
    near = members[np.argsort(away, kind="stable")[: max(_LEAST, int(share * len(members)))]]
    rest, targets = motion.rest[near, :3], motion.targets[near]
    middle, there = rest.mean(axis=0), targets.mean(axis=0)
    rest, targets = rest - middle, targets - there
    # Where the surroundings are flat or too few to tell, the group's own bone fills in.
    before = fit.columns[:, 4 * group : 4 * group + 3]
    normal = rest.T @ rest
    ridge = 1e-4 * np.trace(normal) / 3 + 1e-300
    linear = np.linalg.solve(normal + ridge * np.eye(3), rest.T @ targets + ridge * before.T).T
    return np.column_stack([linear, there - linear @ middle])
