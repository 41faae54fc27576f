"""`pca_regression`: a PCA of the displacements and a linear regression of its coefficients.

The baseline "PCA" of Song, Shi and Reed 2020, section 4.4.1. With x the features of a pose (12
numbers per joint, and the controls):

    d = mean + U c,      c = W x + b        U principal components, W and b by ridge regression

It has the smallest corrective of all methods, one product per pose, and shows how far a rig is from
linear. In the deformer the regression is a net without hidden layers.

Departure: features are clamped to their training range, widened by `clamp_margin`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from understudy.core.deformer import Deformer
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses, evenly
from understudy.core.version import __version__
from understudy.geometry.pca import components_for_error, principal_components
from understudy.methods.base import (
    AT_LEAST_ONE,
    NOT_NEGATIVE,
    POSITIVE,
    Config,
    Limit,
    Method,
    Traits,
)
from understudy.methods.correctives.bounds import with_bounds
from understudy.methods.correctives.facts import PoseFacts
from understudy.methods.correctives.features import (
    CONTROLS,
    FeatureTable,
    constant_controls,
    need_bones_or_controls,
)
from understudy.methods.correctives.ridge import ridge_regression
from understudy.methods.correctives.skins import SKINS
from understudy.methods.skin_fitting.displacements import displacement_blocks, displacements_at
from understudy.rigs.base import Rig
from understudy.system.progress import SILENT, Progress

_BASIS_POSES = 2000
_ERROR_POSES = 200
_BASIS_ERROR = 1e-4  # of the height


@dataclass(frozen=True)
class PcaRegressionConfig(Config):
    """Options of pca_regression.

    components    upper limit of principal components
    basis_error   mean distance per vertex that the principal components may leave, in model units;
                  none: 0.01 % of the height
    ridge         ridge penalty per training pose, for standardised features
    skin          perturbed, fitted, blended or auto, as in differential
    influences    upper limit of bones per vertex
    controls      controls that are inputs beside the bones: numeric (those that act other than
                  through bones), all, none, or auto: numeric, or all if they predict held-out poses
                  clearly better
    clamp_margin  features are clamped to their training range, widened on each side by this
                  fraction of its width; none: no clamping
    bounded       keep each coefficient in its range over the training poses, and fade the
                  correctives out as a pose leaves these poses
    """

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"skin": SKINS, "controls": CONTROLS}
    limits: ClassVar[Mapping[str, Limit]] = {
        "components": AT_LEAST_ONE,
        "basis_error": POSITIVE,
        "ridge": NOT_NEGATIVE,
        "influences": AT_LEAST_ONE,
        "clamp_margin": NOT_NEGATIVE,
    }

    components: int = 200
    basis_error: float | None = None
    ridge: float = 1e-4
    skin: str = "auto"
    influences: int = 4
    controls: str = "auto"
    clamp_margin: float | None = 0.5
    bounded: bool = True


class PcaRegression(Method[PcaRegressionConfig]):
    """Principal components of the displacements and a linear regression on the features."""

    name = "pca_regression"
    traits = Traits(controls_suffice=True, asks_rig=True, baseline="differential")
    Config = PcaRegressionConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """The deformer of `poses`, which need bones, controls, or both.

        rig  is perturbed to find skin weights
        """
        need_bones_or_controls(self.name, poses)
        config, facts = self.config, PoseFacts(poses, progress)
        skin = None
        if poses.skeleton is not None:
            skin = facts.skin(config.skin, config.influences, rig)
        sample = displacements_at(poses, skin, evenly(poses.pose_count, _BASIS_POSES))
        sample = sample.reshape(len(sample), -1)
        mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
        sample -= mean
        basis = self._basis(sample, poses.mesh.height)
        coefficients = np.empty((poses.pose_count, basis.shape[1]), np.float32)
        for where, block in displacement_blocks(poses, skin):
            coefficients[where] = (block.reshape(len(block), -1) - mean) @ basis
        table = FeatureTable.of(poses, facts.controls(config.controls, skin))
        nets: list[Net] = []
        bases: list[Basis] = []
        if basis.shape[1]:
            weight, bias = ridge_regression(table.standard, coefficients, config.ridge)
            numbers = np.arange(basis.shape[1])
            nets.append(table.fold(table.all_inputs(), [weight], [bias], numbers, "tanh"))
            bases.append(Basis(np.arange(poses.vertex_count), basis, numbers))
        deformer = Deformer(
            mesh=poses.mesh,
            skeleton=poses.skeleton,
            control_spec=poses.control_spec,
            skin=skin,
            features=table.clamped(config.clamp_margin),
            nets=tuple(nets),
            bases=tuple(bases),
            mean=mean.reshape(-1, 3),
            method=self.name,
            training={"poses": poses.pose_count, "components": basis.shape[1]},
            provenance={
                "understudy": __version__,
                "poses": poses.name,
                "config": config.header(),
                "controls_never_seen": constant_controls(poses),
            },
        )
        return with_bounds(deformer, poses) if config.bounded else deformer

    def _basis(self, sample: np.ndarray, height: float) -> np.ndarray:
        """(3V,P) float32: the fewest components of a sample (T,3V) within the basis error."""
        given = self.config.basis_error
        error = _BASIS_ERROR * height if given is None else given
        directions = principal_components(sample, self.config.components)[0].astype(np.float32)
        some = sample[evenly(len(sample), _ERROR_POSES)]
        ones = np.ones(sample.shape[1] // 3)
        return directions[:, : components_for_error(some, directions, ones, error)]
