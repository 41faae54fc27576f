"""Corrective shapes of the human: body regions, tools to build displacement fields, and drivers.

A corrective is one fixed displacement field in rest space times one smooth number per pose:

    d_i(pose) = sum over correctives k of  (g_k(pose) - g_k(rest)) * field_k,i

The driver g_k reads only the bones (joint angles and stretches) and the numeric controls, so the
mesh is a function of bones and numeric controls. Subtracting g_k(rest) makes the rest pose exact.
Fields are stored sparse: one product evaluates all of them.

Joint angles. The rotation of a bone relative to its parent since rest, q = q_swing q_twist, is
split at the bone's own y axis:

    twist = 2 atan2(q_y, q_w);   swing vector = (flex, side) = angle * axis, with the axis in the
                                 bone's x-z plane

This is smooth up to half a turn and mirrors well: flex is equal on both sides, side and twist
change sign. Drivers of paired correctives are written once, for the left side; on the right side
they see side and twist with the opposite sign.

Letters: T poses, V vertices, B bones, K correctives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse

from understudy_characters.human.anatomy import Anatomy
from understudy_characters.human.skeleton_system import MIRROR
from understudy_characters.quad_mesh import quad_normals, quad_smoothing

# Scales all correctives but expressions; 1 looks exaggerated, 0.75 like a fit man.
STRENGTH = 0.75
_NEGLIGIBLE = 1e-4  # cm: smaller displacements are dropped, which keeps the fields sparse
STAGES = ("muscle", "volume", "slide", "crease", "twist", "stretch", "breath", "expression")


def smoothstep(x: np.ndarray, start: float, stop: float) -> np.ndarray:
    """A smooth step from 0 at `start` to 1 at `stop`; angles are in degrees, as in all drivers."""
    s = np.clip((x - start) / (stop - start), 0.0, 1.0)
    return s * s * (3.0 - 2.0 * s)


def saturate(x: np.ndarray, scale: float) -> np.ndarray:
    """tanh(x / scale): proportional for small x, constant for large x, as loose skin moves."""
    return np.tanh(x / scale)


def soft_ramp(x: np.ndarray, scale: float) -> np.ndarray:
    """A smooth positive part in units of `scale`: 0 far below zero, x / scale far above."""
    return np.logaddexp(0.0, 3.0 * x / scale) / 3.0


@dataclass(frozen=True, eq=False)
class DriverInputs:
    """What a driver can read, for T poses.

    bones      bone name -> index
    angles     (T,B,3) degrees: flex, side, twist
    stretches  (T,B) length relative to rest
    numeric    numeric control -> (T,)
    suffix     the side that paired bones are taken from: ".L", ".R" or ""
    """

    bones: dict[str, int]
    angles: np.ndarray
    stretches: np.ndarray
    numeric: dict[str, np.ndarray]
    suffix: str = ""

    def flex(self, *bones: str) -> np.ndarray:
        """(T,) degrees of flexion, summed over the bones."""
        return self._sum(bones, 0)

    def side(self, *bones: str) -> np.ndarray:
        """(T,) degrees of sideways bending, summed over the bones."""
        return self._sum(bones, 1)

    def twist(self, *bones: str) -> np.ndarray:
        """(T,) degrees of twist, summed over the bones."""
        return self._sum(bones, 2)

    def stretch(self, bone: str) -> np.ndarray:
        """(T,) length of a bone relative to rest."""
        return self.stretches[:, self._at(bone)]

    def __getitem__(self, control: str) -> np.ndarray:
        """(T,) a numeric control."""
        return self.numeric[control]

    def _at(self, bone: str) -> int:
        sided = bone + self.suffix
        return self.bones[sided if sided in self.bones else bone]

    def _sum(self, bones: tuple[str, ...], part: int) -> np.ndarray:
        sign = -1.0 if self.suffix == ".R" and part else 1.0
        angles = (self.angles[:, self._at(bone), part] for bone in bones)
        return sign * sum(angles, np.zeros(()))

    def seen_from(self, suffix: str) -> DriverInputs:
        """The same inputs for one side (".L" or ".R") or for the middle ("")."""
        return DriverInputs(self.bones, self.angles, self.stretches, self.numeric, suffix)


Driver = Callable[[DriverInputs], np.ndarray]


class Corrective(NamedTuple):
    """One corrective shape.

    stage   one of `STAGES`
    name    unique within its stage
    field   (V,3) cm in rest space
    driver  gives the amount of the field per pose
    side    which side the driver looks at: ".L", ".R" or ""
    """

    stage: str
    name: str
    field: np.ndarray
    driver: Driver
    side: str


@dataclass(frozen=True, eq=False)
class Region:
    """A part of the body around an axis.

    u       (V,) position along the axis, 0 at its start and 1 at its end
    radial  (V,3) from the axis to the vertex, `radius` (V,) long
    mask    (V,) 0 to 1, how much a vertex belongs to the region
    start   (3,) where the axis starts; axis (3,) its direction; length in cm
    side    (3,) direction of the hinge, square to the axis
    fold    (3,) direction that positive flexion folds to, square to both
    """

    u: np.ndarray
    radial: np.ndarray
    radius: np.ndarray
    mask: np.ndarray
    start: np.ndarray
    axis: np.ndarray
    length: float
    side: np.ndarray
    fold: np.ndarray

    def toward(self, direction: np.ndarray, sharp: float = 1.0) -> np.ndarray:
        """(V,) 1 on the side that faces `direction` (3,), 0 on the opposite side."""
        cosine = self.radial @ direction / np.maximum(self.radius, 1e-6)
        return np.clip(0.5 + 0.5 * cosine, 0.0, 1.0) ** sharp

    def band(self, centre: float, width: float) -> np.ndarray:
        """(V,) a Gaussian along the axis; centre and width are relative to the length."""
        return np.exp(-(((self.u - centre) / width) ** 2))


class CorrectiveBuilder:
    """Collects correctives, and has the tools to build their fields.

    Fields are given for the left side or the middle; `add_pair` adds the mirrored right one.
    """

    def __init__(self, anatomy: Anatomy, frames: np.ndarray):
        self.anatomy, self.frames = anatomy, frames
        self.points = anatomy.vertices
        self.bones = {name: b for b, name in enumerate(anatomy.bone_names)}
        self.normals = quad_normals(self.points, anatomy.quads)
        self.smoother = quad_smoothing(anatomy.quads, len(self.points))
        self.weights = anatomy.weights.tocsc()
        self.correctives: list[Corrective] = []

    def weight(self, names: Iterable[str]) -> np.ndarray:
        """(V,) summed skin weights of some bones."""
        return np.asarray(self.weights[:, [self.bones[name] for name in names]].sum(axis=1)).ravel()

    def head(self, bone: str) -> np.ndarray:
        """(3,) where a bone starts at rest."""
        return self.anatomy.bone_heads[self.bones[bone]]

    def axes(self, bone: str) -> np.ndarray:
        """(3,3) rows: the directions of the bone's x (hinge), y (along) and z at rest."""
        return self.frames[self.bones[bone]].T

    def region(
        self,
        start: str | np.ndarray,
        stop: str | np.ndarray,
        frame: str,
        names: Iterable[str],
        rounds: int = 4,
    ) -> Region:
        """The region between two points of the body.

        start, stop  names of bones whose heads are the ends of the axis, or points (3,)
        frame        the bone whose frame gives the hinge
        names        the bones whose summed weights are the mask
        rounds       of smoothing of the mask
        """
        a = self.head(start) if isinstance(start, str) else start
        b = self.head(stop) if isinstance(stop, str) else stop
        length = float(np.linalg.norm(b - a))
        axis = (b - a) / length
        along = (self.points - a) @ axis
        radial = self.points - a - along[:, None] * axis
        side = self.axes(frame)[0]
        side = side - axis * (side @ axis)
        side /= np.linalg.norm(side)
        mask = self.smooth(self.weight(names), rounds)
        return Region(
            along / length,
            radial,
            np.linalg.norm(radial, axis=1),
            mask,
            a,
            axis,
            length,
            side,
            np.cross(side, axis),
        )

    def smooth(self, field: np.ndarray, rounds: int) -> np.ndarray:
        """A field (V,) or (V,n), smoothed over the mesh."""
        for _ in range(rounds):
            field = self.smoother @ field
        return field

    def outward(self, amount: np.ndarray, rounds: int = 3) -> np.ndarray:
        """(V,3): `amount` (V,) cm along the normals, smoothed."""
        return self.smooth(amount[:, None] * self.normals, rounds)

    def along_skin(self, amount: np.ndarray, direction: np.ndarray, rounds: int = 3) -> np.ndarray:
        """(V,3): `amount` (V,) cm along `direction`, within the surface, smoothed.

        direction  (3,) or (V,3); its part along the normal is removed, so the skin does not lift
        """
        direction = np.broadcast_to(direction, self.points.shape)
        tangent = direction - self.normals * np.sum(direction * self.normals, axis=1, keepdims=True)
        return self.smooth(amount[:, None] * tangent, rounds)

    def target(
        self, name: str, mask: np.ndarray | float = 1.0, peak: float | None = None
    ) -> np.ndarray:
        """(V,3): a MakeHuman target, smoothed.

        mask  (V,) factor of each vertex
        peak  cm that the largest displacement is scaled to; None: as in the file
        """
        field = self.smooth(
            self.anatomy.target(name) * np.broadcast_to(mask, len(self.points))[:, None], 2
        )
        return field if peak is None else field * (peak / np.linalg.norm(field, axis=1).max())

    def add_symmetric(self, stage: str, name: str, field: np.ndarray, driver: Driver) -> None:
        """Add a corrective of the middle; its field (V,3) is made symmetric."""
        field = 0.5 * (field + field[self.anatomy.mirror_vertex] * MIRROR)
        self.correctives.append(Corrective(stage, name, field, driver, ""))

    def add_antisymmetric(self, stage: str, name: str, field: np.ndarray, driver: Driver) -> None:
        """Add a corrective of the middle whose driver changes sign in the mirror (twist, side).

        Its field (V,3) is made antisymmetric.
        """
        field = 0.5 * (field - field[self.anatomy.mirror_vertex] * MIRROR)
        self.correctives.append(Corrective(stage, name, field, driver, ""))

    def add_pair(self, stage: str, name: str, field: np.ndarray, driver: Driver) -> None:
        """Add a corrective of the left side, with field (V,3), and its mirror image."""
        mirrored = field[self.anatomy.mirror_vertex] * MIRROR
        self.correctives.append(Corrective(stage, f"{name}.L", field, driver, ".L"))
        self.correctives.append(Corrective(stage, f"{name}.R", mirrored, driver, ".R"))

    def matrix(self) -> sparse.csr_matrix:
        """(3V,K) float32: all fields, one column each."""
        rows, columns, values = [], [], []
        for k, corrective in enumerate(self.correctives):
            field = corrective.field
            used = np.flatnonzero((np.abs(field) > _NEGLIGIBLE).any(axis=1))
            rows.append((3 * used[:, None] + np.arange(3)).ravel())
            columns.append(np.full(3 * len(used), k))
            strength = 1.0 if corrective.stage == "expression" else STRENGTH
            values.append(field[used].ravel() * strength)
        place = (np.concatenate(rows), np.concatenate(columns))
        return sparse.csr_matrix(
            (np.concatenate(values).astype(np.float32), place),
            shape=(self.points.size, len(self.correctives)),
        )
