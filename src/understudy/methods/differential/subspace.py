"""The deformation subspace of `differential`: mean, anchors, regions and their components.

    d ~ mean + S^-1 (L_s W^2 D U c  +  P^T omega^2 a  +  Z^2 B h)

One region g has the components U_g of its differential coordinates (`components.py`) and, where
vertices are weakly constrained, the principal components B_g of its displacements. Its network
predicts both sets of coefficients.

Letters: T poses, V vertices, n anchors, P components of coordinates, Q components of offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.poses import evenly
from understudy.geometry.pca import components_for_error, principal_components
from understudy.methods.differential.anchors import (
    checked_anchors,
    even_anchors,
    pivot_anchors,
    random_anchors,
)
from understudy.methods.differential.components import (
    Components,
    fewest_components,
    region_components,
)
from understudy.methods.differential.context import FitContext
from understudy.methods.differential.differential import DifferentialConfig
from understudy.methods.differential.laplacian import Laplacian
from understudy.methods.differential.reconstruction import Reconstruction, Weights
from understudy.methods.differential.regions import mesh_regions
from understudy.methods.differential.weights import estimated_weights
from understudy.system import tasks

_ANCHOR_POSES = 600
_ANCHOR_MODES = 300
_ERROR_POSES = 60


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


def find_subspace(context: FitContext[DifferentialConfig]) -> Subspace:
    """The subspace of a sample of the training poses."""
    config, poses = context.config, context.poses
    laplacian = Laplacian.of(poses.mesh)
    with context.progress.task("finding components", 3) as task:
        sample = context.basis_sample()
        mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
        sample -= mean
        task.advance()
        anchors = _select_anchors(context, laplacian, sample)
        delta = laplacian.coordinates(sample)
        weights = Weights(config.anchor_weight)
        if config.holds_vertices:
            weights = estimated_weights(laplacian, sample, delta, anchors, context.height)
        task.advance()
        seeds = _region_seeds(context, laplacian, sample, anchors)
        components = _find_components(
            context, delta, seeds, Reconstruction(laplacian, anchors, weights)
        )
        regions = tasks.parallel_map(
            lambda part: Region(part, _offset_basis(context, sample[:, part.vertices])), components
        )
        task.advance()
    return Subspace(laplacian, mean, anchors, weights, regions)


def _select_anchors(
    context: FitContext[DifferentialConfig], laplacian: Laplacian, sample: np.ndarray
) -> np.ndarray:
    """The anchors (n,) that are selected before training, from displacements (T,V,3)."""
    config = context.config
    if config.anchor_list:
        return checked_anchors(config.anchor_list, laplacian.shell)
    count = max(config.fewest_anchors, round(config.anchors * context.poses.vertex_count))
    if config.anchor_choice == "random":
        return random_anchors(laplacian.shell, count, config.seed)
    if config.anchors_evenly_spaced:
        motion = np.linalg.norm(sample, axis=(0, 2))
        return even_anchors(laplacian.symmetric, motion, laplacian.shell, count)
    return _pivots(context, laplacian, sample, count)


def _region_seeds(
    context: FitContext[DifferentialConfig],
    laplacian: Laplacian,
    sample: np.ndarray,
    anchors: np.ndarray,
) -> np.ndarray:
    """The vertices that regions grow around: the first anchors, or pivots if those are even."""
    count = context.config.regions
    if context.config.anchors_evenly_spaced and count > 1:
        return _pivots(context, laplacian, sample, len(anchors))[:count]
    return anchors[:count]


def _pivots(
    context: FitContext[DifferentialConfig], laplacian: Laplacian, sample: np.ndarray, count: int
) -> np.ndarray:
    few = sample[evenly(len(sample), _ANCHOR_POSES)].reshape(-1, 3 * sample.shape[1])
    directions, sizes = principal_components(few, min(3 * count, _ANCHOR_MODES))
    points = context.poses.mesh.vertices.astype(np.float64)
    return pivot_anchors(directions * sizes, points, laplacian.shell, count)


def _find_components(
    context: FitContext[DifferentialConfig],
    delta: np.ndarray,
    seeds: np.ndarray,
    reconstruction: Reconstruction,
) -> list[Components]:
    """The components of each region; their number is a fraction of V or follows from the error."""
    config = context.config
    regions = mesh_regions(context.poses.mesh, seeds)
    most = config.max_components
    if config.components is not None:
        most = max(1, round(config.components * context.poses.vertex_count / len(regions)))
    found = tasks.parallel_map(
        lambda region: region_components(delta, region, config.metric, most, reconstruction),
        regions,
    )
    if config.components is not None:
        return found
    some = delta[evenly(len(delta), _ERROR_POSES)]
    return fewest_components(found, some, reconstruction, context.basis_error)


def _offset_basis(context: FitContext[DifferentialConfig], sample: np.ndarray) -> np.ndarray:
    """B (3n,Q) float32: the components of a region's displacements (T,n,3); Q = 0 if not used."""
    rows = sample.reshape(len(sample), -1)
    if not context.config.holds_vertices:
        return np.zeros((rows.shape[1], 0), np.float32)
    directions = principal_components(rows, context.config.max_components)[0].astype(np.float32)
    some = rows[evenly(len(rows), _ERROR_POSES)]
    count = components_for_error(some, directions, np.ones(sample.shape[1]), context.basis_error)
    return directions[:, :count]
