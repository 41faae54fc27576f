"""Which bones move independently, and how the others follow them.

Bones are taken in the order of how far they move the mesh: first all rotations, then stretches,
then moves, because a bone that slides along its stretched parent follows the stretch. For each, the
dofs found so far predict its motion. Where they cannot, the channel with the largest error becomes
a dof, and the others are predicted again. So a hinge gives one dof, a wrist two, and a twist bone
none.

A driver is a polynomial. Its inputs are selected one by one, by how much each reduces the error
together with those before it. It is accepted only if the poses determine it: along a single walk
cycle every joint is some function of every other, but that says nothing about the rig. The test is
the smallest eigenvalue of the products' covariance, in Legendre polynomials of inputs in [-1,1].

Letters: T poses, B bones, C controls, D dofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.polynomial.legendre import legvander

from understudy.core.controls import ControlSpec
from understudy.core.poses import evenly
from understudy.core.posing import Dofs, Driver, products, term_count
from understudy.core.skeleton import Skeleton
from understudy.geometry.bone_motion import (
    CHANNEL_NAMES,
    MOVE,
    ROTATION,
    STRETCH,
    Joints,
    motion_of_bones,
)
from understudy.methods.posing_fitting.levers import Levers, tree_distances
from understudy.training.held_out import held_out_blocks, in_motion

KINDS = {"rotation": ROTATION, "stretch": STRETCH, "move": MOVE}  # in the order of the search
_STEPS = 4  # bones this far apart in the skeleton are near
# A motion predicted to this share of the whole bone's motion is driven. In an animation every joint
# is nearly a function of the others, so only exact ones count.
_FOLLOWS, _FOLLOWS_EXACTLY = 0.02, 0.004
_STILL = 1e-4  # a motion that moves vertices by less than this share of the height is none
_MARGIN = 1e-3  # of the range, added at both ends, so that limits are not a single number
MAX_SELECTED = 6
_MOST_DEGREE = 4
_SELECTION_POSES = 400
_POSES_PER_TERM, _MOST_TERMS = 5, 60
_DETERMINED = 1e-3  # smallest eigenvalue of the covariance relative to the largest
_IMPROVES = 0.85  # an input is added if it reduces the error below this share
_FAR = 0.5  # the same for dofs that are not near in the skeleton
_SIZE = 0.02  # what one more input must at least reduce the error by
_RIDGE = 1e-7

Group = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Study:
    """The poses in which dofs are looked for.

    skeleton  B bones
    joints    their axes
    motion    (T,B,12)
    levers    of the deformer
    height    of the mesh
    pelvis    the bone that moves the whole body: it always has six dofs
    """

    skeleton: Skeleton
    joints: Joints
    motion: np.ndarray
    levers: Levers
    height: float
    pelvis: int


@dataclass(frozen=True, eq=False)
class Plan:
    """A driver before its coefficients are final: the channels of a bone, inputs and degree."""

    bone: int
    channels: list[int]
    inputs: list[int]
    degree: int


@dataclass(eq=False)
class Independent:
    """What was found: D dofs and some drivers.

    names, bones, channels  of the dofs, as in `Dofs`
    values, scaled          D arrays (T,): their values in the poses, and the same from -1 to 1
    plans                   the drivers
    """

    names: list[str] = field(default_factory=list)
    bones: list[int] = field(default_factory=list)
    channels: list[int] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    scaled: list[np.ndarray] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)

    def add(self, name: str, bone: int, channel: int, values: np.ndarray) -> None:
        """Add a dof with its values (T,)."""
        low, high = float(values.min()), float(values.max())
        self.names.append(name if name not in self.names else f"{name} ({bone})")
        self.bones.append(bone)
        self.channels.append(channel)
        self.values.append(values)
        self.scaled.append((values - 0.5 * (low + high)) / max(0.5 * (high - low), 1e-12))


def find_independent(
    study: Study, spec: ControlSpec, controls: dict[int, np.ndarray]
) -> Independent:
    """Return the dofs and the drivers of all other motion.

    controls  number -> values (T,) of controls that are dofs in any case
    """
    found = Independent()
    for number, values in controls.items():
        found.add(spec.names[number], -1, number, values)
    search = _Search(study, found)
    for channel in (*range(6)[ROTATION], *range(6)[MOVE]):
        search.add(study.pelvis, channel)
    for kind, part in KINDS.items():
        spread = study.motion[..., part].std(axis=0)
        size = np.linalg.norm(spread, axis=1) * study.levers.whole[kind]
        for bone in np.argsort(-size, kind="stable"):
            if bone != study.pelvis or kind == "stretch":
                search.block(int(bone), kind)
    return found


def dofs_of(found: Independent, study: Study, spec: ControlSpec) -> Dofs:
    """Return the dofs with their limits: the range of the poses, and the rest pose."""
    resting = motion_of_bones(study.skeleton.world_from_bone[None], study.joints)[0]
    low = np.array([values.min() for values in found.values])
    high = np.array([values.max() for values in found.values])
    rest = np.zeros(len(low))
    for j, (bone, channel) in enumerate(zip(found.bones, found.channels)):
        if bone < 0:
            low[j], high[j] = spec.low[channel], spec.high[channel]
            rest[j] = np.clip(spec.rest[channel], low[j], high[j])
            continue
        rest[j] = resting[bone, channel]
        wide = 0.0
        if bone == study.pelvis:  # the body as a whole may be anywhere
            wide = {"rotation": np.pi, "move": study.height}.get(CHANNEL_NAMES[channel][:-2], 0.0)
        margin = _MARGIN * (high[j] - low[j]) + 1e-9 * study.height
        low[j] = min(low[j] - margin, rest[j], -wide)
        high[j] = max(high[j] + margin, rest[j], wide)
    bones, channels = np.array(found.bones, np.int32), np.array(found.channels, np.int32)
    return Dofs(tuple(found.names), bones, channels, low, high, rest)


def drivers_of(found: Independent, dofs: Dofs, study: Study) -> tuple[Driver, ...]:
    """Return the drivers, fitted to all poses with inputs relative to the limits of the dofs."""
    x = (np.stack(found.values, axis=1) - dofs.middle) / dofs.half
    drivers = []
    for plan in found.plans:
        inputs = np.array(plan.inputs, np.int32)
        y = study.motion[:, plan.bone, plan.channels]
        coefficients = _solve(products(x[:, inputs], plan.degree), y)
        channels = np.array(plan.channels, np.int32)
        drivers.append(Driver(plan.bone, channels, inputs, plan.degree, coefficients))
    return tuple(drivers)


class _Search:
    """The search for dofs, block by block: a block is one kind of motion of one bone."""

    def __init__(self, study: Study, found: Independent):
        self.study, self.found = study, found
        self.steps = tree_distances(study.joints.parents)
        count = len(study.motion)
        animation = in_motion(study.motion[..., ROTATION].reshape(count, -1))
        self.fitter = DriverFitter(count, far=not animation)
        self.share = _FOLLOWS_EXACTLY if animation else _FOLLOWS

    def add(self, bone: int, channel: int) -> int:
        """Make a channel of a bone a dof and return its number."""
        name = f"{self.study.skeleton.names[bone]} {CHANNEL_NAMES[channel]}"
        self.found.add(name, bone, channel, self.study.motion[:, bone, channel])
        return len(self.found.names) - 1

    def block(self, bone: int, kind: str) -> None:
        """Find the dofs and the driver of one block."""
        study = self.study
        lever = float(study.levers.near[kind][bone])
        still = _STILL * study.height / max(lever, 1e-9 * study.height)
        motion = study.motion[:, bone]
        left = [
            c for c in range(motion.shape[1])[KINDS[kind]] if np.abs(motion[:, c]).max() > still
        ]
        wanted = max(still, self.share * float(np.linalg.norm(motion[:, left].std(axis=0))))
        own: list[int] = []
        near = self._near(bone)
        while left:
            x = np.stack(self.found.scaled, axis=1)  # all dofs so far
            inputs, degree, error = self.fitter.fit(x, motion[:, left], own, near, 0.02 * wanted)
            wrong = error * (error > wanted)
            if not wrong.any():
                self.found.plans.append(Plan(bone, left, inputs, degree))
                return
            own.append(self.add(bone, left.pop(int(wrong.argmax()))))

    def _near(self, bone: int) -> list[tuple[int, ...]]:
        """Return the dofs of bones near a bone: each dof, and those of each bone together."""
        bones = np.array(self.found.bones, np.int64)
        close = (bones >= 0) & (self.steps[bone, np.maximum(bones, 0)] <= _STEPS)
        # The pose of the whole body in the world does not drive a part of it.
        close &= bones != self.study.pelvis
        dofs = np.flatnonzero(close)
        alone = [(int(j),) for j in dofs]
        groups = [tuple(int(j) for j in dofs[bones[dofs] == b]) for b in np.unique(bones[dofs])]
        return alone + [group for group in groups if 1 < len(group) <= 3]


class DriverFitter:
    """Fits polynomials of dofs to numbers of the same T poses.

    pose_count  T
    far         whether dofs that are not near may be inputs
    """

    def __init__(self, pose_count: int, far: bool):
        self.far = far
        self.held_out = held_out_blocks(pose_count, 16, 4)
        self.learned = ~self.held_out
        self.few = evenly(pose_count, _SELECTION_POSES)

    def fit(
        self, x: np.ndarray, y: np.ndarray, base: Sequence[int], near: Sequence[Group], good: float
    ) -> tuple[list[int], int, np.ndarray]:
        """Return the inputs and the degree of the polynomial that predicts y, and its error (k,).

        The error is the root mean square, the larger of that on poses that were held out and that
        on the others.

        x     (T,D) all dofs, in [-1,1]
        y     (T,k)
        base  dofs of the same bone, which are always inputs if the poses allow it
        near  groups of dofs of bones near it. The dofs of a ball joint are a group: products of
              two may matter where neither does alone
        good  root mean square error at which no more inputs are added
        """
        chosen = self._select(x, y, list(base), near, good)
        return self._best_degree(x, y, chosen, good)

    def _select(
        self, x: np.ndarray, y: np.ndarray, base: list[int], near: Sequence[Group], good: float
    ) -> list[int]:
        """Return the inputs."""
        x, y = x[self.few], y[self.few]
        chosen = base
        error, residual = self._quick(x, y, chosen)
        close = {j for group in near for j in group}
        while error > good:
            options = [(group, _IMPROVES) for group in near]
            if self.far:
                options += [((j,), _FAR) for j in _correlated(x, residual, 4) if j not in close]
            best = None
            for group, share in options:
                trial = chosen + [j for j in group if j not in chosen]
                if len(trial) == len(chosen) or len(trial) > MAX_SELECTED:
                    continue
                found, left = self._quick(x, y, trial)
                cost = found * (1 + _SIZE * len(trial))
                if found < share * error and (best is None or cost < best[0]):
                    best = (cost, found, left, trial)
            if best is None:
                break
            _, error, residual, chosen = best
        return self._pruned(x, y, chosen, max((1 + _SIZE) * error, good))

    def _pruned(self, x: np.ndarray, y: np.ndarray, chosen: list[int], most: float) -> list[int]:
        """Return the inputs without those that the error needs not to exceed `most`."""
        for j in list(chosen):
            trial = [k for k in chosen if k != j]
            if self._quick(x, y, trial)[0] <= most:
                chosen = trial
        return chosen

    def _quick(self, x: np.ndarray, y: np.ndarray, chosen: list[int]) -> tuple[float, np.ndarray]:
        """Return the error and residual of degree 2 if the poses determine it, else of degree 1."""
        for degree in (2, 1, 0):
            terms = _legendre(x[:, chosen], degree)
            if degree and not _determined(terms):
                continue
            left = y - terms @ _solve(terms, y)
            free = max(len(y) - terms.shape[1], 1)
            return float(np.sqrt((left**2).sum() / free)), left
        raise AssertionError

    def _best_degree(
        self, x: np.ndarray, y: np.ndarray, chosen: list[int], good: float
    ) -> tuple[list[int], int, np.ndarray]:
        """Return the fit of the first good degree, or of that with the least held-out error."""
        inputs = x[:, chosen]
        best = None
        for degree in range(_MOST_DEGREE + 1 if chosen else 1):
            count = term_count(len(chosen), degree)
            if degree and (count > _MOST_TERMS or count * _POSES_PER_TERM > self.learned.sum()):
                break
            terms = _legendre(inputs, degree)
            if degree and not _determined(terms[self.learned]):
                break
            left = y - terms @ _solve(terms[self.learned], y[self.learned])
            # Held-out poses alone may miss a motion that one clip has.
            error = np.maximum(_rms(left[self.held_out]), _rms(left[self.learned]))
            if best is None or np.linalg.norm(error) < 0.95 * np.linalg.norm(best[1]):
                best = (degree, error)
            if np.linalg.norm(error) <= good:
                break
        assert best is not None
        degree, error = best
        return chosen if degree else [], degree, error


def _rms(values: np.ndarray) -> np.ndarray:
    """Return the root mean square of each column; 0 without rows."""
    return np.sqrt((values**2).mean(axis=0)) if len(values) else np.zeros(values.shape[1])


def _solve(terms: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the coefficients (terms,k) of the least squares fit of y (T,k)."""
    gram = terms.T @ terms
    gram.flat[:: len(gram) + 1] += _RIDGE * max(float(np.trace(gram)) / len(gram), 1e-12)
    return np.linalg.solve(gram, terms.T @ y)


def _legendre(x: np.ndarray, degree: int) -> np.ndarray:
    """Return products of normalised Legendre polynomials, the span of `products`: (T,terms)."""
    powers = legvander(x, degree) * np.sqrt(2 * np.arange(degree + 1) + 1)  # (T,n,degree + 1)
    columns = []
    for exponents in _exponents(x.shape[1], degree):
        column = np.ones(len(x))
        for j, power in exponents:
            column = column * powers[:, j, power]
        columns.append(column)
    return np.stack(columns, axis=1)


def _exponents(n: int, degree: int) -> list[tuple[tuple[int, int], ...]]:
    """Return every ((input, power), ...) of total degree at most `degree`."""
    result: list[tuple[tuple[int, int], ...]] = [()]
    for j in range(n):
        result = [
            (*term, (j, power)) if power else term
            for term in result
            for power in range(degree + 1 - sum(p for _, p in term))
        ]
    return result


def _determined(terms: np.ndarray) -> bool:
    """Return whether poses (T,terms) determine the coefficients."""
    if len(terms) < 2 * terms.shape[1]:
        return False
    values = np.linalg.eigvalsh(terms.T @ terms)
    return bool(values[0] > _DETERMINED * values[-1])


def _correlated(x: np.ndarray, residual: np.ndarray, count: int) -> list[int]:
    """Return the dofs with the largest linear correlation with a residual (T,k)."""
    if not x.shape[1]:
        return []
    a = x - x.mean(axis=0)
    b = residual - residual.mean(axis=0)
    a /= np.maximum(np.linalg.norm(a, axis=0), 1e-12)
    b /= max(float(np.linalg.norm(b)), 1e-12)
    strength = np.linalg.norm(a.T @ b, axis=1)
    order = np.argsort(-strength, kind="stable")[:count]
    return [int(j) for j in order if strength[j] > 0.3]
