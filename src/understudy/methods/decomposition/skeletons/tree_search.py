"""A better tree near a tree: branches grafted elsewhere, and shakes out of the valley that rounds
have led to.

The spanning tree is made from bones that are free. Which bone a branch should hang on is judged
again under the constraint itself: every link is cut in turn, its two sides joined elsewhere, where
bones that are let go would lose least; the motion for that tree is solved for, and the most
promising trees get some rounds. Between grafts, rounds with more influences than allowed, or fewer,
let weights that block each other change places. Nothing is kept that does not lower the error.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.decomposition.alternating_solve import dense_weights, rigid_bones
from understudy.methods.decomposition.motion import Motion
from understudy.methods.decomposition.skeletons.articulated_fit import (
    Character,
    fewer,
    fitted,
    rounds,
)
from understudy.methods.decomposition.skeletons.articulation import (
    Articulation,
    Link,
    Moments,
    hung,
)
from understudy.methods.decomposition.skeletons.joints import Borders, joints_of_pairs

_FIRST_ROUNDS, _SHAKE_ROUNDS, _ROUNDS, _GRAFT_ROUNDS = 60, 25, 40, 20
_SHAKES = (2, -1)  # influences more than allowed
_TIMES, _STILL = (
    6,
    2e-3,
)  # of shakes and grafts at most; no more once they lower the squared error by less than this share
_GRAFTS_OF_A_LINK, _SOLVED, _TRIED = (
    2,
    24,
    3,
    # grafts of one link that are looked at, grafts that the motion is solved for, those that get
    # rounds
)
_SWEEPS = 8  # of bones let go
_STEPS, _LEAST = 6, 1e-3  # of Gauss-Newton for a graft
_FAR = 0.3  # of the distance of two bones' middles, as a gap between them


def improved(motion: Motion, character: Character, influences: int) -> Character:
    """The rest shape fitted, and a tree at least as good."""
    character = _rounds(motion, character, influences, _FIRST_ROUNDS)
    for _ in range(_TIMES):
        before = character.fit.error
        for more in _SHAKES:
            character = _better(character, _shaken(motion, character, influences, more))
        character = _grafted(motion, character, influences)
        if character.fit.error >= (1 - _STILL) * before:
            break
    return character


def _rounds(motion: Motion, character: Character, influences: int, count: int) -> Character:
    return rounds(
        motion, fewer(motion, character, influences), influences, count, fit_rest=True, most_times=1
    )


def _better(one: Character, two: Character) -> Character:
    return two if two.fit.error < one.fit.error else one


def _shaken(motion: Motion, character: Character, influences: int, more: int) -> Character:
    between = min(max(1, influences + more), character.fit.bones)
    return _rounds(motion, _rounds(motion, character, between, _SHAKE_ROUNDS), influences, _ROUNDS)


def _grafted(motion: Motion, character: Character, influences: int) -> Character:
    """The best of some trees that differ in one link, or the one there is."""
    moments = Moments.of(character.moves(motion), character.fit)
    solved = [
        fitted(motion, character.posed(pose), _STEPS, _LEAST)
        for pose in grafts(motion, character)[:_SOLVED]
    ]
    solved.sort(key=lambda other: moments.error(other.fit.columns))
    for other in solved[:_TRIED]:
        character = _better(character, _rounds(motion, other, influences, _GRAFT_ROUNDS))
    return character


def grafts(motion: Motion, character: Character) -> list[Articulation]:
    """Trees with one link cut and its two sides joined elsewhere, by how much less the new link
    would cost bones that are let go than the old.
    """
    pose, bones = character.pose, character.fit.bones
    loose = rigid_bones(character.moves(motion), character.fit, _SWEEPS)
    weight = dense_weights(character.fit)
    total = weight.sum(axis=0)[:, None]
    middles = np.divide(
        weight.T @ character.rest[:, :3], total, out=np.zeros((bones, 3)), where=total > 0
    )
    gaps = _FAR * np.linalg.norm(middles[:, None] - middles, axis=2)
    points, cost = joints_of_pairs(
        loose, Borders((middles[:, None] + middles) / 2, np.ones((bones, bones), bool), gaps)
    )
    links, transforms, found = pose.links(), pose.transforms(), []
    for link in links:
        kept = [other for other in links if other is not link]
        below = pose.tree.below[link.one]
        across = np.where(below[:, None] & ~below, cost, np.inf)
        across[link.one, link.two] = np.inf
        for place in np.argsort(across, axis=None, kind="stable")[:_GRAFTS_OF_A_LINK]:
            one, two = divmod(int(place), bones)
            if np.isfinite(across[one, two]):
                found.append(
                    (
                        across[one, two] - cost[link.one, link.two],
                        [*kept, Link(one, two, points[one, two])],
                    )
                )
    found.sort(key=lambda graft: graft[0])
    return [hung(tree, transforms) for _, tree in found]
