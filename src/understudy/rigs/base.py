"""`Rig`: a black box from control values to a skeleton and a mesh. Methods see nothing else of it.

What a rig must have is `Rig`. What it may have besides is one small protocol each: `NamedRig`,
`AnimatedRig`, `SkinnedRig`, `LocalRig`, `PerturbableRig`, `ExternalRig`. Code that uses such a part
checks for it with `isinstance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.system import checks
from understudy.system.errors import InputError

SAME = 1e-5  # of the size of a mesh: what machines round differently


@runtime_checkable
class Rig(Protocol):
    """What every rig has: built in, from a plug-in, or a user's own class."""

    @property
    def mesh(self) -> Mesh:
        """The mesh in the rest pose."""

    @property
    def skeleton(self) -> Skeleton | None:
        """The bones, or None where the mesh is driven by controls alone."""

    @property
    def controls(self) -> ControlSpec:
        """Names, ranges and limits of the C controls."""

    def evaluate(self, values: np.ndarray) -> Poses:
        """The T poses at control values (T,C).

        A value outside the rig's limits is an error that names the control;
        `ControlSpec.check` raises it.
        """


@runtime_checkable
class NamedRig(Rig, Protocol):
    """A rig with a name for reports; `name_of` falls back to the class name."""

    @property
    def name(self) -> str:
        """What reports and progress bars call the rig."""


@runtime_checkable
class AnimatedRig(Rig, Protocol):
    """A rig that comes with animations, to measure on or to sample around."""

    @property
    def animation_names(self) -> tuple[str, ...]:
        """The animations of the rig."""

    def animation(self, name: str) -> tuple[np.ndarray, float]:
        """Control curves (T,C) of one animation, and its frame rate."""


@runtime_checkable
class SkinnedRig(Rig, Protocol):
    """A rig that says with which weights its bones carry the mesh, before other deformers act."""

    @property
    def skin(self) -> Skin | None:
        """The weights of the rig's file, or None where they cannot be told."""


@runtime_checkable
class LocalRig(Rig, Protocol):
    """A rig that says where its controls act, and which of them are switches."""

    @property
    def deforms(self) -> np.ndarray | None:
        """(2,C,Q) which patches of the mesh each control deforms, other than rigidly.

        First with the switches at rest, then with all of them at their other ends.
        """

    @property
    def switches(self) -> np.ndarray | None:
        """(C,) which controls are switches, such as between IK and FK: at rest or at an end."""


@runtime_checkable
class PerturbableRig(Rig, Protocol):
    """A rig whose rest vertices can be moved, to find the skinning transform of each vertex."""

    def evaluate_offset(self, values: np.ndarray, rest_offset: np.ndarray) -> Poses:
        """As `evaluate`, with `rest_offset` (V,3) added to the rest vertices first."""


@runtime_checkable
class ExternalRig(Rig, Protocol):
    """A rig that another program evaluates, in a process of its own.

    `evaluate` replaces a process that died. Several siblings can be evaluated at the same time, by
    threads of this process.
    """

    def sibling(self) -> ExternalRig:
        """The same rig with a process of its own."""

    def close(self) -> None:
        """End the process; an `evaluate` that waits for it raises."""


def evaluate_batches(rig: Rig, batches: Iterable[np.ndarray]) -> Iterator[Poses]:
    """Yield the poses of each batch of control values (T,C); a rig may evaluate several at once."""
    several = getattr(rig, "evaluate_batches", None)
    yield from map(rig.evaluate, batches) if several is None else several(batches)


def elsewhere(then: Poses, now: Poses) -> str:
    """Where two evaluations of the same poses differ by more than rounding; empty: nowhere.

    then, now  with bones if the rig has any
    """
    size = float(np.abs(then.read_poses(0, then.pose_count)).max(initial=0))

    def points(poses: Poses) -> np.ndarray:  # vertices, joints, and what is far on their axes
        vertices, bones = poses.read_poses(0, poses.pose_count), poses.world_from_bone
        if bones is None:
            return vertices
        ends = np.swapaxes(bones * [size, size, size, 1], 2, 3)  # (T,B,4,3)
        return np.concatenate([vertices, ends.reshape(len(ends), -1, 3)], axis=1)

    gap = np.linalg.norm(points(then) - points(now), axis=2).max(axis=0)
    # A vertex is named where one moved: bones move more of them.
    for first, what, most in ((0, "vertex", then.vertex_count), (then.vertex_count, "bone", None)):
        part = gap[first:most]
        if part.max(initial=0) > SAME * size:
            worst = int(np.argmax(part))
            name = (
                worst if what == "vertex" else repr(then.need_skeleton("a rig").names[worst // 4])
            )
            return f"{what} {name} by {float(f'{part[worst]:.2g}')} {then.mesh.unit}"
    return ""


def name_of(rig: Rig) -> str:
    """The rig's name, or the name of its class."""
    return rig.name if isinstance(rig, NamedRig) else type(rig).__name__


def skin_of(rig: Rig) -> Skin | None:
    """The weights that the rig itself has; None where it does not say."""
    return rig.skin if isinstance(rig, SkinnedRig) else None


def animation_names(rig: Rig) -> tuple[str, ...]:
    """The names of the rig's animations; empty where it has none."""
    return tuple(rig.animation_names) if isinstance(rig, AnimatedRig) else ()


def animation_curves(rig: Rig, name: str) -> tuple[np.ndarray, float]:
    """Control curves (T,C) of one of the rig's animations, and its frame rate."""
    if not isinstance(rig, AnimatedRig):
        raise InputError(f"the rig {name_of(rig)!r} has no animations, so none is called {name!r}")
    return rig.animation(checks.one_of(name, "animation", rig.animation_names))


def animate(rig: Rig, name: str, first: int = 0) -> Poses:
    """The poses of one of the rig's animations, from frame `first`."""
    values, frame_rate = animation_curves(rig, name)
    return replace(rig.evaluate(values[first:]), frame_rate=frame_rate, name=name)
