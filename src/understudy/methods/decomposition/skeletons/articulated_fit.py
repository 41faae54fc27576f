"""A tree's motion, weights and rest shape, fitted in turn: what every stage on the way to a
character is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from understudy.methods.decomposition import kernels
from understudy.methods.decomposition.alternating_solve import Fit, Search, best_rest, with_weights
from understudy.methods.decomposition.motion import Motion
from understudy.methods.decomposition.skeletons.articulation import Articulation, Moments
from understudy.methods.decomposition.skeletons.gauss_newton import JointPrior, refined
from understudy.methods.decomposition.solve import no_weights

FIRST_STEPS, _STEPS = 15, 2  # of Gauss-Newton for new weights, and within a round
# So many rounds that lower the squared error by less than this share end them. While they lower it
# by the share below, more than planned are made, up to so many times.
_RECENT, _STILL, _FALLING, _MOST_TIMES = 5, 1e-4, 3e-3, 4
_ANEW = 10  # rounds after which every vertex's bones are searched from all bones down
_MOMENTUM, _MOST_MOMENTUM = 0.5, 0.98
# How much joints are held to where the tree was made, near the borders: as much as the bones
# turning by half a degree, of the vertices below the joint; and of at least so many bones' worth,
# so that a bone that moves next to nothing does not put its joint far off. Not held, the error is a
# little lower, and hinges slide along their axes out of the body.
_HOLD, _LEAST_HELD = 1e-4, 0.1
# How much the rest shape is held to the one that came: to rest so far off is as bad as to be off by
# a thirtieth of it in every frame. Less than that and the rest pose itself wanders off, for next to
# nothing.
_HOLD_REST = 1e-3


@dataclass(frozen=True, eq=False)
class Character:
    """A tree's motion, the weights that go with it, the rest shape (V,4) they are for, the joints
    (B,3) it started from, and the squared error after each round.
    """

    pose: Articulation
    fit: Fit
    rest: np.ndarray
    first_joints: np.ndarray
    errors: tuple[float, ...] = ()

    def moves(self, motion: Motion) -> Motion:
        """The motion as one of this rest shape."""
        return replace(motion, rest=self.rest)

    def posed(self, pose: Articulation) -> Character:
        """In another pose of perhaps another tree, the joints held where they are there."""
        return replace(
            self, pose=pose, fit=replace(self.fit, columns=pose.columns()), first_joints=pose.joints
        )


def fitted(
    motion: Motion, character: Character, steps: int = FIRST_STEPS, least: float = 1e-4
) -> Character:
    """The motion for the weights as they are."""
    moments = Moments.of(character.moves(motion), character.fit)
    pose = refined(moments, character.pose, _prior(moments, character), steps, least)
    return replace(character, pose=pose, fit=replace(character.fit, columns=pose.columns()))


def fewer(motion: Motion, character: Character, influences: int) -> Character:
    """Weights with fewer influences, found anew."""
    if character.fit.index.shape[1] <= influences:
        return character
    search = Search(influences, from_all=True)
    return replace(
        character,
        fit=with_weights(
            character.moves(motion), character.pose.columns(), *no_weights(motion), search
        ),
    )


def rounds(
    motion: Motion,
    character: Character,
    influences: int,
    count: int,
    told: Callable[[float], None] = lambda error: None,
    *,
    fit_rest: bool = False,
    most_times: int = _MOST_TIMES,
) -> Character:
    """Motion, rest shape where it is to be fitted, and weights in turn, with momentum: each round
    starts a little beyond where the last one led. A step that raises the error is undone. The rest
    shape is held to that of `motion`.
    """
    pose, rest = character.pose, character.rest
    fit = with_weights(
        character.moves(motion),
        pose.columns(),
        character.fit.index,
        character.fit.weight,
        Search(influences),
    )
    prior = _prior(Moments.of(character.moves(motion), fit), character)
    before, momentum, errors = None, _MOMENTUM, [fit.error]
    for number in range(most_times * count):
        search = Search(influences, from_all=number % _ANEW == _ANEW - 1)
        found = refined(Moments.of(replace(motion, rest=rest), fit), pose, prior, _STEPS)
        shape = held_rest(motion, replace(fit, columns=found.columns())) if fit_rest else rest
        beyond, further = (
            (found, shape) if before is None else _beyond((found, shape), before, momentum)
        )
        after = with_weights(
            replace(motion, rest=further), beyond.columns(), fit.index, fit.weight, search
        )
        before, momentum = (found, shape), min(_MOST_MOMENTUM, 1.1 * momentum)
        if after.error > fit.error:
            before, momentum, beyond, further = None, 0.5 * momentum, found, shape
            after = with_weights(
                replace(motion, rest=shape), found.columns(), fit.index, fit.weight, search
            )
        if (
            after.error > fit.error
        ):  # the joints' hold outweighed the vertices: from here on they are held where they are
            if prior.at is pose.joints:
                break
            prior = replace(prior, at=pose.joints)
            continue
        pose, rest, fit = beyond, further, after
        errors.append(fit.error)
        told(fit.error)
        least = _STILL if number + 1 < count else _FALLING
        if len(errors) > _RECENT and fit.error >= (1 - least) * errors[-1 - _RECENT]:
            break
    return replace(character, pose=pose, rest=rest, fit=fit, errors=(*character.errors, *errors))


def held_rest(motion: Motion, fit: Fit) -> np.ndarray:
    """The rest shape (V,4) that fits best, held to that of `motion`."""
    return best_rest(motion, fit, motion.rest, _HOLD_REST * (motion.rows // 3))


def _prior(moments: Moments, character: Character) -> JointPrior:
    tree, frames, bones = character.pose.tree, character.pose.frames, character.fit.bones
    shared = moments.gram.reshape(bones, 4, bones, 4)[:, 3, :, 3]
    below = tree.below.astype(float)
    carried = np.einsum("kb,bc,kc->k", below, shared, below, optimize=True)  # sum_i W_ik^2
    return JointPrior(
        character.first_joints, _HOLD * frames * (carried + _LEAST_HELD * shared.sum() / bones)
    )


def _beyond(
    found: tuple[Articulation, np.ndarray], before: tuple[Articulation, np.ndarray], momentum: float
) -> tuple[Articulation, np.ndarray]:
    further = lambda now, then: now + momentum * (now - then)
    (pose, rest), (pose_before, rest_before) = found, before
    turns = kernels.nearest_rotations(further(pose.turns, pose_before.turns))
    moved = Articulation(
        pose.tree,
        further(pose.joints, pose_before.joints),
        turns,
        further(pose.place, pose_before.place),
    )
    return moved, further(rest, rest_before)
