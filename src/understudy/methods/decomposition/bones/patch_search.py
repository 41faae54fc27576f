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
    chosen_bones,
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


@dataclass(frozen=True)
class Search:
    """How bones are added and removed; notes/skeletons.md says why.

    scale               of all limits of E; see `precision`
    small               E that leaves nothing visible: joints add to what independent bones leave
    exact, nearly       E of bones that are those of the rig, and of bones that are nearly those
    few                 bones that need not pay; rigs of games have about as many
    most                largest number of bones
    few_vertices        of the sample that independent bones are found on
    growth              of the number of independent bones
    splits              one patch in so many is split at a time: the first, and the others where
                        that does not lower the error of exact bones
    rounds              of splitting patches and removing bones
    most_work           vertices times bones of all fits until which patches are split; bones are
                        removed until twice that
    less                times the error before, which removing bones may reach
    share, min_split    of a patch that a new bone takes over; vertices of a patch that is split
    tries               bones whose removal is tried
    scattered           of the vertices: the rise of `LocalBones.scattered` by one removal
    reach               a vertex may use bones of patches at most so many borders away
    iterations          after a split; `pruned_iterations` after a removal
    extension           when to run more of them
    """

    scale: float = 1.0
    small: float = INVISIBLE / 3
    exact: float = 0.015
    nearly: float = 0.03
    few: int = 64
    most: int = 250
    few_vertices: int = 800
    growth: float = 4 / 3
    splits: tuple[int, ...] = (4, 8, 2)
    rounds: int = 6
    most_work: float = np.inf
    less: float = 0.9
    share: float = 0.3
    min_split: int = 8
    tries: int = 3
    scattered: float = 0.05
    reach: int = 1
    iterations: int = 12
    pruned_iterations: int = 5
    extension: Extension = RIGID

    def for_exact_bones(self) -> Search:
        """Return the search for the bones of the rig, instead of any that leave nothing visible.

        Vertices may then also use bones two borders away, as rigs do. The work is less than ten
        seconds of one core.
        """
        return replace(
            self,
            most_work=3_000_000,
            reach=2,
            iterations=30,
            pruned_iterations=12,
            extension=Extension(gain=1e-2, factor=6),
        )

    def of_small_motion(self, motion: Motion, found: LocalBones) -> Search:
        """Return the search with limits of E in proportion to a motion, and as many bones as pay.

        Each bone more than those of `found`, and than what is removed again, is to lower the error
        by the share gamma of `bone_count`. A rig that scales its parts needs more bones than it
        has.
        """
        scale = precision(motion)
        gain = np.log(max(relative_error(motion, found.fit.error) / (self.nearly * scale), 1.0))
        most = int(self.growth**2 * found.fit.bones + gain / GAMMA)
        return replace(self, scale=scale, most=most)


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
        search: Search = Search(),  # noqa: B008
        note: Callable[[str], object] = lambda text: None,
    ) -> None:
        """Prepare a search.

        pairs       (n,2) neighbouring vertices
        influences  largest number of bones per vertex
        search      how to search
        note        called with a text about the bones after each change
        """
        self._motion, self._pairs, self._influences = motion, pairs, influences
        self._how, self.small = search, search.small * search.scale
        self._work, self._note = 0.0, note

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

    def of_number(self, start: Fit, count: int) -> LocalBones:
        """Return `count` bones, or fewer where patches are too small to be split.

        Which patches are split at a time decides where iterations end: the best end is taken.
        """
        first = self._divided(start.transforms, dense_weights(start), dominant_bone(start))
        ends = []
        for parts in self._how.splits if first.fit.bones < count else self._how.splits[:1]:
            found = first
            while found.fit.bones < count:
                more = self._split(found, parts)
                if more is None or more.fit.bones <= found.fit.bones:
                    break
                found = more
            ends.append(self.refitted(self.pruned(found, np.inf, count)))
        return min(ends, key=self.error)

    def exact(self, found: LocalBones) -> LocalBones | None:
        """Return the fewest bones found that reproduce the motion, from `found` on, or None."""
        found = self.refitted(found)
        exact, nearly = (self._how.scale * e for e in (self._how.exact, self._how.nearly))
        for _ in range(self._how.rounds):
            unfinished = self.error(found) > exact and self._work < self._how.most_work
            better = self._better(found) if unfinished else None
            if better is None:
                break
            found = better
        error = self.error(found)
        if error > nearly:
            return None
        return self.refitted(self.pruned(found, max(exact, error)))

    def _better(self, found: LocalBones) -> LocalBones | None:
        """Return bones with a smaller error and about as many; None: splitting does not help."""
        before, count = self.error(found), found.fit.bones
        for parts in self._how.splits:
            split = self._split(found, parts)
            if split is None or not count < split.fit.bones <= self._how.most:
                continue
            after = self.error(split)
            if after < before:
                limit = self._how.less * before
                exact = after <= self._how.scale * self._how.exact
                return split if exact else self.pruned(split, limit, count)
        return None

    def refitted(self, found: LocalBones) -> LocalBones:
        """Return the bones after more iterations."""
        fit = found.fit
        return self._fitted(fit.transforms, dense_weights(fit), found.patch, self._how.iterations)

    def _grown(self, start: Fit) -> LocalBones | None:
        """Return the patches of some bones, split until nothing is visible; None: in vain."""
        label = dominant_bone(start)
        first = found = self._divided(start.transforms, dense_weights(start), label)
        while self.error(found) > self.small:
            split = self._split(found) if self._pay(first, found) else None
            if split is None or not found.fit.bones < split.fit.bones <= self._how.most:
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
        few = motion.subset(evenly(motion.vertex_count, self._how.few_vertices))
        plan = Plan(start.bones, self._influences, rigid=True, extension=RIGID)
        while True:
            more_bones = int(np.ceil(self._how.growth * plan.bones))
            bones = min(more_bones, self._how.few, len(few.rest) // 4)
            if bones <= plan.bones:
                return None
            plan = replace(plan, bones=bones)
            more = decompose(few, plan)
            if relative_error(few, more.error) <= self.small:
                break
        search = plan.search(thorough=True)
        fit = solve_weights(motion, more.transforms, no_weights(motion), search)
        return solve_alternating(motion, fit, plan, self._how.iterations, thorough=False)

    def _pay(self, fewer: LocalBones, more: LocalBones) -> bool:
        """Return whether bones are few, or each added one lowers the error by the share gamma."""
        gain = np.log(self.error(fewer) / max(self.error(more), 1e-9))
        added = more.fit.bones - fewer.fit.bones
        return more.fit.bones <= self._how.few or bool(gain >= GAMMA * added)

    def _fitted(
        self, transforms: np.ndarray, weights: np.ndarray, patch: np.ndarray, iterations: int
    ) -> LocalBones:
        """Return bones with the given patches (V,), from transforms (3F,4B) and weights (V,B)."""
        motion, count = self._motion, transforms.shape[1] // 4
        allowed = allowed_bones(patch, self._pairs, count, self._how.reach)
        weights = np.where(allowed, weights, 0.0)
        none = weights.sum(axis=1) < 1e-9
        weights[none, patch[none]] = 1.0
        self._work += motion.vertex_count * count
        places = min(self._influences, count)
        index, weight = strongest(weights, places)
        weight /= weight.sum(axis=1, keepdims=True)
        fit = Fit(transforms, index, weight, motion.square)
        bones = LocalBones(fit, patch, self._pairs, self._how.reach)
        bones = alternated(motion, bones, places, iterations, self._how.extension)
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
        blocks = chosen_bones(transforms, origin)
        return self._fitted(blocks, weights, patch, iterations or self._how.iterations)

    def _split(self, found: LocalBones, parts: int | None = None) -> LocalBones | None:
        """Return the fit with parts of the worst patches, one in `parts`, given to new bones."""
        parts = parts or self._how.splits[0]
        fit, patch, motion = found.fit, found.patch, self._motion
        bones, label = fit.bones, found.patch.copy()
        errors = np.bincount(patch, fit.vertex_errors, bones)
        blocks, weights = [fit.transforms], dense_weights(fit)
        columns = [weights]
        for bone in np.argsort(-errors, kind="stable"):
            part = self._worst_part(fit.vertex_errors, patch == bone)
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

    def _worst_part(self, errors: np.ndarray, inside: np.ndarray) -> np.ndarray:
        """Return the part (n,) of a patch, around where its errors are largest, for a bone.

        inside  (V,) bool, the patch

        The part is connected. Nothing is returned of a patch that is too small to be split.
        """
        own, least = np.flatnonzero(inside), self._how.min_split
        if len(own) < least:
            return own[:0]
        points = self._motion.rest[own, :3]
        squares = (points**2).sum(axis=1)
        away = np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0)
        reach = np.partition(away, len(own) // least, axis=1)[:, len(own) // least].mean()
        smooth = np.exp(-away / max(reach, 1e-12)) @ errors[own]
        nearest = np.argsort(away[np.argmax(smooth)], kind="stable")
        part = own[nearest[: max(least // 2, int(self._how.share * len(own)))]]
        label = np.zeros(len(inside), np.int64)
        label[part] = 1
        piece = connected_patches(label, self._pairs)
        part = part[piece[part] == piece[part[0]]]
        return part if len(part) >= least // 2 else own[:0]

    def pruned(self, found: LocalBones, limit: float, least: int = 1) -> LocalBones:
        """Return the fit with as many bones removed, down to `least`, as leaves E below a limit."""
        while found.fit.bones > least and self._work < 2 * self._how.most_work:
            order = np.argsort(self._removal_costs(found), kind="stable")
            for bone in order[: self._how.tries]:
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
        most = max(self._how.min_split, self._how.scattered * self._motion.vertex_count)
        return self._how.reach > 1 and less.scattered > found.scattered + most

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
        return self._divided(fit.transforms, weights, label, self._how.pruned_iterations)


def precision(motion: Motion) -> float:
    """Return the share of the usual limits of E that tells the bones of a motion apart.

    It is less than one where the body hardly bends: in an idle animation the whole motion of a
    shin may be smaller than what is allowed as an error of a run.
    """
    # E = 40 is what one affine bone leaves of a body that walks or runs; at the least share the
    # limits are twice the rounding error of float32.
    bends = relative_error(motion, one_cluster(motion).error)
    return float(np.clip(bends / 40.0, 0.02, 1.0))


def replacement_costs(motion: Motion, fit: Fit) -> np.ndarray:
    """Return the squared error (B,B) of a frame that bone c in place of bone b adds.

    sum over i of w_ib^2 |(M_b - M_c) v~_i|^2
    """
    squares = dense_weights(fit) ** 2
    moments = np.einsum("vb,vi,vj->bij", squares, motion.rest, motion.rest, optimize=True)
    return np.einsum("bij,bcij->bc", moments, relative_motion(fit.transforms), optimize=True)


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
