"""The sculptor's bench: body regions, tools that shape displacement fields on them, and readings of
the joints that drive them.

A sculpt is one fixed displacement field in rest space times one smooth number per pose:

    d_i(pose) = sum over sculpts k of  (g_k(pose) - g_k(rest)) * field_k,i

g_k reads only the bones (joint angles and stretches, below) and the numeric controls, so the mesh
is a function of bones and numeric controls alone. Subtracting g_k(rest) makes the rest pose exact
whatever the driver. Fields are stored sparse: one product evaluates all of them.

Joint angles. The turn of a bone against its parent since rest, q = q_swing q_twist, split at the
bone's own y axis:

    twist = 2 atan2(q_y, q_w);   swing vector = (flex, side) = angle * axis, with the axis in the
                                 bone's x-z plane

This is smooth up to a half turn and mirrors cleanly: flex is equal on both sides, side and twist
change sign. Drivers of paired sculpts are written once, for the left, and see the right side with
those signs undone.

Letters: T poses, V vertices, B bones, K sculpts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse

from understudy.geometry.adjacency import adjacency_matrix, polygon_edges
from understudy.geometry.laplacian import smoothing_matrix
from understudy.geometry.normals import quad_vertex_normals
from understudy.rigs.human.anatomy import Anatomy
from understudy.rigs.human.skeleton_system import MIRROR

# one dial for the size of every sculpt of the body; 1 reads as caricature, 0.75 as a fit man
STRENGTH = 0.75
STAGES = ("muscle", "volume", "slide", "crease", "twist", "stretch", "breath", "expression")


def rise(x: np.ndarray, start: float, stop: float) -> np.ndarray:
    """Smoothstep from 0 at `start` to 1 at `stop`; C1 everywhere. Angles in degrees, as everywhere
    in the drivers.
    """
    s = np.clip((x - start) / (stop - start), 0.0, 1.0)
    return s * s * (3.0 - 2.0 * s)


def saturate(x: np.ndarray, scale: float) -> np.ndarray:
    """tanh(x / scale): proportional while small, at rest once large, as loose skin is."""
    return np.tanh(x / scale)


def above(x: np.ndarray, scale: float) -> np.ndarray:
    """A smooth positive part in units of `scale`: 0 far below zero, x / scale far above."""
    return np.logaddexp(0.0, 3.0 * x / scale) / 3.0


@dataclass(frozen=True, eq=False)
class Readings:
    """What the drivers may look at, for T poses. angles (T,B,3) degrees flex, side, twist; stretch
    (T,B); numeric name -> (T,).
    """

    bones: dict[str, int]
    angles: np.ndarray
    stretches: np.ndarray
    numeric: dict[str, np.ndarray]
    suffix: str = ""

    def _at(self, bone: str) -> int:
        return (
            self.bones[bone + self.suffix] if bone + self.suffix in self.bones else self.bones[bone]
        )

    def _sum(self, bones: tuple[str, ...], part: int) -> np.ndarray:
        sign = -1.0 if self.suffix == ".R" and part else 1.0
        return sign * sum(self.angles[:, self._at(bone), part] for bone in bones)

    def flex(self, *bones: str) -> np.ndarray:
        return self._sum(bones, 0)

    def side(self, *bones: str) -> np.ndarray:
        return self._sum(bones, 1)

    def twist(self, *bones: str) -> np.ndarray:
        return self._sum(bones, 2)

    def stretch(self, bone: str) -> np.ndarray:
        return self.stretches[:, self._at(bone)]

    def __getitem__(self, control: str) -> np.ndarray:
        return self.numeric[control]

    def on(self, suffix: str) -> Readings:
        """The same readings as seen from one side (".L", ".R") or from the middle ("")."""
        return Readings(self.bones, self.angles, self.stretches, self.numeric, suffix)


Driver = Callable[[Readings], np.ndarray]


@dataclass(frozen=True, eq=False)
class Region:
    """A stretch of the body around an axis. u (V,) runs 0..1 from its start to its end; radial
    (V,3) points away from the axis, `radius` (V,) long; mask (V,) in 0..1 says how much a vertex
    belongs to it; side, fold (3,) are unit directions square to the axis: the hinge, and the way
    positive flexion folds.
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
        """(V,) 1 on the side that faces `direction`, 0 on the far side."""
        cosine = self.radial @ direction / np.maximum(self.radius, 1e-6)
        return np.clip(0.5 + 0.5 * cosine, 0.0, 1.0) ** sharp

    def band(self, centre: float, width: float) -> np.ndarray:
        """(V,) a Gaussian along the axis, in units of the region's length."""
        return np.exp(-(((self.u - centre) / width) ** 2))


class Bench:
    """Collects sculpts. Shapes are given for the left side or the middle; `pair` adds the mirrored
    right one.
    """

    def __init__(self, anatomy: Anatomy, frames: np.ndarray):
        self.anatomy, self.frames = anatomy, frames
        self.points = anatomy.vertices
        self.bones = {name: b for b, name in enumerate(anatomy.bone_names)}
        self.normals = quad_vertex_normals(self.points, anatomy.quads)
        edges = polygon_edges(np.full(len(anatomy.quads), 4), anatomy.quads.reshape(-1))
        self.smoother = smoothing_matrix(adjacency_matrix(edges, len(self.points)))
        self.weights = anatomy.weights.tocsc()
        self.entries: list[tuple[str, str, np.ndarray, Driver, str]] = []

    def weight(self, names: Iterable[str]) -> np.ndarray:
        """(V,) summed skin weights of some bones."""
        return np.asarray(self.weights[:, [self.bones[name] for name in names]].sum(axis=1)).ravel()

    def head(self, bone: str) -> np.ndarray:
        return self.anatomy.bone_heads[self.bones[bone]]

    def axes(self, bone: str) -> np.ndarray:
        """(3,3): rows are the bone's x (hinge), y (along), z at rest."""
        return self.frames[self.bones[bone]].T

    def region(
        self,
        start: str | np.ndarray,
        stop: str | np.ndarray,
        frame: str,
        names: Iterable[str],
        rounds: int = 4,
    ) -> Region:
        """Between the heads of two bones (or two points), with hinge and fold from the frame of a
        third, masked by the weights of `names`.
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
        """A field (V,) or (V,n) evened out over the mesh."""
        for _ in range(rounds):
            field = self.smoother @ field
        return field

    def outward(self, amount: np.ndarray, rounds: int = 3) -> np.ndarray:
        """(V,3): `amount` (V,) along the normals, evened out so that a bulge has no corners."""
        return self.smooth(amount[:, None] * self.normals, rounds)

    def along_skin(self, amount: np.ndarray, direction: np.ndarray, rounds: int = 3) -> np.ndarray:
        """(V,3): `amount` (V,) along `direction` (3,) or (V,3), less its part along the normal:
        skin slides, it does not lift.
        """
        direction = np.broadcast_to(direction, self.points.shape)
        tangent = direction - self.normals * np.sum(direction * self.normals, axis=1, keepdims=True)
        return self.smooth(amount[:, None] * tangent, rounds)

    def target(
        self, name: str, mask: np.ndarray | float = 1.0, peak: float | None = None
    ) -> np.ndarray:
        """(V,3): a MakeHuman target times `mask`, evened out, scaled to `peak` cm at its largest
        where given.
        """
        field = self.smooth(
            self.anatomy.target(name) * np.broadcast_to(mask, len(self.points))[:, None], 2
        )
        return field if peak is None else field * (peak / np.linalg.norm(field, axis=1).max())

    def middle(self, stage: str, name: str, field: np.ndarray, driver: Driver) -> None:
        """A sculpt of the middle: made symmetric, driven without side."""
        field = 0.5 * (field + field[self.anatomy.mirror_vertex] * MIRROR)
        self.entries.append((stage, name, field, driver, ""))

    def odd(self, stage: str, name: str, field: np.ndarray, driver: Driver) -> None:
        """A sculpt of the middle whose driver changes sign in the mirror (twist, side): made
        antisymmetric.
        """
        field = 0.5 * (field - field[self.anatomy.mirror_vertex] * MIRROR)
        self.entries.append((stage, name, field, driver, ""))

    def pair(self, stage: str, name: str, field: np.ndarray, driver: Driver) -> None:
        """A sculpt of the left and its mirror on the right."""
        self.entries.append((stage, f"{name}.L", field, driver, ".L"))
        self.entries.append(
            (stage, f"{name}.R", field[self.anatomy.mirror_vertex] * MIRROR, driver, ".R")
        )

    def matrix(self) -> tuple[sparse.csr_matrix, list[tuple[Driver, str]]]:
        """The fields as one (3V,K) CSR float32, and their drivers with the side each looks from."""
        rows, columns, values = [], [], []
        for k, (stage, _, field, _, _) in enumerate(self.entries):
            size = np.abs(field)
            used = np.flatnonzero(
                (size[:, 0] > 1e-4) | (size[:, 1] > 1e-4) | (size[:, 2] > 1e-4)
            )  # a micron: keep it sparse and local
            rows.append((3 * used[:, None] + np.arange(3)).ravel())
            columns.append(np.full(3 * len(used), k))
            values.append(field[used].ravel() * (1.0 if stage == "expression" else STRENGTH))
        place = (np.concatenate(rows), np.concatenate(columns))
        matrix = sparse.csr_matrix(
            (np.concatenate(values).astype(np.float32), place),
            shape=(self.points.size, len(self.entries)),
        )
        return matrix, [(driver, suffix) for _, _, _, driver, suffix in self.entries]
