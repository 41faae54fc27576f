"""Key point subspace acceleration: an oracle that reads the true positions of some vertices.

Meyer and Anderson 2007, as section 4.4.1 of the differential paper runs it. U is a PCA basis of the
displacements and K are key points, whose true positions the original rig computes for every pose.
The rest of the mesh follows by least squares:

    c = argmin |U_K c - (d_K - mean_K)|^2 + small |c|^2,        d = mean + U c

It needs the rig at run time, so it cannot be a `Deformer`. Its row shows how much a linear subspace
can represent.

Departures:
- Key points are the pivots of a QR of the basis (`differential.anchors`). Meyer and Anderson rotate
  the basis and take its largest entries. Both look for points that determine the coefficients.
- Displacements are taken before skinning, so that the motion of the head needs no components.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.geometry.pca import principal_components
from understudy.methods.correctives.regions import pivot_anchors
from understudy.methods.skin_fitting.displacements import displacements_at
from understudy.system import checks

_BASIS_POSES = 2000
_SMALL = 1e-6  # of the largest square in U_K^T U_K


@dataclass(frozen=True, eq=False)
class Kpsa:
    """A fitted subspace.

    skin        that displacements are taken before; None without bones
    key_points  (n,) vertices
    basis       (3V,P) float32, U
    mean        (3V,) float32
    inverse     (P,3n) float32, the least-squares inverse of U_K
    """

    skin: Skin | None
    key_points: np.ndarray
    basis: np.ndarray
    mean: np.ndarray
    inverse: np.ndarray

    def deform(self, poses: Poses) -> np.ndarray:
        """The vertices (T,V,3) float32 from the true key points of `poses`."""
        true = displacements_at(poses, self.skin, np.arange(poses.pose_count))
        rows = (self.key_points[:, None] * 3 + np.arange(3)).reshape(-1)
        c = (true[:, self.key_points].reshape(len(true), -1) - self.mean[rows]) @ self.inverse.T
        d = (self.mean + c @ self.basis.T).reshape(len(true), -1, 3).astype(np.float32)
        if self.skin is None:
            return poses.mesh.vertices + d
        skeleton, world_from_bone = poses.need_bones("kpsa")
        plain = Deformer(poses.mesh, skeleton, poses.control_spec, self.skin)
        return plain.deform_displaced(world_from_bone, d)


def fit(poses: Poses, skin: Skin | None, key_points: int = 274, components: int = 200) -> Kpsa:
    """Find the basis and the key points of `poses`.

    skin        that displacements are taken before; None without bones
    key_points  their number
    components  upper limit of components; both defaults are those of the paper
    """
    checks.between(key_points, "key_points", 1)
    checks.between(components, "components", 1)
    sample = displacements_at(poses, skin, evenly(poses.pose_count, _BASIS_POSES)).reshape(
        -1, 3 * poses.vertex_count
    )
    mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
    directions, sizes = principal_components(
        sample - mean, min(components, len(sample) - 1) if len(sample) > 1 else 1
    )
    one_shell = np.zeros(poses.vertex_count, int)
    chosen = pivot_anchors(
        directions * sizes,
        poses.mesh.vertices.astype(np.float64),
        one_shell,
        min(key_points, poses.vertex_count),
        spread=0.0,
    )
    rows = (chosen[:, None] * 3 + np.arange(3)).reshape(-1)
    known = directions[rows]
    gram = known.T @ known
    gram += _SMALL * max(float(np.diagonal(gram).max(initial=0)), 1e-30) * np.eye(len(gram))
    return Kpsa(
        skin,
        chosen,
        directions.astype(np.float32),
        mean,
        np.linalg.solve(gram, known.T).astype(np.float32),
    )
