"""Which bones move independently, and how the others follow them.

Bones are taken in the order of how far they move the mesh: first all rotations, then stretches,
then moves, because a bone that slides along its stretched parent follows the stretch. For each, the
dofs found so far predict its motion (`drivers`). Where they cannot, the channel with the largest
error becomes a dof, and the others are predicted again. So a hinge gives one dof, a wrist two, and
a twist bone none.

Letters: T poses, B bones, C controls, D dofs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from understudy.core.posing import Dofs, Driver
from understudy.core.skeleton import Skeleton
from understudy.geometry.bone_motion import (
    CHANNEL_NAMES,
    MOVE,
    ROTATION,
    STRETCH,
    Joints,
    motion_of_bones,
)
from understudy.methods.posing_fitting.drivers import DriverFitter, Fit, is_animation, refit
from understudy.methods.posing_fitting.levers import Levers, tree_distances

KINDS = {"rotation": ROTATION, "stretch": STRETCH, "move": MOVE}  # in the order of the search
_STEPS = 4  # bones this far apart in the skeleton are near
# A motion predicted to this share of the whole bone's motion is driven. In an animation every joint
# is nearly a function of the others, so only exact ones count.
_FOLLOWS, _FOLLOWS_EXACTLY = 0.02, 0.004
_STILL = 1e-4  # a motion that moves vertices by less than this share of the height is none
_MARGIN = 1e-3  # of the range, added at both ends, so that limits are not a single number


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


@dataclass(frozen=True)
class ControlRange:
    """A control that is a dof: its name, values (T,) in the poses, limits and rest value."""

    name: str
    values: np.ndarray
    low: float
    high: float
    rest: float


@dataclass(frozen=True, eq=False)
class Plan:
    """A driver before its coefficients are final: the channels of a bone, inputs and degree."""

    bone: int
    channels: list[int]
    fit: Fit


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


def find_independent(study: Study, controls: dict[int, ControlRange]) -> Independent:
    """Return the dofs and the drivers of all other motion.

    controls  number -> control that is a dof in any case
    """
    found = Independent()
    for number, control in controls.items():
        found.add(control.name, -1, number, control.values)
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


def dofs_of(found: Independent, study: Study, controls: dict[int, ControlRange]) -> Dofs:
    """Return the dofs with their limits: the range of the poses, and the rest pose."""
    resting = motion_of_bones(study.skeleton.world_from_bone[None], study.joints)[0]
    low = np.array([values.min() for values in found.values])
    high = np.array([values.max() for values in found.values])
    rest = np.zeros(len(low))
    for j, (bone, channel) in enumerate(zip(found.bones, found.channels)):
        if bone < 0:
            control = controls[channel]
            low[j], high[j], rest[j] = control.low, control.high, control.rest
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
        inputs = np.array(plan.fit.inputs, np.int32)
        y = study.motion[:, plan.bone, plan.channels]
        coefficients = refit(x[:, inputs], y, plan.fit.degree)
        channels = np.array(plan.channels, np.int32)
        drivers.append(Driver(plan.bone, channels, inputs, plan.fit.degree, coefficients))
    return tuple(drivers)


class _Search:
    """The search for dofs, block by block: a block is one kind of motion of one bone."""

    def __init__(self, study: Study, found: Independent):
        self.study, self.found = study, found
        self.steps = tree_distances(study.joints.parents)
        count = len(study.motion)
        animation = is_animation(study.motion[..., ROTATION].reshape(count, -1))
        self.fitter = DriverFitter(count, far=not animation)
        self._columns, self._filled = np.empty((count, 64)), 0
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
            fit = self.fitter.fit(self._x(), motion[:, left], own, near, 0.02 * wanted)
            wrong = fit.error * (fit.error > wanted)
            if not wrong.any():
                self.found.plans.append(Plan(bone, left, fit))
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

    def _x(self) -> np.ndarray:
        """Return all dofs so far in [-1,1], (T,D)."""
        while self._filled < len(self.found.scaled):
            if self._filled == self._columns.shape[1]:
                self._columns = np.concatenate([self._columns, np.empty_like(self._columns)], 1)
            self._columns[:, self._filled] = self.found.scaled[self._filled]
            self._filled += 1
        return self._columns[:, : self._filled]
