"""`PosingSkeleton`: what it takes to pose a character without its rig.

The poses that a deformer learned from show which bones move independently, how far, and how the
others follow them. Each degree of freedom (dof) is a number q with limits. It is one of the 12
channels of a bone's motion (`understudy.geometry.bone_motion`: a rotation about, a move along or a
stretch along an axis of the joint), or a control of the deformer. Other channels are driven, such
as those of helper bones (twist, muscle, corrective, stretch), or all of them by the controls of a
rig; without a driver they are zero:

    motion[b, c] = q                 of the dof of bone b and channel c
                 = sum of W^T m(x)   over the drivers of the channel
    x            = (q[inputs] - middle) / half      middle and half of the limits; for a degree of 2
                                                    or more, clamped to [-1.25, 1.25]
    m(x)         = every product of at most `degree` inputs: 1, x_0, x_1, ..., x_0 x_0, x_0 x_1, ...

Letters: T poses, B bones, C controls, D dofs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import comb

import numpy as np

from understudy.core.noun import Noun
from understudy.core.skeleton import Skeleton
from understudy.geometry.bone_motion import (
    CHANNELS,
    ORDERS,
    ROTATION,
    Joints,
    bones_of_motion,
    mirrored_motion,
    motion_of_bones,
    parents_first,
)
from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.system import checks
from understudy.system.errors import InputError

ROLES = ("hand", "foot", "head", "pelvis", "end")
SIDES = ("left", "right", "middle")
WIDEST = 1.25  # inputs of polynomials are clamped to this multiple of half their range
MAX_INPUTS, MAX_DEGREE, MAX_TERMS = 16, 7, 1024
MOST_TURN, LARGEST_ANGLE = 100.0, 1000.0  # radians, of a constant rotation vector; of any angle


def term_count(inputs: int, degree: int) -> int:
    """Return the number of products of at most `degree` of so many inputs.

    >>> term_count(3, 2)
    10
    """
    return comb(inputs + degree, degree)


def products(x: np.ndarray, degree: int) -> np.ndarray:
    """Return every product of at most `degree` columns of x (T,n): (T,terms), 1 first.

    >>> products(np.array([[2.0, 3.0]]), 2).tolist()
    [[1.0, 2.0, 3.0, 4.0, 6.0, 9.0]]
    """
    powers = [np.ones((len(x), 1))]
    last = np.zeros(1, np.int64)  # of each product of the power before, its last factor
    for _ in range(degree):
        pairs = [(k, factor) for k, low in enumerate(last) for factor in range(low, x.shape[1])]
        before, last = np.array(pairs, np.int64).reshape(-1, 2).T
        powers.append(powers[-1][:, before] * x[:, last])
    return np.concatenate(powers, axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class Driver(Noun):
    """A polynomial of some dofs, which moves one bone.

    bone          its index
    channels      (k,) int32, the channels of its motion that it sets
    inputs        (n,) int32, dofs, at most 16
    degree        of the polynomial, 0 to 7
    coefficients  (terms,k) float32, in the order of `products`
    """

    bone: int
    channels: np.ndarray
    inputs: np.ndarray
    degree: int
    coefficients: np.ndarray

    def __post_init__(self):
        put = self._keep
        channels = checks.index(self.channels, "channels", CHANNELS)
        put("channels", checks.distinct(channels, "channels"))
        put("inputs", checks.index(self.inputs, "driver inputs", 2**31))
        put("degree", int(checks.between(self.degree, "driver degree", 0, MAX_DEGREE)))
        checks.between(len(self.inputs), "number of driver inputs", 0, MAX_INPUTS)
        terms = term_count(len(self.inputs), self.degree)
        shape = (int(checks.between(terms, "terms of a driver", 1, MAX_TERMS)), len(self.channels))
        put("coefficients", checks.array(self.coefficients, "driver coefficients", shape))


@dataclass(frozen=True)
class Handle:
    """A bone that is dragged to pose a character.

    name  for people: "left hand"
    role  "hand", "foot", "head", "pelvis", or "end": the end of another chain
    side  "left", "right" or "middle"
    bone  its index
    """

    name: str
    role: str
    side: str
    bone: int

    def __post_init__(self):
        checks.one_of(self.role, "role of a handle", ROLES)
        checks.one_of(self.side, "side of a handle", SIDES)


@dataclass(frozen=True, eq=False, repr=False)
class Dofs(Noun):
    """Degrees of freedom, D of them.

    names      D strings
    bone       (D,) int32, the bone that each moves; -1: it is a control
    channel    (D,) int32, the channel of the bone's motion, or the number of the control
    low, high  (D,) float64, limits: radians for rotations, model units for moves
    rest       (D,) float64, within the limits
    """

    names: tuple[str, ...]
    bone: np.ndarray
    channel: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rest: np.ndarray

    def __post_init__(self):
        put = self._keep
        put("names", checks.names(self.names, "dof names"))
        count = len(self.names)
        bone = checks.array_of(self.bone, "dof bone", (count,), np.int64)
        put("bone", checks.index(bone + 1, "dof bone + 1", 2**31) - 1)
        put("channel", checks.index(self.channel, "dof channel", 2**31, (count,)))
        for name in ("low", "high", "rest"):
            put(name, checks.array(getattr(self, name), f"dof {name}", (count,), np.float64))
        wrong = (self.low >= self.high) | (self.rest < self.low) | (self.rest > self.high)
        if wrong.any():
            raise InputError(
                f"dof {self.names[int(np.flatnonzero(wrong)[0])]!r}: expected low < high, with "
                f"rest between them"
            )

    @property
    def count(self) -> int:
        """D."""
        return len(self.names)

    @property
    def middle(self) -> np.ndarray:
        """The middle of the limits, (D,)."""
        return 0.5 * (self.low + self.high)

    @property
    def half(self) -> np.ndarray:
        """Half the width of the limits, (D,)."""
        return 0.5 * (self.high - self.low)

    @property
    def of_bones(self) -> np.ndarray:
        """The dofs that move bones, as indices."""
        return np.flatnonzero(self.bone >= 0)

    @property
    def of_controls(self) -> np.ndarray:
        """The dofs that are controls, as indices."""
        return np.flatnonzero(self.bone < 0)


@dataclass(frozen=True, eq=False, repr=False)
class Symmetry(Noun):
    """What becomes what in a mirror.

    axis     0, 1 or 2: the axis that changes its sign from side to side; -1: not symmetric
    bone     (B,) int32, the bone of the other side; itself: in the middle, or without one
    control  (C,) int32, the same for controls
    """

    axis: int
    bone: np.ndarray
    control: np.ndarray

    def __post_init__(self):
        checks.between(self.axis, "mirror axis", -1, 2)
        for name in ("bone", "control"):
            self._keep(name, checks.index(getattr(self, name), f"mirror {name}", 2**31))


@dataclass(frozen=True, eq=False, repr=False)
class PosingSkeleton(Noun):
    """Independent bones with their limits, and drivers for all others. See the module's docstring.

    skeleton      the bones at rest
    parents       (B,) int32, the bone that each follows, -1 for a root; in any order. Mostly the
                  skeleton's, but a rig may leave a foot without its leg as parent
    control_rest  (C,) float64, values of controls that are no dof
    dofs          the independent numbers
    axes          (B,3) float32, rotation vectors of F in `bone_motion`
    order         (B,) int32, indices into its ORDERS
    reference     (B,3) float32, rotation vectors of C
    drivers       how helper bones follow the dofs
    handles       bones to drag
    symmetry      left and right
    parts         names of the parts of the body
    bone_part     (B,) int32, the part of each bone
    errors        name -> number; vertex errors in `mesh.unit`
    notes         what could not be found, in words
    """

    skeleton: Skeleton
    parents: np.ndarray
    control_rest: np.ndarray
    dofs: Dofs
    axes: np.ndarray
    order: np.ndarray
    reference: np.ndarray
    drivers: tuple[Driver, ...]
    handles: tuple[Handle, ...]
    symmetry: Symmetry
    parts: tuple[str, ...]
    bone_part: np.ndarray
    errors: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        put = self._keep
        bones, dofs = self.skeleton.bone_count, self.dofs
        parents = checks.array_of(self.parents, "posing parents", (bones,), np.int64)
        put("parents", checks.index(parents + 1, "posing parents + 1", bones + 1) - 1)
        if len(parents_first(self.parents)) != bones:
            raise InputError("posing parents: some bones are their own ancestors")
        put("control_rest", checks.array(self.control_rest, "control rest", (None,), np.float64))
        controls = len(self.control_rest)
        checks.index(dofs.bone[dofs.of_bones], "dof bone", bones)
        checks.index(dofs.channel[dofs.of_bones], "dof channel", CHANNELS)
        checks.index(dofs.channel[dofs.of_controls], "dof control", controls)
        for name in ("axes", "reference"):
            vectors = checks.array(getattr(self, name), f"joint {name}", (bones, 3))
            checks.between(np.abs(vectors).max(initial=0), f"largest joint {name}", 0, MOST_TURN)
            put(name, vectors)
        put("order", checks.index(self.order, "joint order", len(ORDERS), (bones,)))
        put("drivers", tuple(self.drivers))
        for driver in self.drivers:
            checks.between(driver.bone, "bone of a driver", 0, bones - 1)
            checks.index(driver.inputs, "inputs of a driver", dofs.count)
        put("handles", tuple(self.handles))
        checks.names((handle.name for handle in self.handles), "handles")
        for handle in self.handles:
            checks.between(handle.bone, f"bone of the handle {handle.name!r}", 0, bones - 1)
        checks.index(self.symmetry.bone, "mirror bones", bones, (bones,))
        checks.index(self.symmetry.control, "mirror controls", controls, (controls,))
        put("parts", checks.names(self.parts, "parts of the body"))
        part = checks.index(self.bone_part, "parts of bones", len(self.parts), (bones,))
        put("bone_part", part)
        put("notes", tuple(str(note) for note in self.notes))

    @cached_property
    def joints(self) -> Joints:
        """The joints of the bones."""
        turned = lambda vectors: rotation_from_axis_angle(vectors.astype(np.float64))
        axes, reference = turned(self.axes), turned(self.reference)
        return Joints(self.skeleton.world_from_bone, self.parents, axes, self.order, reference)

    @property
    def from_controls(self) -> bool:
        """Whether controls alone determine all bones: no dof is a channel of a bone."""
        return bool(self.dofs.count) and not len(self.dofs.of_bones)

    def bones_at(self, controls: np.ndarray) -> np.ndarray:
        """Return world_from_bone (T,B,3,4) at controls (T,C), if these determine all bones."""
        if not self.from_controls:
            raise InputError(
                "the controls of this deformer do not determine its bones; pass world_from_bone"
            )
        shape = (None, len(self.control_rest))
        values = checks.array(controls, "controls", shape, np.float64)[:, self.dofs.channel]
        return self.pose(values)[0]

    @property
    def independent_bones(self) -> np.ndarray:
        """The bones that some dof moves, as sorted indices."""
        return np.unique(self.dofs.bone[self.dofs.of_bones])

    @property
    def helper_bones(self) -> np.ndarray:
        """The bones that only drivers move, as sorted indices."""
        driven = {driver.bone for driver in self.drivers if len(driver.inputs)}
        return np.array(sorted(driven - set(self.independent_bones.tolist())), np.int64)

    def motion(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the motion of all bones (T,B,12) and the controls (T,C) at values (T,D)."""
        dofs = self.dofs
        values = checks.array(values, "dof values", (None, dofs.count), np.float64)
        motion = np.zeros((len(values), self.skeleton.bone_count, CHANNELS))
        controls = np.repeat(self.control_rest[None], len(values), axis=0)
        x = (values - dofs.middle) / dofs.half
        bounded = np.clip(x, -WIDEST, WIDEST)
        for driver in self.drivers:
            inputs = (x if driver.degree < 2 else bounded)[:, driver.inputs]
            moved = products(inputs, driver.degree) @ driver.coefficients
            motion[:, driver.bone, driver.channels] += moved
        of_bones, of_controls = dofs.of_bones, dofs.of_controls
        motion[:, dofs.bone[of_bones], dofs.channel[of_bones]] = values[:, of_bones]
        controls[:, dofs.channel[of_controls]] = values[:, of_controls]
        motion[..., ROTATION] = motion[..., ROTATION].clip(-LARGEST_ANGLE, LARGEST_ANGLE)
        return motion, controls

    def pose(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return world_from_bone (T,B,3,4) and controls (T,C) at values (T,D) of the dofs."""
        motion, controls = self.motion(values)
        return bones_of_motion(motion, self.joints), controls

    def read(self, world_from_bone: np.ndarray, controls: np.ndarray | None = None) -> np.ndarray:
        """Return the values (T,D) of the dofs in given poses, which may be outside their limits.

        Bones (T,B,3,4) and controls (T,C); without controls, these are at rest.
        """
        shape = (None, self.skeleton.bone_count, 3, 4)
        world = checks.array(world_from_bone, "world_from_bone", shape, np.float64)
        if controls is None:
            controls = np.tile(self.control_rest, (len(world), 1))
        return self._read_motion(motion_of_bones(world, self.joints), np.asarray(controls))

    def mirrored(self, values: np.ndarray) -> np.ndarray:
        """Return the values (T,D) of the mirrored poses, within the limits."""
        symmetry = self.symmetry
        if symmetry.axis < 0:
            raise InputError("this skeleton is not symmetric, so its poses cannot be mirrored")
        motion, controls = self.motion(values)
        motion = mirrored_motion(motion, self.joints, symmetry.bone, symmetry.axis)
        values = self._read_motion(motion, controls[:, symmetry.control])
        return np.clip(values, self.dofs.low, self.dofs.high)

    def _read_motion(self, motion: np.ndarray, controls: np.ndarray) -> np.ndarray:
        """Return the values (T,D) of the dofs from motion (T,B,12) and controls (T,C)."""
        dofs = self.dofs
        values = np.empty((len(motion), dofs.count))
        of_bones, of_controls = dofs.of_bones, dofs.of_controls
        values[:, of_bones] = motion[:, dofs.bone[of_bones], dofs.channel[of_bones]]
        values[:, of_controls] = controls[:, dofs.channel[of_controls]]
        return values
