"""A live rig of any size for `bench scale`: five limbs of nine bones that a random deformer moves.

The largest has the 168,635 vertices of the character Astrid and 45 bones. Every bone has a small
random network whose outputs bulge the limb around its joint, so there is something to learn that
linear blend skinning cannot express. Poses are evaluated by the compiled runtime.

Letters: T poses, V vertices, B = 45 bones, C = 90 controls (two rotations for each bone).

>>> Limbs10k().evaluate(np.zeros((1, 90))).vertices.shape
(1, 10005, 3)
"""

from __future__ import annotations

import time

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.deformer import Deformer
from understudy.core.features import Features
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.transforms import compose, rotation_from_axis_angle

LIMBS, BONES, AROUND = 5, 9, 29
START, BONE_LENGTH, RADIUS = 20.0, 10.0, 5.0  # cm
SHAPES, HIDDEN = 8, 16
BULGE = 0.3  # cm
RANGE = 25.0  # degrees
SLOW = 0.05  # seconds


class LimbRig:
    """Five limbs of `rings` rings of 29 vertices each."""

    rings = 1163

    def __init__(self) -> None:
        along = np.linspace(0, BONES * BONE_LENGTH, self.rings)
        self.mesh = _mesh(along)
        self.skeleton = _skeleton()
        names = tuple(f"{name}.{axis}" for name in self.skeleton.names for axis in ("bend", "sway"))
        ends = np.full(len(names), RANGE)
        self.controls = ControlSpec(
            names,
            -ends,
            ends,
            limit_low=-4 * ends,
            limit_high=4 * ends,
            units=("deg",) * len(names),
        )
        self._deformer = _deformer(self.mesh, self.skeleton, along)
        self._parent_from_rest = compose(
            self.skeleton.bone_from_world[np.maximum(self.skeleton.parents, 0)],
            self.skeleton.world_from_bone,
        )

    @property
    def name(self) -> str:
        """Its size."""
        return f"limbs-{self.mesh.vertex_count}"

    def evaluate(self, values: np.ndarray) -> Poses:
        """The T poses at control values (T,90)."""
        values = self.controls.check(values)
        world = self._bones(values)
        vertices = self._deformer.deform(world)
        return Poses(
            self.mesh, vertices, self.skeleton, world, self.controls, values, name=self.name
        )

    def _bones(self, values: np.ndarray) -> np.ndarray:
        """Control values (T,90) -> world_from_bone (T,45,3,4)."""
        angles = np.deg2rad(values).reshape(len(values), -1, 2)
        turns = rotation_from_axis_angle(np.pad(angles, ((0, 0), (0, 0), (1, 0))))
        world = np.empty((*turns.shape[:2], 3, 4))
        for bone, parent in enumerate(self.skeleton.parents):
            turned = np.concatenate([turns[:, bone], np.zeros((len(values), 3, 1))], axis=2)
            rest = self.skeleton.world_from_bone if parent < 0 else self._parent_from_rest
            local = compose(rest[bone], turned)
            world[:, bone] = local if parent < 0 else compose(world[:, parent], local)
        return world


class Limbs10k(LimbRig):
    """10,005 vertices."""

    rings = 69


class SlowLimbs(Limbs10k):
    """10,005 vertices, 50 ms a pose: a rig that is bound by its own evaluation."""

    def evaluate(self, values: np.ndarray) -> Poses:
        """The T poses at control values (T,90)."""
        time.sleep(SLOW * len(values))
        return super().evaluate(values)


class Limbs42k(LimbRig):
    """42,195 vertices."""

    rings = 291


class Limbs169k(LimbRig):
    """168,635 vertices, as Astrid has."""


def _frames() -> np.ndarray:
    """(5,3,3) the axes of each limb as columns: along it, up, and to the side."""
    angle = np.arange(LIMBS) * 2 * np.pi / LIMBS
    along = np.stack([np.cos(angle), np.zeros(LIMBS), np.sin(angle)], axis=1)
    up = np.tile([0.0, 1.0, 0.0], (LIMBS, 1))
    return np.stack([along, up, np.cross(along, up)], axis=2)


def _mesh(along: np.ndarray) -> Mesh:
    around = np.arange(AROUND) * 2 * np.pi / AROUND
    ring, turn = np.meshgrid(along, around, indexing="ij")
    local = np.stack([START + ring, RADIUS * np.cos(turn), RADIUS * np.sin(turn)], axis=-1)
    points = np.einsum("lij,raj->lrai", _frames(), local).reshape(-1, 3)
    row, column = np.meshgrid(np.arange(len(along) - 1), np.arange(AROUND), indexing="ij")
    corner = lambda on, over: (row + on) * AROUND + (column + over) % AROUND
    quads = np.stack([corner(0, 0), corner(0, 1), corner(1, 1), corner(1, 0)], axis=-1)
    first = np.arange(LIMBS)[:, None, None] * len(along) * AROUND
    faces = (first + quads.reshape(-1, 4)).reshape(-1, 4)
    return Mesh.from_faces(points, faces, unit="cm", up_axis="Y")


def _skeleton() -> Skeleton:
    frames = _frames()
    world = np.empty((LIMBS, BONES, 3, 4))
    world[..., :3] = frames[:, None]
    world[..., 3] = frames[:, None, :, 0] * (START + BONE_LENGTH * np.arange(BONES))[:, None]
    parents = np.arange(-1, LIMBS * BONES - 1)
    parents[BONES::BONES] = 0  # every limb but the first hangs on the first bone
    names = tuple(f"limb_{limb}.{bone}" for limb in range(LIMBS) for bone in range(BONES))
    return Skeleton(names, parents, world.reshape(-1, 3, 4))


def _deformer(mesh: Mesh, skeleton: Skeleton, along: np.ndarray) -> Deformer:
    """A skin of two bones per vertex, and a random network with eight bulges for each bone."""
    random = np.random.default_rng(0)
    place = np.repeat(along / BONE_LENGTH, AROUND)  # in bones, of one limb's vertices
    bone = np.minimum(place.astype(int), BONES - 1)
    blend = np.clip((place - bone - 0.75) / 0.5, 0, 0.5) + np.clip(0.5 - (place - bone) * 2, 0, 0.5)
    other = np.where(place - bone > 0.5, np.minimum(bone + 1, BONES - 1), np.maximum(bone - 1, 0))
    limb = np.repeat(np.arange(LIMBS), len(place))
    index = np.tile(np.stack([bone, other], axis=1), (LIMBS, 1)) + (limb * BONES)[:, None]
    weight = np.tile(np.stack([1 - blend, blend], axis=1), (LIMBS, 1))
    angle = np.tile(np.arange(AROUND) * 2 * np.pi / AROUND, len(along))
    nets, bases = [], []
    for number in range(LIMBS * BONES):
        near = np.flatnonzero(np.abs(place - number % BONES) < 1)
        bump = np.cos((place[near] - number % BONES) * np.pi / 2) ** 2
        waves = [
            np.cos(k * angle[near] + random.uniform(0, 6)) * bump for k in np.arange(SHAPES) % 4
        ]
        directions = random.normal(size=(SHAPES, 3))
        matrix = np.einsum("pn,pi->nip", np.stack(waves), directions).reshape(-1, SHAPES)
        outputs = np.arange(number * SHAPES, (number + 1) * SHAPES)
        vertices = near + number // BONES * len(place)
        bases.append(Basis(vertices, (BULGE * matrix).astype(np.float32), outputs))
        inputs = np.arange(9) + 9 * number
        first = random.normal(size=(HIDDEN, 9)).astype(np.float32)
        last = random.normal(size=(SHAPES, HIDDEN)).astype(np.float32) / np.sqrt(HIDDEN)
        biases = (random.normal(size=HIDDEN), np.zeros(SHAPES))
        nets.append(Net(inputs, (first, last), biases, outputs))
    rotation = np.arange(12).reshape(3, 4)[:, :3].reshape(-1)
    columns = (12 * np.arange(LIMBS * BONES)[:, None] + rotation).reshape(-1)
    far = np.full(len(columns), np.inf)
    return Deformer(
        mesh,
        skeleton,
        skin=Skin(index, weight),
        features=Features(columns, -far, far),
        nets=tuple(nets),
        bases=tuple(bases),
        method="limbs",
    )
