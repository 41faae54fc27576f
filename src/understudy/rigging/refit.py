"""Motion and weights of a tree, fitted again in turn, and the way there from bones that knew nothing of each other.

The bones of a decomposition share vertices in any way that lowers its error, so a tree over them is a poor start. Better is one over clusters that
belong to one bone each: their borders are where joints are. From there as in `ssdr`: rounds with two influences, then more than K, then K, on a
sample of the vertices and frames, and at last on all. A skin that is a tree's already is best left as it is, so the tree over the bones as they
came is tried as well, and the better one goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from understudy.decomposition import kernels
from understudy.decomposition.clusters import split_off
from understudy.decomposition.motion import Motion
from understudy.decomposition.rounds import Fit, Search, nearest_rigid, rigid_bones, with_weights
from understudy.decomposition.solve import no_weights
from understudy.poses import evenly
from understudy.progress import Task
from understudy.rigging.articulation import Articulation, Moments
from understudy.rigging.gauss_newton import JointPrior, refined
from understudy.rigging.joints import Borders, borders, joints_of_pairs, spanning_tree

_VERTICES, _FRAMES = 2000, 64  # that the first rounds work on
_CHOOSINGS = 10  # of clusters: every vertex anew, every bone anew
_SPLIT = 0.25  # of a cluster that a bone without vertices takes over
_FIRST_STEPS, _STEPS = 15, 2  # of Gauss-Newton for new weights, and within a round
_ROUNDS, _LAST_ROUNDS = 50, 40
# So many rounds that lower the squared error by less than this share end them. While they lower it by the share below, more than planned are made, up
# to so many times.
_RECENT, _STILL, _FALLING, _MOST_TIMES = 5, 1e-4, 3e-3, 4
_ANEW = 10  # rounds after which every vertex's bones are searched from all bones down
_MOMENTUM, _MOST_MOMENTUM = 0.5, 0.98
# How much joints are held to where the tree was made, near the borders: as much as the bones turning by half a degree, of the vertices below the
# joint; and of at least so many bones' worth, so that a bone that moves next to nothing does not put its joint far off. Not held, the error is a
# little lower, and hinges slide along their axes out of the body.
_HOLD, _LEAST_HELD = 1e-4, 0.1
_CENTRE = 1e-2  # mean square of a turn, about six degrees: axes that bones turn less about do not say where a joint is


@dataclass(frozen=True, eq=False)
class Character:
    """A tree's motion, the weights that go with it, the joints (B,3) it started from, where each bone's vertices met its parent's (B,3), and the
    squared error after each round.
    """

    pose: Articulation
    fit: Fit
    first_joints: np.ndarray
    meet: np.ndarray
    errors: tuple[float, ...] = ()


def articulated(motion: Motion, start: Fit, edges: np.ndarray, influences: int, bar: Task, note: Callable[[float], str]) -> Character:
    """A tree for the bones of `start` (rigid, (3F,4B)), its motion and weights: edges (E,2) of the mesh. `bar` advances by 3."""
    vertices, frames = evenly(motion.vertex_count, _VERTICES), evenly(motion.rows // 3, _FRAMES)
    rows = (3 * frames[:, None] + np.arange(3)).reshape(-1)
    few = motion.some(vertices, rows)
    labels = start.index[np.arange(motion.vertex_count), np.argmax(start.weight, axis=1)]
    as_given = _hung(start, borders(motion.rest[:, :3], labels, edges, start.bones))
    clusters = _clusters(motion, replace(start, index=labels[:, None].astype(np.int32), weight=np.ones((motion.vertex_count, 1))))
    clustered = _hung(clusters, borders(motion.rest[:, :3], clusters.index[:, 0], edges, start.bones))
    last = min(influences, start.bones)
    given = _rounds(few, _fewer(few, _fitted(few, _some(as_given, vertices, frames)), last), last, _ROUNDS)
    bar.advance()
    found = _fitted(few, _some(clustered, vertices, frames))
    for count in sorted({min(count, start.bones) for count in (2, 4, influences + 2)} - {last}):
        found = _rounds(few, found, count, _ROUNDS)
    found = min(_rounds(few, _fewer(few, found, last), last, _ROUNDS), given, key=lambda character: character.fit.error)
    bar.advance()
    every = motion.some(vertices)
    found = _centred(every, _all_frames(every, found, frames))
    fit = with_weights(motion, found.pose.columns(), *no_weights(motion), Search(last, from_all=True))
    found = _rounds(motion, replace(found, fit=fit, errors=()), last, _LAST_ROUNDS, lambda error: bar.note(note(error)))
    bar.advance()
    return found


def _centred(motion: Motion, character: Character) -> Character:
    """Joints moved to where their bones' clusters meet, as far as the motion leaves that open: along a hinge's axis a joint may be anywhere, and an
    artist looks for it inside the body. From here on they are held there.
    """
    pose = character.pose
    children = np.flatnonzero(np.arange(character.fit.bones) != pose.tree.root)
    against = pose.turns[:, pose.tree.parents[children]] - pose.turns[:, children]
    apart = np.einsum("tkij,tkil->kjl", against, against, optimize=True) / pose.frames
    joints = pose.joints.copy()
    away = character.meet[children] - joints[children]
    joints[children] += np.linalg.solve(apart + _CENTRE * np.eye(3), _CENTRE * away[..., None])[..., 0]
    return _fitted(motion, replace(character, pose=replace(pose, joints=joints), first_joints=joints))


def _clusters(motion: Motion, fit: Fit) -> Fit:
    """One rigid bone per vertex, the one that explains it best. Bones that then have none get part of the cluster that is explained worst."""
    idle = fit.bones
    for number in range(_CHOOSINGS + fit.bones):
        fit = with_weights(motion, rigid_bones(motion, fit, 2), fit.index, fit.weight, Search(1))
        unused = np.flatnonzero(np.bincount(fit.index[:, 0], minlength=fit.bones) == 0)
        if len(unused) < idle and len(unused) and fit.value.any():
            columns = fit.columns.copy()
            columns[:, 4 * unused[0] : 4 * unused[0] + 4] = rigid_start(split_off(motion, fit, _SPLIT))
            fit = with_weights(motion, columns, *no_weights(motion), Search(1))
            idle = len(unused)
        elif number >= _CHOOSINGS:
            break
    return fit


def _hung(fit: Fit, found: Borders) -> Character:
    """The tree over the bones of a fit; the root goes where it went, the others turn as they did."""
    joints, cost = joints_of_pairs(fit.columns, found)
    tree = spanning_tree(cost)
    bones = np.ascontiguousarray(fit.columns.reshape(-1, 3, fit.bones, 4).transpose(0, 2, 1, 3))
    at, meet = joints[np.arange(fit.bones), tree.parents], found.at[np.arange(fit.bones), tree.parents]
    at[tree.root] = 0
    return Character(Articulation(tree, at, np.ascontiguousarray(bones[..., :3]), bones[:, tree.root, :, 3]), fit, at, meet)


def _some(character: Character, vertices: np.ndarray, frames: np.ndarray) -> Character:
    pose, fit = character.pose, character.fit
    pose = replace(pose, turns=pose.turns[frames], place=pose.place[frames])
    return replace(character, pose=pose, fit=replace(fit, index=fit.index[vertices], weight=fit.weight[vertices], columns=pose.columns()))


def _prior(moments: Moments, character: Character) -> JointPrior:
    tree, frames, bones = character.pose.tree, character.pose.frames, character.fit.bones
    shared = moments.gram.reshape(bones, 4, bones, 4)[:, 3, :, 3]
    below = tree.below.astype(float)
    carried = np.einsum("kb,bc,kc->k", below, shared, below, optimize=True)  # sum_i W_ik^2
    return JointPrior(character.first_joints, _HOLD * frames * (carried + _LEAST_HELD * shared.sum() / bones))


def _fitted(motion: Motion, character: Character) -> Character:
    """The motion for the weights as they are."""
    moments = Moments.of(motion, character.fit)
    pose = refined(moments, character.pose, _prior(moments, character), _FIRST_STEPS, least=1e-4)
    columns = pose.columns()
    return replace(character, pose=pose, fit=replace(character.fit, columns=columns))


def _fewer(motion: Motion, character: Character, influences: int) -> Character:
    """Weights with fewer influences, found anew."""
    if character.fit.index.shape[1] <= influences:
        return character
    return replace(character, fit=with_weights(motion, character.pose.columns(), *no_weights(motion), Search(influences, from_all=True)))


def _rounds(motion: Motion, character: Character, influences: int, count: int, told: Callable[[float], None] = lambda error: None) -> Character:
    """Motion and weights in turn, with momentum: each round starts a little beyond where the last one led. A step that raises the error is undone."""
    pose = character.pose
    fit = with_weights(motion, pose.columns(), character.fit.index, character.fit.weight, Search(influences))
    prior = _prior(Moments.of(motion, fit), character)
    before, momentum, errors = None, _MOMENTUM, [fit.error]
    for number in range(_MOST_TIMES * count):
        search = Search(influences, from_all=number % _ANEW == _ANEW - 1)
        found = refined(Moments.of(motion, fit), pose, prior, _STEPS)
        beyond = found if before is None else _beyond(found, before, momentum)
        after = with_weights(motion, beyond.columns(), fit.index, fit.weight, search)
        before, momentum = found, min(_MOST_MOMENTUM, 1.1 * momentum)
        if after.error > fit.error:
            before, momentum, beyond = None, 0.5 * momentum, found
            after = with_weights(motion, found.columns(), fit.index, fit.weight, search)
        if after.error > fit.error:  # the joints' hold outweighed the vertices: from here on they are held where they are
            if prior.at is pose.joints:
                break
            prior = replace(prior, at=pose.joints)
            continue
        pose, fit = beyond, after
        errors.append(fit.error)
        told(fit.error)
        least = _STILL if number + 1 < count else _FALLING
        if len(errors) > _RECENT and fit.error >= (1 - least) * errors[-1 - _RECENT]:
            break
    return replace(character, pose=pose, fit=fit, errors=(*character.errors, *errors))


def _beyond(found: Articulation, before: Articulation, momentum: float) -> Articulation:
    further = lambda now, then: now + momentum * (now - then)
    turns = kernels.nearest_rotations(further(found.turns, before.turns))
    return Articulation(found.tree, further(found.joints, before.joints), turns, further(found.place, before.place))


def _all_frames(motion: Motion, character: Character, frames: np.ndarray) -> Character:
    """The motion in all frames, from that in some: each frame starts like the nearest of those, or with the turns of bones fitted without joints."""
    pose, count = character.pose, motion.rows // 3
    if len(frames) == count:
        return character
    moments = Moments.of(motion, character.fit)
    near = np.argmin(np.abs(np.arange(count)[:, None] - frames), axis=1)
    copied = Articulation(pose.tree, pose.joints, pose.turns[near], pose.place[near])
    loose = rigid_bones(motion, replace(character.fit, columns=copied.columns()), 10)
    bones = loose.reshape(-1, 3, pose.tree.bones, 4).transpose(0, 2, 1, 3)
    root = pose.tree.root
    place = bones[:, root, :, :3] @ pose.joints[root] + bones[:, root, :, 3]
    turned = Articulation(pose.tree, pose.joints, np.ascontiguousarray(bones[..., :3]), place)
    still = JointPrior(pose.joints, np.full(pose.tree.bones, 1e9 * count * motion.vertex_count))
    one, two = (refined(moments, start, still, _FIRST_STEPS, least=1e-3) for start in (copied, turned))
    better = moments.frame_errors(two.columns()) < moments.frame_errors(one.columns())
    turns = np.where(better[:, None, None, None], two.turns, one.turns)
    start = Articulation(pose.tree, pose.joints, turns, np.where(better[:, None], two.place, one.place))
    return _fitted(motion, replace(character, pose=start))


def rigid_start(columns: np.ndarray) -> np.ndarray:
    """Bones (3F,4B) with their 3x3 parts made rotations."""
    return nearest_rigid(columns, np.ones(columns.shape[1] // 4, bool), columns)
