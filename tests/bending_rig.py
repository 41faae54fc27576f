"""A tiny rig in a module of its own, so that worker processes can import it: a strip that three
bones bend, with every way a rig can go wrong.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton


class BendingRig:
    """40 vertices, 3 bones, 4 controls. `delay` seconds a pose; `trouble` (nan, bug, alien, die)
    strikes where the first control exceeds 79.
    """

    name = "bending"

    def __init__(self, delay: float = 0.0, trouble: str = "", bones: bool = True):
        if (
            multiprocessing.parent_process() is not None
            and os.environ.get("OPENBLAS_NUM_THREADS") != "1"
        ):
            raise RuntimeError("a worker started without the setting for one thread")
        self.delay, self.trouble = delay, trouble
        rest = np.random.default_rng(5).random((40, 3), np.float32)
        faces = np.arange(40).reshape(10, 4)
        parts = {"left/half": np.arange(20), "none": np.arange(0)}
        self.mesh = Mesh.from_faces(rest, faces, parts=parts, materials=("skin",), unit="cm")
        frames = np.tile(np.eye(3, 4), (3, 1, 1))
        frames[:, 0, 3] = range(3)
        self.skeleton = Skeleton(("a", "b", "c"), [-1, 0, 1], frames) if bones else None
        self.controls = ControlSpec(
            ("bend", "twist", "grin", "fixed"),
            [-80, -30, 0, 2],
            [80, 30, 1, 2],
            limit_low=[-90, -90, 0, 0],
            limit_high=[90, 90, 1, 5],
            units=("deg", "deg", "", "cm"),
        )

    def evaluate(self, values: np.ndarray) -> Poses:
        values = self.controls.check(values)
        time.sleep(self.delay * len(values))
        angle = np.deg2rad(values[:, 0])
        bones = np.tile(np.eye(3, 4), (len(values), 3, 1, 1))
        bones[:, :, 0, 0] = bones[:, :, 1, 1] = np.cos(angle)[:, None]
        bones[:, :, 1, 0], bones[:, :, 0, 1] = np.sin(angle)[:, None], -np.sin(angle)[:, None]
        vertices = (
            np.einsum("tij,vj->tvi", bones[:, 0, :, :3], self.mesh.vertices.astype(float))
            + values[:, None, 2:3]
        )
        bad = values[:, 0] > 79
        if bad.any() and self.trouble:
            if self.trouble == "bug":
                raise ZeroDivisionError("the rig divided by nothing")
            if self.trouble == "alien":
                raise AlienError("a", "b")
            if self.trouble == "die" and multiprocessing.parent_process() is not None:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.trouble == "nan":
                vertices[bad, 7] = np.nan
        if self.skeleton is None:
            return Poses(self.mesh, vertices, control_spec=self.controls, controls=values)
        return Poses(self.mesh, vertices, self.skeleton, bones, self.controls, values)

    @property
    def animation_names(self) -> tuple[str, ...]:
        return ("nod", "shake")

    def animation(self, name: str) -> tuple[np.ndarray, float]:
        values = np.tile([0.0, 0.0, 0.5, 2.0], (11, 1))
        values[:, ("nod", "shake").index(name)] = np.linspace(-20, 20, 11)
        return values, 24.0


class AlienError(Exception):
    """An error that cannot be unpickled, as some libraries' are."""

    def __init__(self, one, two):
        super().__init__("alien")
