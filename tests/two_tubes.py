"""A rig of three separate meshes: a body tube, a sleeve around it, and single-vertex buttons."""

from dataclasses import replace

import numpy as np

from understudy import Mesh, Poses
from understudy.rigs.tube import TubeRig


class DressedTube:
    """`tube` as `body`, a wider copy as `sleeve`, five loose vertices as `dust`."""

    name = "dressed"

    def __init__(self):
        self._tube = TubeRig()
        self.skeleton, self.controls = self._tube.skeleton, self._tube.controls
        self.animation_names, self.animation = self._tube.animation_names, self._tube.animation
        inner = self._tube.mesh
        count = inner.vertex_count
        self._dust = np.arange(0, 50, 10)
        outer, dust = self._wider(inner.vertices[None])[0], inner.vertices[self._dust] * [2, 1, 2]
        self.mesh = Mesh(
            np.concatenate([inner.vertices, outer, dust]),
            np.tile(inner.polygon_sizes, 2),
            np.concatenate([inner.polygon_vertices, inner.polygon_vertices + count]),
            corner_uvs=np.tile(inner.corner_uvs, (2, 1)),
            materials=("skin", "cloth"),
            polygon_material=np.repeat([0, 1], len(inner.polygon_sizes)),
            parts={
                "body": np.arange(count),
                "sleeve": np.arange(count, 2 * count),
                "dust": np.arange(2 * count, 2 * count + 5),
            },
            unit="cm",
        )

    @staticmethod
    def _wider(vertices):
        """Vertices (T,V,3) pushed away from the middle of their ring."""
        rings = vertices.reshape(len(vertices), -1, 8, 3)
        middle = rings.mean(axis=2, keepdims=True)
        return (middle + 1.3 * (rings - middle)).reshape(vertices.shape)

    def evaluate(self, values) -> Poses:
        poses = self._tube.evaluate(values)
        inner = poses.vertices
        dust = inner[:, self._dust] * [2, 1, 2]
        vertices = np.concatenate([inner, self._wider(inner), dust], axis=1)
        return replace(poses, mesh=self.mesh, vertices=vertices)
