"""`Rig`: a black box from control values to a skeleton and a mesh. Methods see only this."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton


@runtime_checkable
class Rig(Protocol):
    """What every rig offers: built-in, Blender, or a user's own class."""

    name: str
    mesh: Mesh
    skeleton: Skeleton | None
    controls: ControlSpec

    def evaluate(self, values: np.ndarray) -> Poses:
        """Control values (T,C) -> T poses. Values outside the rig's limits are an error that names
        the control.
        """

    @property
    def animation_names(self) -> tuple[str, ...]:
        """The animations that come with the rig."""

    def animation(self, name: str) -> tuple[np.ndarray, float]:
        """Control curves (T,C) of one animation, and its frame rate."""


def animate(rig: Rig, name: str) -> Poses:
    """One of the rig's own animations, evaluated."""
    from dataclasses import replace

    values, frame_rate = rig.animation(name)
    return replace(rig.evaluate(values), frame_rate=frame_rate, name=name)
