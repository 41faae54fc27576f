"""`tube`: the smallest rig with everything a method must handle, for tests and examples.

A tube of 13 rings of 8 vertices along y (10 cm), three bones in a chain, and a deformation that
linear blend skinning cannot express:

    d_i = radial_i (thin_i (1 + 0.25 flex + 0.9 h_i bend_2^2) - 1)     swelling
    v_i = sum over bones b of w_ib M_b (rest_i + d_i)                  smooth linear blend
    M_b = world_from_bone @ bone_from_rest

`flex` is a numeric control; h_i is a Gaussian around the second joint and bend_2 is in radians;
thin_i falls to stretch^-1/2 along the tube. Bones 2 and 3 stretch along their axis.

Controls: bend_1, bend_2, twist (degrees), stretch (ratio), flex (numeric). Animations of 60 frames:
`wave` (inside the training ranges), `whip` (beyond them).

Letters: T poses, V = 104 vertices, B = 3 bones, C = 5 controls.

>>> rig = TubeRig()
>>> rig.evaluate(rig.controls.rest[None]).vertices.shape
(1, 104, 3)
"""

from __future__ import annotations

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.geometry.transforms import compose, rotation_from_axis_angle
from understudy.system import checks

RINGS, AROUND, LENGTH, RADIUS = 13, 8, 10.0, 1.0
JOINTS = np.array([0.0, 3.5, 6.5])


class TubeRig:
    """A bending, twisting, stretching, swelling tube as a `Rig`."""

    name = "tube"

    def __init__(self) -> None:
        height, angle = np.meshgrid(
            np.linspace(0, LENGTH, RINGS), np.arange(AROUND) * 2 * np.pi / AROUND, indexing="ij"
        )
        points = np.stack(
            [RADIUS * np.sin(angle), height, RADIUS * np.cos(angle)], axis=-1
        ).reshape(-1, 3)
        ring, step = np.meshgrid(np.arange(RINGS - 1), np.arange(AROUND), indexing="ij")
        corner = lambda up, on: (ring + up) * AROUND + (step + on) % AROUND
        quads = np.stack([corner(0, 0), corner(0, 1), corner(1, 1), corner(1, 0)], axis=-1).reshape(
            -1, 4
        )
        uvs = np.stack(
            [
                [step / AROUND, (step + 1) / AROUND, (step + 1) / AROUND, step / AROUND],
                [ring, ring, ring + 1, ring + 1],
            ],
            axis=-1,
        )
        uvs = np.moveaxis(uvs, 0, 2).reshape(-1, 2) * [1.0, 1.0 / (RINGS - 1)]
        self.mesh = Mesh.from_faces(points, quads, corner_uvs=uvs, unit="cm", up_axis="Y")
        rest = np.tile(np.eye(3, 4), (3, 1, 1))
        rest[:, 1, 3] = JOINTS
        self.skeleton = Skeleton(("base", "middle", "tip"), np.array([-1, 0, 1]), rest)
        #                  bend_1 bend_2 twist stretch flex
        low, high = np.array([[-50, -50, -60, 0.85, 0], [50, 50, 60, 1.2, 1]])
        limits = np.array([[-100, -100, -120, 0.6, -0.5], [100, 100, 120, 1.6, 1.5]])
        self.controls = ControlSpec(
            names=("bend_1", "bend_2", "twist", "stretch", "flex"),
            low=low,
            high=high,
            rest=np.array([0.0, 0, 0, 1, 0]),
            limit_low=limits[0],
            limit_high=limits[1],
            units=("deg", "deg", "deg", "ratio", ""),
            numeric=np.array([False, False, False, False, True]),
        )
        # Each joint blends from its bone to the next along a smooth step 1.5 units to either side.
        over = [np.clip((points[:, 1] - joint + 1.5) / 3.0, 0, 1) for joint in JOINTS[1:]]
        first, second = (s * s * (3 - 2 * s) for s in over)
        self._weights = np.stack([1 - first, first - second, second], axis=1)
        self._radial = points * [1, 0, 1]
        self._near_joint = np.exp(-(((points[:, 1] - JOINTS[2]) / 1.6) ** 2))

    def evaluate(self, values: np.ndarray) -> Poses:
        """The T poses at control values (T,5)."""
        values = self.controls.check(values)
        world = self._bones(values)
        _, bend, _, stretch, flex = values.T
        swell = 0.25 * flex[:, None] + 0.9 * self._near_joint * np.deg2rad(bend[:, None]) ** 2
        thin = 1.0 + self._weights[:, 1:].sum(axis=1) * (stretch[:, None] ** -0.5 - 1.0)
        points = self.mesh.vertices + self._radial * (thin * (1.0 + swell) - 1.0)[..., None]
        skin = compose(world, self.skeleton.bone_from_world)
        blend = np.einsum("vb,tbij->tvij", self._weights, skin)
        vertices = np.einsum("tvij,tvj->tvi", blend[..., :3], points) + blend[..., 3]
        return Poses(
            mesh=self.mesh,
            vertices=vertices.astype(np.float32),
            skeleton=self.skeleton,
            world_from_bone=world,
            control_spec=self.controls,
            controls=values,
            name=self.name,
        )

    def _bones(self, values: np.ndarray) -> np.ndarray:
        """Control values (T,5) -> world_from_bone (T,3,3,4).

        Bends are about x, the twist of the tip about y. Middle and tip stretch along y; a child
        does not inherit the stretch.
        """
        bend_1, bend_2, twist = np.deg2rad(values[:, :3].T)
        stretch = values[:, 3]
        zero = np.zeros_like(bend_1)
        turn_1 = rotation_from_axis_angle(np.stack([bend_1, zero, zero], axis=-1))
        turn_2 = (
            turn_1
            @ rotation_from_axis_angle(np.stack([bend_2, zero, zero], axis=-1))
            @ rotation_from_axis_angle(np.stack([zero, twist, zero], axis=-1))
        )
        world = np.tile(np.eye(3, 4), (len(values), 3, 1, 1))
        world[:, 1, :, :3], world[:, 2, :, :3] = turn_1, turn_2
        world[:, 1, 1, 3] = JOINTS[1]
        world[:, 2, :, 3] = (
            world[:, 1, :, 3] + turn_1[:, :, 1] * (stretch * (JOINTS[2] - JOINTS[1]))[:, None]
        )
        world[:, 1:, :, 1] *= stretch[:, None, None]
        return world

    @property
    def animation_names(self) -> tuple[str, ...]:
        """`wave` stays inside the training ranges, `whip` leaves them."""
        return ("wave", "whip")

    def animation(self, name: str) -> tuple[np.ndarray, float]:
        """Control curves (60,5) of an animation, and its frame rate."""
        checks.one_of(name, "animation", self.animation_names)
        t = np.arange(60) / 30.0
        size = 1.0 if name == "wave" else 1.8
        curves = [
            45 * np.sin(3.1 * t),
            45 * np.sin(3.1 * t - 1.2 + 0.3 * t),
            50 * np.sin(2.3 * t),
            0.15 * np.sin(2.7 * t) / (1 if size > 1 else 1.1),
            0.4 - 0.4 * np.cos(4.1 * t),
        ]
        values = np.stack(curves, axis=1) * [size, size, size, size, 1.0]
        return values + self.controls.rest, 30.0
