"""What a channel of a Blender rig does to the mesh and the bones, found by moving it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from understudy.core.skin import Skin
from understudy.geometry.skinning import dual_quaternion_blend, linear_blend
from understudy.geometry.transforms import apply, compose, inverse
from understudy.system.progress import Task

Channel = Mapping[str, Any]
Evaluate = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]

_BATCH = 16
STILL = 1e-5  # of the size of the mesh: vertices that move less stand still
_APART = 1e-3  # difference of two bones that do not move as one: of the rotation, of the size
# Bones whose length changes by less keep their length: by this, or by this share of how far they
# turn. A foot that moves aside also stretches a straight leg a little.
_SCALED, _SCALED_PER_TURN = 2e-3, 0.06
_REGION = 0.05  # of the largest motion: vertices that move more are the region of a control
_PATCHES = 256  # of the mesh
_STRAIN = 0.15  # of the largest: patches whose edges are strained by more are deformed
_MOST = 0.95  # of the edges of these patches
_UNEXPLAINED = 1e-4  # of the size: a control is numeric if skinning misses its motion by more
STEPS = {"location": 0.01, "rotation": 10.0, "scale": 0.2}  # location: of the size


@dataclass(frozen=True)
class RestState:
    """A rig at rest.

    vertices  (V,3), edges (E,2) and bones (B,3,4) of the bind pose
    names     of the bones, and parents (B,)
    size      of the mesh
    unit      of lengths
    skin      the weights of the file, or None where they do not apply
    """

    vertices: np.ndarray
    edges: np.ndarray
    bones: np.ndarray
    names: Sequence[str]
    parents: np.ndarray
    size: float
    unit: str
    skin: Skin | None

    @cached_property
    def pairs(self) -> np.ndarray:
        """Bones (P,2) that share vertices, or are parent and child."""
        child = np.flatnonzero(self.parents >= 0)
        found = [np.stack([child, self.parents[child]], axis=1)]
        if self.skin is not None:
            index, first = self.skin.bone_index, self.skin.bone_index[:, :1]
            shared = (self.skin.weight > 0) & (index != first)
            found.append(np.stack([index[shared], np.broadcast_to(first, index.shape)[shared]], 1))
        return np.unique(np.sort(np.concatenate(found), axis=1), axis=0)

    @cached_property
    def patches(self) -> np.ndarray:
        """(V,) the patch of each vertex: at most `_PATCHES`, of about equal numbers of vertices."""
        patch = np.zeros(len(self.vertices), np.int64)
        parts = [np.arange(len(self.vertices))]
        while len(parts) < _PATCHES and len(parts[0]) > 1:
            parts = [half for part in parts for half in _halves(self.vertices, part)]
        for number, part in enumerate(parts):
            patch[part] = number
        return patch

    @cached_property
    def used(self) -> np.ndarray:
        """(B,) which bones deform the mesh, as far as the weights say."""
        if self.skin is None:
            return np.ones(len(self.bones), bool)
        used = np.zeros(len(self.bones), bool)
        used[self.skin.bone_index[self.skin.weight > 0]] = True
        return used


def _halves(vertices: np.ndarray, part: np.ndarray) -> Sequence[np.ndarray]:
    """Some vertices as two halves, along the axis in which they extend furthest."""
    axis = int(np.ptp(vertices[part], axis=0).argmax())
    return np.array_split(part[np.argsort(vertices[part, axis], kind="stable")], 2)


def factor_of(channel: Channel) -> float:
    """Return what a control's value is multiplied with for Blender: angles are in degrees."""
    return float(np.pi / 180) if channel["kind"] == "rotation" else 1.0


def steps_of(channel: Channel, size: float) -> tuple[float, float]:
    """How far a channel is moved to see what it does, in Blender's units: one way, the other way.

    The first is the larger one; the second is 0 where the range has only one side.
    """
    pair, rest, kind = channel["range"], channel["rest"], channel["kind"]
    if pair is not None:
        near, far = sorted((end - rest for end in pair), key=abs)
        return float(far), float(near)
    if kind == "property":
        return 1.0, -1.0
    step = STEPS[kind] * (size if kind == "location" else factor_of(channel))
    return step, -step


@dataclass(frozen=True)
class Effect:
    """What one channel does.

    moved    largest motion; extent: size of the region that moves, 0 if nothing does
    rigid    whether the whole mesh moves as one body
    numeric  whether it acts other than through the bones
    boneless whether no bone moves
    angle    by how many degrees bones turn relative to others, at most
    scales   whether bones change their length
    apart    (P,) which pairs of bones it moves apart
    deforms  (Q,) which patches of the mesh it deforms, other than rigidly
    strain   by how much edges there become longer or shorter, as a share of their length
    """

    moved: float
    extent: float
    rigid: bool
    numeric: bool
    boneless: bool
    angle: float
    scales: bool
    apart: np.ndarray
    deforms: np.ndarray
    strain: float

    def __bool__(self) -> bool:
        """Whether it moves anything."""
        return self.extent > 0

    @property
    def bends(self) -> bool:
        """Whether bones turn and keep their length, as those of a limb do."""
        return self.angle > 0 and not self.scales


@dataclass(frozen=True)
class Trial:
    """How some channels are tried: rest values (C,), and two steps (C,2), one in each direction."""

    channels: Sequence[Channel]
    values: np.ndarray
    steps: np.ndarray
    measure: _Measure
    evaluate: Evaluate

    @staticmethod
    def of(
        channels: Sequence[Channel],
        rest: RestState,
        use: Callable[[Sequence[Channel]], Evaluate],
    ) -> Trial:
        """The trial of some channels, all others at rest."""
        evaluate = use(channels)
        values = np.array([channel["rest"] for channel in channels], np.float64)
        vertices, bones = (array[0] for array in evaluate(values[None]))
        steps = np.array([steps_of(channel, rest.size) for channel in channels])
        return Trial(channels, values, steps, _Measure(rest, vertices, bones), evaluate)

    def effects(
        self, groups: Sequence[Sequence[int]], task: Task
    ) -> list[tuple[Sequence[int], Effect]]:
        """The effect of each group moved together.

        The other way is tried if the first does nothing, or stretches bones: a torso that goes down
        bends the knees, one that goes up stretches the legs.
        """
        found: dict[int, Effect] = {}
        for way in (0, 1):
            left = [
                k
                for k, group in enumerate(groups)
                if k not in found
                or ((not found[k] or found[k].scales) and self.steps[group, way].any())
            ]
            task.advance(len(groups) - len(left))
            for start in range(0, len(left), _BATCH):
                some = left[start : start + _BATCH]
                rows = np.tile(self.values, (len(some), 1))
                for row, k in zip(rows, some):
                    row[groups[k]] += self.steps[groups[k], way]
                for k, vertices, bones in zip(some, *self.evaluate(rows)):
                    effect = self.measure.effect(vertices, bones, self.channels[groups[k][0]])
                    if k not in found or not found[k] or effect.bends:
                        found[k] = effect
                task.advance(len(some))
        return [(group, found[k]) for k, group in enumerate(groups)]


class _Measure:
    """Compares poses with the rig at rest."""

    def __init__(self, rest: RestState, vertices: np.ndarray, bones: np.ndarray):
        self._rest, self._vertices, self._bones = rest, vertices.astype(np.float64), bones
        self._skinned = self._skin(bones)
        self._length = self._lengths(self._vertices)
        self._patch = rest.patches[rest.edges[:, 0]]

    def effect(self, vertices: np.ndarray, bones: np.ndarray, channel: Channel) -> Effect:
        """The effect of a channel that moved the mesh to `vertices` and the bones to `bones`."""
        motion = vertices - self._vertices
        length = np.linalg.norm(motion, axis=1)
        moved = float(length.max())
        angle, scales, apart = self._apart(bones)
        if moved < STILL * self._rest.size:
            none = np.zeros(int(self._rest.patches.max()) + 1, bool)
            return Effect(moved, 0.0, False, False, False, angle, scales, apart, none, 0.0)
        region = self._rest.vertices[length > _REGION * moved]
        extent = max(moved, float(np.linalg.norm(np.ptp(region, axis=0))))
        change = np.abs(bones - self._bones)
        still = not len(bones) or bool(
            change[:, :, :3].max() < 1e-6 and change[:, :, 3].max() < 1e-6 * self._rest.size
        )
        numeric = still or self._is_numeric(motion, bones, channel)
        rigid = self._is_rigid(vertices, moved)
        deforms, strain = self._deforms(vertices)
        return Effect(moved, extent, rigid, numeric, still, angle, scales, apart, deforms, strain)

    def _deforms(self, vertices: np.ndarray) -> tuple[np.ndarray, float]:
        """(Q,) the patches in which edges change their length, and how much most of them do."""
        strain = np.abs(self._lengths(vertices) - self._length)
        strain /= np.maximum(self._length, STILL * self._rest.size)
        largest = np.zeros(int(self._rest.patches.max()) + 1)
        np.maximum.at(largest, self._patch, strain)
        deforms = largest > _STRAIN * max(largest.max(initial=0.0), STILL)
        inside = strain[deforms[self._patch]]
        return deforms, float(np.quantile(inside, _MOST)) if len(inside) else 0.0

    def _lengths(self, vertices: np.ndarray) -> np.ndarray:
        a, b = self._rest.edges.T
        return np.linalg.norm(vertices[a].astype(np.float64) - vertices[b], axis=1)

    def _apart(self, bones: np.ndarray) -> tuple[float, bool, np.ndarray]:
        """The largest turn of a pair of bones, whether any scales, and (P,) which move apart."""
        pairs = self._rest.pairs
        if not len(pairs):
            return 0.0, False, np.zeros(0, bool)
        change = compose(bones, inverse(self._bones))
        length = np.linalg.norm(change[..., :3], axis=1)  # (B,3), of the axes
        turn = change[..., :3] / np.maximum(length, 1e-12)[:, None]
        turned = np.abs(turn[pairs[:, 0]] - turn[pairs[:, 1]]).max(axis=(1, 2))
        a, b = change[pairs[:, 0]], change[pairs[:, 1]]
        grown = np.abs(a[..., :3] - b[..., :3]).max(axis=(1, 2)) > _APART
        joint = self._bones[pairs[:, 0], :, 3]
        slid = np.abs(apply(a, joint) - apply(b, joint)).max(axis=1) > _APART * self._rest.size
        most = float(turned.max())
        grown_by = float(np.abs(length[self._rest.used] - 1).max(initial=0.0))
        scales = grown_by > max(_SCALED, _SCALED_PER_TURN * most)
        largest = float(np.degrees(most))
        return largest if largest > np.degrees(_APART) else 0.0, scales, grown | slid

    def _is_rigid(self, vertices: np.ndarray, moved: float) -> bool:
        """Whether one rotation and translation explains all motion."""
        before, after = self._vertices, vertices.astype(np.float64)
        a, b = before - before.mean(0), after - after.mean(0)
        u, _, vt = np.linalg.svd(a.T @ b)
        turn = u @ np.diag([1, 1, np.sign(np.linalg.det(u @ vt))]) @ vt
        return bool(np.abs(a @ turn - b).max() < 0.01 * moved)

    def _is_numeric(self, motion: np.ndarray, bones: np.ndarray, channel: Channel) -> bool:
        if channel["kind"] not in ("property", "shape_key"):
            return False
        skinned = self._skin(bones)
        if skinned is None or self._skinned is None:
            return channel["kind"] == "shape_key"
        left = np.linalg.norm(motion - (skinned - self._skinned), axis=1)
        return bool(left.max() > _UNEXPLAINED * self._rest.size)

    def _skin(self, bones: np.ndarray) -> np.ndarray | None:
        """The rest vertices skinned by `bones` with the weights of the file."""
        rest, skin = self._rest, self._rest.skin
        if skin is None or not len(bones):
            return None
        moves = compose(bones, inverse(rest.bones))[None]
        blend = linear_blend if skin.blend == "linear" else dual_quaternion_blend
        return blend(moves, skin.bone_index, skin.weight, rest.vertices)[0]
