"""A search for a better tree near a given one.

The spanning tree (`joints`) is built from bones that move independently. Which bone a branch should
hang from is decided again under the constraint of the joints. Every link is cut in turn, and its
two sides are joined where independent bones would lose least. The motion of each new tree is solved
for, and the most promising trees get some iterations.

Between these changes, the weights are perturbed: iterations with more or fewer influences than
allowed, then with the allowed number, lead out of local minima. Only changes that lower the error
are kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from understudy.methods.decomposition.skeleton.articulated_fit import (
    ArticulatedFit,
    limit_influences,
    solve_articulated,
    solve_motion,
)
from understudy.methods.decomposition.skeleton.articulation import (
    Articulation,
    Link,
    NormalEquations,
    articulate,
)
from understudy.methods.decomposition.skeleton.joints import Borders, pairwise_joints
from understudy.methods.decomposition.solve.motion import Motion, dense_weights
from understudy.methods.decomposition.solve.solves import solve_rigid_transforms

_FIRST_ITERATIONS, _ITERATIONS = 60, 40
_PERTURBED_ITERATIONS, _TREE_ITERATIONS = 25, 20
_PERTURBATIONS = (2, -1)  # influences more than allowed
# At most so many repetitions; none after one that lowers the squared error by less than this share
_REPETITIONS, _MIN_GAIN = 4, 5e-3
_TREES_PER_LINK = 2  # trees considered for every cut link
_TREES_SOLVED = 16  # trees whose motion is solved for
_TREES_TRIED = 3  # trees that get iterations
_SWEEPS = 8  # of independent bones
_STEPS, _STEP_GAIN = 6, 1e-3  # of Gauss-Newton for a new tree
# Bones that share less than the first of the weights of the smaller one are not joined if others
# across share so many times more, and the error is multiplied by at most the last.
_SHARED, _TIMES, _RISE = 0.01, 10.0, 1.05
_GAP = 0.3  # of the distance between the centres of two bones, as the gap between them


def search_trees(
    motion: Motion,
    fitted: ArticulatedFit,
    influences: int,
    enough: Callable[[ArticulatedFit], bool] = lambda fitted: False,
) -> ArticulatedFit:
    """Return a fit with a tree at least as good, and with its rest shape solved for.

    influences  largest number of bones per vertex
    enough      whether a fit is good enough, so that no repetition follows
    """
    fitted = _iterate(motion, fitted, influences, _FIRST_ITERATIONS)
    for _ in range(_REPETITIONS):
        before = fitted.error
        for more in _PERTURBATIONS:
            fitted = _better(fitted, _perturb(motion, fitted, influences, more))
        fitted = _best_neighbour(motion, fitted, influences)
        if fitted.error >= (1 - _MIN_GAIN) * before or enough(fitted):
            break
    return fitted


def joined_where_shared(motion: Motion, fitted: ArticulatedFit, influences: int) -> ArticulatedFit:
    """Return a fit whose links join bones that move vertices together, where that costs little.

    A link of a hind hoof to a shoulder that moves in the same rhythm is of no use to an animator.
    The two sides are joined where they share most.
    """
    for number in range(fitted.fit.bones - 1):
        links, weight = fitted.pose.links(), dense_weights(fitted.fit)
        link, mass = links[number], weight.sum(axis=0)
        shared = weight.T @ weight / np.maximum(np.minimum(mass, mass[:, None]), 1e-300)
        below = fitted.pose.tree.descends[link.one]
        across = np.where(below[:, None] & ~below, shared, 0.0)
        one, two = (int(bone) for bone in np.unravel_index(np.argmax(across), across.shape))
        now = shared[link.one, link.two]
        if now >= _SHARED or across[one, two] <= _TIMES * now:
            continue
        both = weight[:, one] * weight[:, two]
        moved = Link(one, two, both @ fitted.rest[:, :3] / both.sum())
        tree = [moved if other is link else other for other in links]
        pose = articulate(tree, fitted.pose.world_from_rest())
        other = solve_motion(motion, fitted.with_pose(pose))
        other = _iterate(motion, other, influences, _ITERATIONS)
        if other.error <= _RISE**2 * fitted.error:
            fitted = other
    return fitted


def _iterate(
    motion: Motion, fitted: ArticulatedFit, influences: int, iterations: int
) -> ArticulatedFit:
    fitted = limit_influences(motion, fitted, influences)
    return solve_articulated(motion, fitted, influences, iterations, fit_rest=True, extend=False)


def _better(one: ArticulatedFit, two: ArticulatedFit) -> ArticulatedFit:
    return two if two.error < one.error else one


def _perturb(motion: Motion, fitted: ArticulatedFit, influences: int, more: int) -> ArticulatedFit:
    between = min(max(1, influences + more), fitted.fit.bones)
    perturbed = _iterate(motion, fitted, between, _PERTURBED_ITERATIONS)
    return _iterate(motion, perturbed, influences, _ITERATIONS)


def _best_neighbour(motion: Motion, fitted: ArticulatedFit, influences: int) -> ArticulatedFit:
    """Return the best fit among trees that differ in one link, or the given one."""
    equations = NormalEquations.of(fitted.motion(motion), fitted.fit)
    solved = [
        solve_motion(motion, fitted.with_pose(pose), _STEPS, _STEP_GAIN)
        for pose in neighbouring_trees(motion, fitted)[:_TREES_SOLVED]
    ]
    solved.sort(key=lambda other: equations.error(other.fit.transforms))
    for other in solved[:_TREES_TRIED]:
        fitted = _better(fitted, _iterate(motion, other, influences, _TREE_ITERATIONS))
    return fitted


def neighbouring_trees(motion: Motion, fitted: ArticulatedFit) -> list[Articulation]:
    """Return trees with one link replaced, the most promising first.

    They are sorted by the cost of the new link minus that of the old one, for independent bones.
    """
    pose, bones = fitted.pose, fitted.fit.bones
    independent = solve_rigid_transforms(fitted.motion(motion), fitted.fit, _SWEEPS)
    weight = dense_weights(fitted.fit)
    total = weight.sum(axis=0)[:, None]
    centres = np.divide(
        weight.T @ fitted.rest[:, :3], total, out=np.zeros((bones, 3)), where=total > 0
    )
    gaps = _GAP * np.linalg.norm(centres[:, None] - centres, axis=2)
    borders = Borders((centres[:, None] + centres) / 2, np.ones((bones, bones), bool), gaps)
    points, cost = pairwise_joints(independent, borders)
    links, world_from_rest, found = pose.links(), pose.world_from_rest(), []
    for link in links:
        kept = [other for other in links if other is not link]
        below = pose.tree.descends[link.one]
        across = np.where(below[:, None] & ~below, cost, np.inf)
        across[link.one, link.two] = np.inf
        for place in np.argsort(across, axis=None, kind="stable")[:_TREES_PER_LINK]:
            one, two = divmod(int(place), bones)
            if np.isfinite(across[one, two]):
                change = across[one, two] - cost[link.one, link.two]
                found.append((change, [*kept, Link(one, two, points[one, two])]))
    found.sort(key=lambda tree: tree[0])
    return [articulate(tree, world_from_rest) for _, tree in found]
