"""Principal components of the differential coordinates of a region, and how many of them are worth
learning.

    delta_g ~ U_g c_g          U_g (3n,P);      c_g = W_g^T delta_g

The paper takes the components that explain most of delta, and as many as a fixed share of the
vertices. But the reconstruction amplifies what is broad and damps what is fine, so a component that
is faint in delta may be large on the face. Here the components explain most of what the
reconstruction makes of delta (metric `reconstruction`): with R_g the columns of S^-1 L_s D that
belong to the region and R_g^T R_g = C^T C,

    V_g = principal components of C delta_g,     U_g = C^-1 V_g,     W_g = C^T V_g

so that |c - c'| is the error on the face in model units, and a net that is trained on c is trained
on what counts. C = 1 is the paper's.

Their number: a share of V, or the fewest that leave a given mean distance after reconstruction with
true anchors. One threshold for all regions.

Letters: T poses, V vertices, n vertices of a region, P components.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.geometry.pca import principal_components
from understudy.methods.differential.reconstruction import Reconstruction

METRICS = ("reconstruction", "differential")
_FLAT = 1e-9  # eigenvalues of R^T R below this share of the largest move nothing
_BISECTIONS = 12


@dataclass(frozen=True, eq=False)
class Components:
    """One region's: vertices (n,), basis U (3n,P) and projection W (3n,P) float64, size (P,) the
    rms of each coefficient, largest first.
    """

    vertices: np.ndarray
    basis: np.ndarray
    projection: np.ndarray
    size: np.ndarray

    def first(self, count: int) -> Components:
        return Components(
            self.vertices, self.basis[:, :count], self.projection[:, :count], self.size[:count]
        )

    @property
    def count(self) -> int:
        return self.basis.shape[1]

    def coefficients(self, delta: np.ndarray) -> np.ndarray:
        """delta (T,V,3) -> (T,P)."""
        return delta[:, self.vertices].reshape(len(delta), -1) @ self.projection.astype(delta.dtype)


def region_components(
    delta: np.ndarray, vertices: np.ndarray, metric: str, most: int, reconstruction: Reconstruction
) -> Components:
    """The first `most` components of delta (T,V,3) on `vertices` (n,)."""
    local = delta[:, vertices]
    if metric == "reconstruction":
        influence = reconstruction.influence(vertices)
        values, vectors = np.linalg.eigh(influence.T @ influence)
        keep = values > _FLAT * max(values[-1], 1e-300)
        root = np.sqrt(values[keep])
        forward, back = (
            root[:, None] * vectors[:, keep].T,
            vectors[:, keep] / root,
        )  # C (m,n), C^-1 (n,m)
    else:
        forward = back = None
    if forward is not None and not len(
        forward
    ):  # a single vertex without an edge has no differential coordinate
        nothing = np.zeros((3 * len(vertices), 0))
        return Components(vertices, nothing, nothing, np.zeros(0))
    data = (
        local
        if forward is None
        else np.einsum("mn,tni->tmi", forward.astype(local.dtype), local, optimize=True)
    )
    rows = data.reshape(len(data), -1)
    directions, sizes = principal_components(rows, most)
    if forward is None:
        basis = projection = directions
    else:
        shaped = directions.reshape(len(forward), -1)
        basis, projection = (
            (back @ shaped).reshape(3 * len(vertices), -1),
            (forward.T @ shaped).reshape(3 * len(vertices), -1),
        )
    return Components(vertices, basis, projection, sizes / np.sqrt(max(1, len(delta))))


def error_left(
    components: list[Components], delta: np.ndarray, reconstruction: Reconstruction
) -> float:
    """Mean distance per vertex between what the components keep of delta (T,V,3) and all of it,
    after reconstruction with true anchors.
    """
    left = delta.astype(np.float64)
    for part in components:
        kept = part.coefficients(left) @ part.basis.T
        left[:, part.vertices] -= kept.reshape(len(left), -1, 3)
    still = np.zeros((len(left), len(reconstruction.anchors), 3))
    return float(np.linalg.norm(reconstruction.solve(left, still), axis=2).mean())


def enough(
    components: list[Components], delta: np.ndarray, reconstruction: Reconstruction, error: float
) -> list[Components]:
    """The fewest of each region's components, by one threshold on their size, that leave at most
    `error`; all of them where none do.
    """
    cut = lambda size: [part.first(int((part.size > size).sum())) for part in components]
    sizes = np.concatenate([part.size for part in components] or [np.zeros(0)])
    if not sizes.size or error_left(components, delta, reconstruction) > error:
        return components
    low, high = (
        0.0,
        float(sizes.max()) * (1 + 1e-9),
    )  # `low` meets the error; halve the ratio until the threshold is known to a few per cent
    floor = float(sizes.min()) * 0.5
    for _ in range(_BISECTIONS):
        middle = np.sqrt(max(low, floor) * high)
        if error_left(cut(middle), delta, reconstruction) <= error:
            low = middle
        else:
            high = middle
    return cut(low)
