"""`PartRig`: a rig with some of its vertices, for a fit of some parts of a character."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from understudy.core.parts import part_vertices, submesh, take_vertices
from understudy.core.poses import Poses
from understudy.rigs.base import (
    PerturbableRig,
    Rig,
    animation_curves,
    animation_names,
    evaluate_batches,
    name_of,
)


class PartRig:
    """The same rig with some of its vertices.

    rig   the whole
    kept  (n,) vertices
    """

    def __init__(self, rig: Rig, kept: np.ndarray):
        self._rig, self._kept = rig, np.asarray(kept)
        self.name, self.skeleton, self.controls = name_of(rig), rig.skeleton, rig.controls
        self.animation_names = animation_names(rig)
        self.mesh = submesh(rig.mesh, self._kept)
        if isinstance(rig, PerturbableRig):
            # An attribute of the instance: a rig that cannot be perturbed must not have it.
            self.evaluate_offset = self._evaluate_offset

    def animation(self, name: str) -> tuple[np.ndarray, float]:
        """Control curves (T,C) of one animation, and its frame rate."""
        return animation_curves(self._rig, name)

    def evaluate(self, values: np.ndarray) -> Poses:
        """The poses at control values (T,C)."""
        return take_vertices(self._rig.evaluate(values), self._kept)

    def evaluate_batches(self, batches: Iterable[np.ndarray]) -> Iterator[Poses]:
        """Yield the poses of each batch of control values (T,C)."""
        for poses in evaluate_batches(self._rig, batches):
            yield take_vertices(poses, self._kept)

    def _evaluate_offset(self, values: np.ndarray, rest_offset: np.ndarray) -> Poses:
        """As `evaluate`, with `rest_offset` (n,3) added to the kept rest vertices first."""
        assert isinstance(self._rig, PerturbableRig)
        offset = np.zeros((self._rig.mesh.vertex_count, 3), rest_offset.dtype)
        offset[self._kept] = rest_offset
        return take_vertices(self._rig.evaluate_offset(values, offset), self._kept)


def rig_without_parts(rig: Rig, names: Sequence[str]) -> Rig:
    """The rig without the parts in `names`; parts that its mesh does not have are ignored."""
    absent = [name for name in names if name in rig.mesh.parts]
    if not absent:
        return rig
    gone = part_vertices(rig.mesh, absent)
    return PartRig(rig, np.setdiff1d(np.arange(rig.mesh.vertex_count), gone))
