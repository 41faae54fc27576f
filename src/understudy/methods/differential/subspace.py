"""The deformation subspace of `differential`: mean, anchors, regions and their components.

    d ~ mean + S^-1 (L_s W^2 D U c  +  P^T omega^2 a  +  Z^2 B h)

One region g has the components U_g of its differential coordinates and, where vertices are weakly
constrained, the principal components B_g of its displacements. Its network predicts both sets of
coefficients.

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

Letters: T poses, V vertices, n anchors, P components of coordinates, Q components of offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.poses import evenly
from understudy.geometry.pca import components_for_error, principal_components
from understudy.methods.correctives.features import FeatureTable
from understudy.methods.correctives.networks import TrainedNets
from understudy.methods.correctives.regions import displacement_pivots, mesh_regions
from understudy.methods.correctives.session import FitSession
from understudy.methods.correctives.stages import STILL
from understudy.methods.differential.anchors import checked_anchors, even_anchors
from understudy.methods.differential.config import DifferentialConfig
from understudy.methods.differential.reconstruction import (
    Laplacian,
    Reconstruction,
    Weights,
    estimated_weights,
)
from understudy.system import tasks

_ANCHOR_MODES = 300
_ERROR_POSES = 60
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
    delta: np.ndarray, vertices: np.ndarray, metric: str, most: int, reconstruction: Reconstruction
) -> Components:
    """The first `most` components of delta (T,V,3) on `vertices` (n,), by the option `metric`."""
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
    """The fewest components, by one threshold on size, that leave at most `error`; else all."""

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


@dataclass(frozen=True, eq=False)
class Region:
    """What one network predicts.

    components  of the differential coordinates, U
    offsets     (3n,Q) float32 components of the displacements, B; Q = 0 where they are not used
    """

    components: Components
    offsets: np.ndarray

    @property
    def vertices(self) -> np.ndarray:
        """(n,)"""
        return self.components.vertices

    @property
    def split(self) -> int:
        """P: the coefficients of coordinates come first, then those of offsets."""
        return self.components.count

    @property
    def coefficient_count(self) -> int:
        """P + Q."""
        return self.components.count + self.offsets.shape[1]

    def project(self, block: np.ndarray, delta: np.ndarray) -> np.ndarray:
        """The coefficients (t,P+Q) of displacements less the mean, and coordinates, (t,V,3)."""
        flat = block[:, self.vertices].reshape(len(block), -1)
        return np.concatenate([self.components.coefficients(delta), flat @ self.offsets], axis=1)


@dataclass(frozen=True, eq=False)
class Subspace:
    """The subspace, found from the training poses before any network is trained.

    laplacian  of the mesh
    mean       (V,3) float32, mean displacement
    anchors    (n,) vertices
    weights    estimated weights of the reconstruction
    regions    one per network
    """

    laplacian: Laplacian
    mean: np.ndarray
    anchors: np.ndarray
    weights: Weights
    regions: list[Region]

    @property
    def coefficient_count(self) -> int:
        """The number of coefficients of all regions."""
        return sum(region.coefficient_count for region in self.regions)

    def project(self, displacements: np.ndarray) -> list[np.ndarray]:
        """The coefficients (t,P+Q) of every region, of displacements (t,V,3)."""
        block = displacements - self.mean
        delta = self.laplacian.coordinates(block)
        return [region.project(block, delta) for region in self.regions]


@dataclass(frozen=True, eq=False)
class AnchorTargets:
    """What the anchor networks predict.

    vertices       (n,) the anchors
    displacements  (T,n,3) of the anchors in every pose, without the mean
    moving         (m,) numbers of the anchors that move
    """

    vertices: np.ndarray
    displacements: np.ndarray
    moving: np.ndarray

    @staticmethod
    def of(vertices: np.ndarray, displacements: np.ndarray, height: float) -> AnchorTargets:
        """The targets of anchors with displacements (T,n,3), on a mesh of the given height."""
        largest = np.abs(displacements).max(axis=(0, 2), initial=0)
        return AnchorTargets(vertices, displacements, np.flatnonzero(largest > STILL * height))

    @property
    def groups(self) -> list[np.ndarray]:
        """(1,) the vertex of each anchor that moves."""
        return [self.vertices[a : a + 1] for a in self.moving]

    @property
    def targets(self) -> list[np.ndarray]:
        """(T,3) the displacement of each anchor that moves."""
        return [self.displacements[:, a] for a in self.moving]

    def predict(self, nets: TrainedNets, table: FeatureTable, poses: np.ndarray) -> np.ndarray:
        """The predicted displacements (t,n,3) of all anchors in some poses (t,)."""
        result = np.zeros((len(poses), len(self.vertices), 3))
        if len(self.moving):
            predicted = nets.predict(table, poses)[:, np.concatenate(nets.outputs)]
            result[:, self.moving] = predicted.reshape(len(poses), -1, 3)
        return result


def find_subspace(session: FitSession[DifferentialConfig]) -> Subspace:
    """The subspace of a sample of the training poses."""
    config, poses = session.config, session.poses
    laplacian = Laplacian.of(poses.mesh)
    with session.progress.task("finding components", 3) as task:
        mean, sample = session.basis_sample()
        task.advance()
        anchors = _select_anchors(session, laplacian, sample)
        delta = laplacian.coordinates(sample)
        if config.omega is None:
            weights = estimated_weights(laplacian, sample, delta, anchors, session.height)
        else:
            weights = Weights(config.omega)
        task.advance()
        seeds = anchors
        if config.anchors_by_errors and config.regions > 1:  # these do not say what moves
            seeds = _pivots(session, laplacian, sample, len(anchors))
        seeds = seeds[: config.regions]
        components = _find_components(
            session, delta, seeds, Reconstruction(laplacian, anchors, weights)
        )
        regions = tasks.parallel_map(
            lambda part: Region(part, _offset_basis(session, sample[:, part.vertices])), components
        )
        task.advance()
    return Subspace(laplacian, mean, anchors, weights, regions)


def _select_anchors(
    session: FitSession[DifferentialConfig], laplacian: Laplacian, sample: np.ndarray
) -> np.ndarray:
    """The anchors (n,) that are selected before training, from displacements (T,V,3)."""
    config = session.config
    if config.anchor_list:
        return checked_anchors(config.anchor_list, laplacian.shell)
    count = max(config.fewest_anchors, round(config.anchors * session.poses.vertex_count))
    if config.anchors_by_errors:
        motion = np.linalg.norm(sample, axis=(0, 2))
        return even_anchors(laplacian.symmetric, motion, laplacian.shell, count)
    return _pivots(session, laplacian, sample, count)


def _pivots(
    session: FitSession[DifferentialConfig], laplacian: Laplacian, sample: np.ndarray, count: int
) -> np.ndarray:
    modes = min(3 * count, _ANCHOR_MODES)
    return displacement_pivots(session.poses.mesh, sample, count, laplacian.shell, modes)


def _find_components(
    session: FitSession[DifferentialConfig],
    delta: np.ndarray,
    seeds: np.ndarray,
    reconstruction: Reconstruction,
) -> list[Components]:
    """The components of each region; their number is a fraction of V or follows from the error."""
    config = session.config
    regions = mesh_regions(session.poses.mesh, seeds)
    asked = config.component_count(session.poses.vertex_count, len(regions))
    most = config.max_components if asked is None else asked
    found = tasks.parallel_map(
        lambda region: region_components(delta, region, config.metric, most, reconstruction),
        regions,
    )
    if asked is not None:
        return found
    some = delta[evenly(len(delta), _ERROR_POSES)]
    return fewest_components(found, some, reconstruction, session.basis_error)


def _offset_basis(session: FitSession[DifferentialConfig], sample: np.ndarray) -> np.ndarray:
    """B (3n,Q) float32: the components of a region's displacements (T,n,3); Q = 0 if not used."""
    rows = sample.reshape(len(sample), -1)
    if not session.config.holds_vertices:
        return np.zeros((rows.shape[1], 0), np.float32)
    directions = principal_components(rows, session.config.max_components)[0]
    kept, some = directions.astype(np.float32), rows[evenly(len(rows), _ERROR_POSES)]
    even = np.ones(rows.shape[1] // 3)
    return kept[:, : components_for_error(some, kept, even, session.basis_error)]


def project_poses(
    session: FitSession[DifferentialConfig], subspace: Subspace
) -> tuple[list[np.ndarray], AnchorTargets, np.ndarray | None]:
    """What the networks have to predict in every pose.

    The coefficients (T,P+Q) of each region, those of coordinates first; the displacements of the
    anchors; and the part of the coordinates that the components do not span, (T,3V) float32: None
    where the loss is that of the coefficients.
    """
    count, regions = session.poses.pose_count, subspace.regions
    coefficients = [np.empty((count, region.coefficient_count), np.float32) for region in regions]
    anchored = np.empty((count, len(subspace.anchors), 3), np.float32)
    whole = session.config.loss_space == "vertices"
    beyond = np.empty((count, 3 * session.poses.vertex_count), np.float32) if whole else None
    with session.progress.task("projecting poses", count) as task:
        for where, block in session.displacements.blocks():
            block = block - subspace.mean
            anchored[where] = block[:, subspace.anchors]
            delta = subspace.laplacian.coordinates(block)
            for region, rows in zip(regions, coefficients):
                rows[where] = region.project(block, delta)
                if beyond is not None:
                    basis = region.components.basis.astype(np.float32)
                    spanned = rows[where, : region.split] @ basis.T
                    beyond[where] = delta.reshape(len(delta), -1) - spanned
            task.advance(len(block))
    return coefficients, AnchorTargets.of(subspace.anchors, anchored, session.height), beyond
