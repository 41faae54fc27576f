"""Adds and removes rigid bones that have a patch of the mesh each (`local_bones`).

Three steps change the bones, and each ends with alternating iterations:
- splitting: of the patches with the largest errors, the part with the largest errors gets a bone;
- pruning: the bone that a neighbour replaces best is removed, while the error stays small;
- refitting: more iterations.

`found` splits until nothing is visible. `exact` goes on until the bones reproduce the motion: it
splits patches and removes bones in turn, because alternating iterations alone end in a local
minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from understudy.core.poses import evenly
from understudy.methods.decomposition.bones.bone_count import GAMMA, INVISIBLE, relative_error
from understudy.methods.decomposition.bones.locality import (
    allowed_bones,
    connected_patches,
    dominant_bone,
    neighbours,
    patches,
)
from understudy.methods.decomposition.solve.decompose import decompose
from understudy.methods.decomposition.solve.momentum import Extension
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    dense_weights,
    relative_motion,
    single_bone_fit,
    strongest,
)
from understudy.methods.decomposition.solve.plan import RIGID, Plan
from understudy.methods.decomposition.solve.solves import (
    no_weights,
    solve_alternating,
    solve_rigid_transforms,
    solve_weights,
)
from understudy.methods.decomposition.solve.starts import one_cluster

SMALL = INVISIBLE / 3  # joints add to the error that independent bones leave
# E of bones that are those of the rig, and of bones that are nearly those.
_EXACT, _NEARLY = 0.015, 0.03
# E that one affine bone leaves of a body that walks or runs; and the least share of the limits, at
# which they are twice the rounding error of float32.
_BENDS, _FINEST = 40.0, 0.02
_FEW = 64  # bones that need not pay; rigs of games have about as many
_FEW_VERTICES = 800  # of the sample that independent bones are found on
_GROWTH = 4 / 3  # of the number of independent bones
_SPLIT = 4  # one patch in four is split at a time
# Where that does not lower the error of exact bones, one in eight or every second one.
_SPLITS = (_SPLIT, 8, 2)
# Of splitting patches and removing bones. The work is vertices times bones of all fits. Patches are
# split until the second, less than ten seconds of one core; bones are removed until twice that.
_ROUNDS, _MOST_WORK = 6, 3_000_000
_LESS = 0.9  # times the error before, which removing bones may reach
_SHARE = 0.3  # of a patch that a new bone takes over
_MIN_SPLIT = 8  # vertices of a patch that is split
MOST_BONES = 250
_TRIES = 3  # bones whose removal is tried
_SCATTERED = 0.05  # of the vertices: the rise of `LocalBones.scattered` by one removal
_ITERATIONS, _PRUNE_ITERATIONS = 12, 5
_EXACT_ITERATIONS, _EXACT_PRUNE_ITERATIONS = 30, 12
_EXACT_EXTENSION = Extension(gain=1e-2, factor=6)
_SWEEPS = 3  # updates of every bone before the first weights


@dataclass(frozen=True, eq=False)
class LocalBones:
    """Rigid bones with a patch of the mesh each.

    fit    transforms, weights and errors
    patch  (V,) the bone whose patch each vertex belongs to
    pairs  (n,2) neighbouring vertices
    reach  a vertex may use the bones of patches that are at most so many borders away from its own
    """

    fit: Fit
    patch: np.ndarray
    pairs: np.ndarray
    reach: int = 1

    @property
    def neighbours(self) -> np.ndarray:
        """(B,B) bool: the bones whose patches touch."""
        return neighbours(self.patch, self.pairs, self.fit.bones)

    @property
    def allowed(self) -> np.ndarray:
        """(V,B) bool: the bones that each vertex may use."""
        return allowed_bones(self.patch, self.pairs, self.fit.bones, self.reach)

    @property
    def scattered(self) -> int:
        """The number of vertices apart from the largest part that follows mainly the same bone."""
        bone = dominant_bone(self.fit)
        _, first, count = np.unique(
            connected_patches(bone, self.pairs), return_index=True, return_counts=True
        )
        largest = np.zeros(self.fit.bones, np.int64)
        np.maximum.at(largest, bone[first], count)
        return len(bone) - int(largest.sum())


class PatchSearch:
    """Adds and removes bones on a sample of the motion."""

    def __init__(
        self,
        motion: Motion,
        pairs: np.ndarray,
        influences: int,
        *,
        exact: bool = False,
        scale: float = 1.0,
        most: int = MOST_BONES,
        note: Callable[[str], object] = lambda text: None,
    ) -> None:
        """Prepare a search.

        pairs       (n,2) neighbouring vertices
        influences  largest number of bones per vertex
        exact       look for the bones of the rig, not only for bones that leave nothing visible.
                    Vertices may then also use bones two borders away, as rigs do
        scale       of all limits of E; see `precision`
        most        largest number of bones
        note        called with a text about the bones after each change
        """
        self._motion, self._pairs, self._influences = motion, pairs, influences
        self._reach, self.small = 2 if exact else 1, SMALL * scale
        self._exact, self._nearly, self._most = _EXACT * scale, _NEARLY * scale, most
        self._work, self._most_work = 0.0, _MOST_WORK if exact else np.inf
        self._note = note
        self._extension = _EXACT_EXTENSION if exact else RIGID
        self._iterations = _EXACT_ITERATIONS if exact else _ITERATIONS
        self._prune_iterations = _EXACT_PRUNE_ITERATIONS if exact else _PRUNE_ITERATIONS

    def error(self, bones: LocalBones) -> float:
        """Return E of bones."""
        return relative_error(self._motion, bones.fit.error)

    def found(self, start: Fit) -> LocalBones | None:
        """Return bones that leave nothing visible, if there are few enough of them."""
        enough = self._independent(start)
        if enough is None:
            return None
        found = self._grown(enough)
        return self._grown(start) if found is None and enough is not start else found

    def exact(self, found: LocalBones) -> LocalBones | None:
        """Return the fewest bones found that reproduce the motion, from `found` on, or None."""
        found = self.refitted(found)
        for _ in range(_ROUNDS):
            unfinished = self.error(found) > self._exact and self._work < self._most_work
            better = self._better(found) if unfinished else None
            if better is None:
                break
            found = better
        error = self.error(found)
        if error > self._nearly:
            return None
        return self.refitted(self.pruned(found, max(self._exact, error)))

    def _better(self, found: LocalBones) -> LocalBones | None:
        """Return bones with a smaller error and about as many; None: splitting does not help."""
        before, count = self.error(found), found.fit.bones
        for parts in _SPLITS:
            split = self._split(found, parts)
            if split is None or not count < split.fit.bones <= self._most:
                continue
            after = self.error(split)
            if after < before:
                return split if after <= self._exact else self.pruned(split, _LESS * before, count)
        return None

    def refitted(self, found: LocalBones) -> LocalBones:
        """Return the bones after more iterations."""
        fit = found.fit
        return self._fitted(fit.transforms, dense_weights(fit), found.patch, self._iterations)

    def _grown(self, start: Fit) -> LocalBones | None:
        """Return the patches of some bones, split until nothing is visible; None: in vain."""
        label = dominant_bone(start)
        first = found = self._divided(start.transforms, dense_weights(start), label)
        while self.error(found) > self.small:
            split = self._split(found) if self._pay(first, found) else None
            if split is None or not found.fit.bones < split.fit.bones <= self._most:
                return None
            found = split
        return found

    def _independent(self, start: Fit) -> Fit | None:
        """Return rigid bones that leave nothing visible, wherever their vertices are.

        None: not even those do, so that bones with a patch each will not either.
        """
        motion = self._motion
        if relative_error(motion, start.error) <= self.small:
            return start
        few = motion.subset(evenly(motion.vertex_count, _FEW_VERTICES))
        plan = Plan(start.bones, self._influences, rigid=True, extension=RIGID)
        while True:
            bones = min(int(np.ceil(_GROWTH * plan.bones)), _FEW, len(few.rest) // 4)
            if bones <= plan.bones:
                return None
            plan = replace(plan, bones=bones)
            more = decompose(few, plan)
            if relative_error(few, more.error) <= self.small:
                break
        search = plan.search(thorough=True)
        fit = solve_weights(motion, more.transforms, no_weights(motion), search)
        return solve_alternating(motion, fit, plan, _ITERATIONS, thorough=False)

    def _pay(self, fewer: LocalBones, more: LocalBones) -> bool:
        """Return whether bones are few, or each added one lowers the error by the share gamma."""
        gain = np.log(self.error(fewer) / max(self.error(more), 1e-9))
        added = more.fit.bones - fewer.fit.bones
        return more.fit.bones <= _FEW or bool(gain >= GAMMA * added)

    def _fitted(
        self, transforms: np.ndarray, weights: np.ndarray, patch: np.ndarray, iterations: int
    ) -> LocalBones:
        """Return bones with the given patches (V,), from transforms (3F,4B) and weights (V,B)."""
        motion, count = self._motion, transforms.shape[1] // 4
        allowed = allowed_bones(patch, self._pairs, count, self._reach)
        weights = np.where(allowed, weights, 0.0)
        none = weights.sum(axis=1) < 1e-9
        weights[none, patch[none]] = 1.0
        self._work += motion.vertex_count * count
        places = min(self._influences, count)
        index, weight = strongest(weights, places)
        weight /= weight.sum(axis=1, keepdims=True)
        fit = Fit(transforms, index, weight, motion.square)
        bones = LocalBones(fit, patch, self._pairs, self._reach)
        bones = alternated(motion, bones, places, iterations, self._extension)
        self._note(f"{count} bones, E {self.error(bones):.3f}")
        return bones

    def _divided(
        self,
        transforms: np.ndarray,
        weights: np.ndarray,
        label: np.ndarray,
        iterations: int | None = None,
    ) -> LocalBones:
        """Return bones for the connected patches of each label (V,), a bone of the given ones."""
        patch = patches(label, self._pairs)
        count, bones = int(patch.max()) + 1, transforms.shape[1] // 4
        votes = np.zeros((count, bones))
        np.add.at(votes, (patch, label), 1)
        origin = votes.argmax(axis=1)
        weights = weights[:, origin]
        # Of patches that one bone is divided into, each vertex uses its own.
        own = origin[patch]
        weights[(own[:, None] == origin) & (patch[:, None] != np.arange(count))] = 0.0
        blocks = transforms.reshape(len(transforms), bones, 4)[:, origin]
        flat = np.ascontiguousarray(blocks.reshape(len(transforms), -1))
        return self._fitted(flat, weights, patch, iterations or self._iterations)

    def _split(self, found: LocalBones, parts: int = _SPLIT) -> LocalBones | None:
        """Return the fit with parts of the worst patches, one in `parts`, given to new bones."""
        fit, patch, motion = found.fit, found.patch, self._motion
        bones, label = fit.bones, found.patch.copy()
        errors = np.bincount(patch, fit.vertex_errors, bones)
        blocks, weights = [fit.transforms], dense_weights(fit)
        columns = [weights]
        for bone in np.argsort(-errors, kind="stable"):
            part = _worst_part(motion.rest[:, :3], fit.vertex_errors, patch == bone, self._pairs)
            if not len(part):
                continue
            label[part] = bones + len(blocks) - 1
            column = np.zeros((len(weights), 1))
            column[part, 0] = weights[part, bone]
            weights[part, bone] = 0
            columns.append(column)
            alone = single_bone_fit(motion.subset(part), np.zeros(len(part)), 1)
            alone = replace(alone, transforms=fit.transforms[:, 4 * bone : 4 * bone + 4].copy())
            blocks.append(solve_rigid_transforms(motion.subset(part), alone, _SWEEPS))
            if len(blocks) > max(1, bones // parts):
                break
        if len(blocks) == 1:
            return None
        transforms = np.ascontiguousarray(np.concatenate(blocks, axis=1))
        return self._divided(transforms, np.concatenate(columns, axis=1), label)

    def pruned(self, found: LocalBones, limit: float, least: int = 1) -> LocalBones:
        """Return the fit with as many bones removed, down to `least`, as leaves E below a limit."""
        while found.fit.bones > least and self._work < 2 * self._most_work:
            order = np.argsort(self._removal_costs(found), kind="stable")
            for bone in order[:_TRIES]:
                less = self._without(found, int(bone))
                fewer = less.fit.bones < found.fit.bones
                if fewer and self.error(less) <= limit and not self._scatters(found, less):
                    break
            else:
                return found
            found = less
        return found

    def _scatters(self, found: LocalBones, less: LocalBones) -> bool:
        """Return whether another part of the body makes up for a bone that was removed."""
        most = max(_MIN_SPLIT, _SCATTERED * self._motion.vertex_count)
        return self._reach > 1 and less.scattered > found.scattered + most

    def _removal_costs(self, found: LocalBones) -> np.ndarray:
        """Return the squared error (B,) of a frame that the best neighbour in its place adds."""
        cost = replacement_costs(self._motion, found.fit)
        return np.where(found.neighbours, cost, np.inf).min(axis=1, initial=np.inf)

    def _without(self, found: LocalBones, bone: int) -> LocalBones:
        """Return the fit without a bone; its vertices go to the neighbours that share them."""
        fit, patch = found.fit, found.patch
        weights, mine = dense_weights(fit), patch == bone
        weights[:, bone] = 0
        near = found.neighbours[bone]
        main = int(np.argmax(np.where(near, weights[mine].sum(axis=0) + 1e-9, 0)))
        label = patch.copy()
        best = np.where(near, weights, 0).argmax(axis=1)
        shared = mine & (np.where(near, weights, 0).sum(axis=1) > 1e-6)
        label[mine], label[shared] = main, best[shared]
        if int(patches(label, self._pairs).max()) + 1 >= fit.bones:
            label[mine] = main
        return self._divided(fit.transforms, weights, label, self._prune_iterations)


def precision(motion: Motion) -> float:
    """Return the share of the usual limits of E that tells the bones of a motion apart.

    It is less than one where the body hardly bends: in an idle animation the whole motion of a
    shin may be smaller than what is allowed as an error of a run.
    """
    bends = relative_error(motion, one_cluster(motion).error)
    return float(np.clip(bends / _BENDS, _FINEST, 1.0))


def paying_bones(motion: Motion, found: LocalBones, scale: float) -> int:
    """Return with how many bones the limits of E times `scale` may be reached.

    Each bone more than those of `found`, and than what is removed again, is to lower the error by
    the share gamma of `bone_count`. A rig that scales its parts needs more bones than it has.
    """
    gain = np.log(max(relative_error(motion, found.fit.error) / (_NEARLY * scale), 1.0))
    return int(_GROWTH**2 * found.fit.bones + gain / GAMMA)


def replacement_costs(motion: Motion, fit: Fit) -> np.ndarray:
    """Return the squared error (B,B) of a frame that bone c in place of bone b adds.

    sum over i of w_ib^2 |(M_b - M_c) v~_i|^2
    """
    squares = dense_weights(fit) ** 2
    moments = np.einsum("vb,vi,vj->bij", squares, motion.rest, motion.rest, optimize=True)
    return np.einsum("bij,bcij->bc", moments, relative_motion(fit.transforms), optimize=True)


def _worst_part(
    rest: np.ndarray, errors: np.ndarray, inside: np.ndarray, pairs: np.ndarray
) -> np.ndarray:
    """Return the part (n,) of a patch, around where its errors are largest, for a bone of its own.

    inside  (V,) bool, the patch
    pairs   (m,2) neighbouring vertices

    The part is connected. Nothing is returned of a patch that is too small to be split.
    """
    own = np.flatnonzero(inside)
    if len(own) < _MIN_SPLIT:
        return own[:0]
    points = rest[own]
    squares = (points**2).sum(axis=1)
    away = np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0)
    reach = np.partition(away, len(own) // _MIN_SPLIT, axis=1)[:, len(own) // _MIN_SPLIT].mean()
    smooth = np.exp(-away / max(reach, 1e-12)) @ errors[own]
    nearest = np.argsort(away[np.argmax(smooth)], kind="stable")
    part = own[nearest[: max(_MIN_SPLIT // 2, int(_SHARE * len(own)))]]
    label = np.zeros(len(rest), np.int64)
    label[part] = 1
    piece = connected_patches(label, pairs)
    part = part[piece[part] == piece[part[0]]]
    return part if len(part) >= _MIN_SPLIT // 2 else own[:0]


def alternated(
    motion: Motion, bones: LocalBones, places: int, iterations: int, extension: Extension = RIGID
) -> LocalBones:
    """Return the bones after alternating iterations with at most `places` influences."""
    fit, allowed = bones.fit, bones.allowed
    plan = Plan(fit.bones, places, rigid=True, extension=extension)
    transforms = solve_rigid_transforms(motion, fit, _SWEEPS)
    start = (fit.index, fit.weight)
    fit = solve_weights(motion, transforms, start, plan.search(thorough=True), allowed=allowed)
    thorough = bones.reach > 1
    fit = solve_alternating(motion, fit, plan, iterations, thorough=thorough, allowed=allowed)
    return replace(bones, fit=fit)
