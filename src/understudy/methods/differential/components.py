"""Principal components of the differential coordinates of a region, and how many are needed.

    delta_g ~ U_g c_g,    c_g = W_g^T delta_g        U_g, W_g (3n,P)

The paper takes the components that explain most of delta, and a fixed fraction of the vertices as
their number. The reconstruction, however, amplifies low frequencies and damps high ones, so a
component that is small in delta may be large in the reconstructed vertices.

Departure (metric `reconstruction`): the components explain most of the reconstructed vertices. With
R_g the columns of S^-1 L_s D that belong to the region, and R_g^T R_g = C^T C,

    V_g = principal components of C delta_g,     U_g = C^-1 V_g,     W_g = C^T V_g

so that |c - c'| is the error of the vertices in model units, and the loss of the networks measures
that error. With C = I (metric `differential`) it is the paper's.

The number of components is a fraction of V, or the smallest that leaves a given mean distance after
reconstruction with exact anchors, by one threshold for all regions.

Letters: T poses, V vertices, n vertices of a region, P components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.geometry.pca import principal_components
from understudy.methods.differential.reconstruction import Reconstruction

_SINGULAR = 1e-9  # eigenvalues of R^T R below this fraction of the largest move nothing
_BISECTIONS = 12


@dataclass(frozen=True, eq=False)
class Components:
    """The components of one region.

    vertices    (n,)
    basis       (3n,P) float64, U
    projection  (3n,P) float64, W
    size        (P,) root mean square of each coefficient, largest first
    """

    vertices: np.ndarray
    basis: np.ndarray
    projection: np.ndarray
    size: np.ndarray

    def first(self, count: int) -> Components:
        """The first `count` components."""
        return Components(
            self.vertices, self.basis[:, :count], self.projection[:, :count], self.size[:count]
        )

    @property
    def count(self) -> int:
        """P, the number of components."""
        return self.basis.shape[1]

    def coefficients(self, delta: np.ndarray) -> np.ndarray:
        """The coefficients of differential coordinates: (T,V,3) -> (T,P)."""
        return delta[:, self.vertices].reshape(len(delta), -1) @ self.projection.astype(delta.dtype)


def region_components(
    delta: np.ndarray,
    vertices: np.ndarray,
    metric: str,
    most: int,
    reconstruction: Reconstruction,
) -> Components:
    """The first `most` components of delta (T,V,3) on `vertices` (n,).

    metric  reconstruction or differential
    """
    local = delta[:, vertices]
    if metric == "differential":
        directions, sizes = principal_components(local.reshape(len(local), -1), most)
        return Components(vertices, directions, directions, sizes / np.sqrt(max(1, len(delta))))
    influence = reconstruction.influence(vertices)
    values, vectors = np.linalg.eigh(influence.T @ influence)
    keep = values > _SINGULAR * max(values[-1], 1e-300)
    root = np.sqrt(values[keep])
    forward, back = root[:, None] * vectors[:, keep].T, vectors[:, keep] / root  # C, C^-1
    if not len(forward):  # a single vertex without an edge has no differential coordinate
        nothing = np.zeros((3 * len(vertices), 0))
        return Components(vertices, nothing, nothing, np.zeros(0))
    mapped = np.einsum("mn,tni->tmi", forward.astype(local.dtype), local, optimize=True)
    directions, sizes = principal_components(mapped.reshape(len(mapped), -1), most)
    shaped = directions.reshape(len(forward), -1)
    return Components(
        vertices,
        (back @ shaped).reshape(3 * len(vertices), -1),
        (forward.T @ shaped).reshape(3 * len(vertices), -1),
        sizes / np.sqrt(max(1, len(delta))),
    )


def truncation_error(
    components: Sequence[Components], delta: np.ndarray, reconstruction: Reconstruction
) -> float:
    """Mean distance per vertex that the components leave of delta (T,V,3), with exact anchors."""
    left = delta.astype(np.float64)
    for part in components:
        kept = part.coefficients(left) @ part.basis.T
        left[:, part.vertices] -= kept.reshape(len(left), -1, 3)
    exact = np.zeros((len(left), len(reconstruction.anchors), 3))
    return float(np.linalg.norm(reconstruction.solve(left, exact), axis=2).mean())


def fewest_components(
    components: Sequence[Components],
    delta: np.ndarray,
    reconstruction: Reconstruction,
    error: float,
) -> list[Components]:
    """The fewest components of each region that leave at most `error`, by one threshold on size.

    All of them where even those leave more.
    """

    def cut(size: float) -> list[Components]:
        return [part.first(int((part.size > size).sum())) for part in components]

    sizes = np.concatenate([part.size for part in components] or [np.zeros(0)])
    if not sizes.size or truncation_error(components, delta, reconstruction) > error:
        return list(components)
    # `low` satisfies the error. Bisect the ratio until the threshold is known to a few per cent.
    low, high = 0.0, float(sizes.max()) * (1 + 1e-9)
    floor = float(sizes.min()) * 0.5
    for _ in range(_BISECTIONS):
        middle = float(np.sqrt(max(low, floor) * high))
        if truncation_error(cut(middle), delta, reconstruction) <= error:
            low = middle
        else:
            high = middle
    return cut(low)
