"""Key point subspace acceleration (Meyer & Anderson 2007), as section 4.4.1 of the differential
paper runs it: an oracle, not a stand-in.

A PCA basis U of the displacements, and key points K whose true places the original rig computes for
every pose; the rest of the mesh follows by least squares:

    c = argmin |U_K c - (d_K - mean_K)|^2 + small |c|^2,        d = mean + U c

It reads the answer at the key points, so it needs the rig at run time and cannot be a `Deformer`.
Its row tells how much a linear subspace could know.

Departure: key points are the pivots of a QR of the basis (`differential.anchors`), where Meyer and
Anderson rotate the basis and take its largest entries: both look for points that determine the
coefficients. Displacements are taken before skinning, so that the head's motion costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.geometry.pca import principal_components
from understudy.methods.differential.anchors import pivot_anchors
from understudy.methods.skin_fitting.displacements import displacements_at

_BASIS_POSES = 2000
_SMALL = 1e-6  # of the largest square in U_K^T U_K


@dataclass(frozen=True, eq=False)
class Kpsa:
    """Fitted: key_points (n,), basis U (3V,P), mean (3V,), pull (P,3n) the least-squares inverse of
    U_K.
    """

    skin: Skin | None
    key_points: np.ndarray
    basis: np.ndarray
    mean: np.ndarray
    pull: np.ndarray

    def deform(self, poses: Poses) -> np.ndarray:
        """(T,V,3) float32 from the true key points of `poses`."""
        true = displacements_at(poses, self.skin, np.arange(poses.pose_count))
        rows = (self.key_points[:, None] * 3 + np.arange(3)).reshape(-1)
        c = (true[:, self.key_points].reshape(len(true), -1) - self.mean[rows]) @ self.pull.T
        d = (self.mean + c @ self.basis.T).reshape(len(true), -1, 3).astype(np.float32)
        plain = Deformer(poses.mesh, poses.skeleton, poses.control_spec, self.skin)
        if self.skin is None:
            return poses.mesh.vertices + d
        return plain.deform_displaced(poses.world_from_bone, d)


def fit(poses: Poses, skin: Skin | None, key_points: int = 274, components: int = 200) -> Kpsa:
    """Basis and key points from `poses`, displaced against `skin`; the paper's numbers by
    default.
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
    whole = np.zeros(poses.vertex_count, int)
    chosen = pivot_anchors(
        directions * sizes,
        poses.mesh.vertices.astype(np.float64),
        whole,
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
