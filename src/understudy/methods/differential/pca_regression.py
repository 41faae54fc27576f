"""`pca_regression`: a PCA of the displacements and a linear regression of its coefficients on the
features.

The "PCA" row of Song, Shi and Reed 2020, section 4.4.1:

    d = mean + U c,      c = W x + b        x the features (joints 12 numbers each, controls), W by
                         ridge regression

One product per pose: the smallest corrective there is, and the measure of how far from linear a rig
is. In the deformer the regression is a net without hidden layers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from understudy.core import checks
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.features import Features
from understudy.core.networks import Basis, Net
from understudy.core.poses import Poses, evenly
from understudy.core.progress import SILENT, Progress
from understudy.core.version import __version__
from understudy.geometry.pca import components_for_error, principal_components
from understudy.methods.base import Config, Method, Traits
from understudy.rigs.base import Rig

_BASIS_POSES = 2000
_ERROR_POSES = 200


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
                  through bones), all, or none
    clamp_margin  features are clamped to their training range, widened on each side by this
                  fraction of its width; none: no clamping
    """

    components: int = 200
    basis_error: float | None = None
    ridge: float = 1e-4
    skin: str = "auto"
    influences: int = 4
    controls: str = "numeric"
    clamp_margin: float | None = 0.5

    def __post_init__(self):
        super().__post_init__()
        checks.between(self.components, "components", 1)
        checks.between(self.influences, "influences", 1)
        checks.between(self.ridge, "ridge", 0)
        checks.one_of(self.skin, "skin", ("auto", "perturbed", "fitted", "blended"))
        checks.one_of(self.controls, "controls", ("numeric", "all", "none"))
        if self.basis_error is not None:
            checks.between(self.basis_error, "basis_error", above=0)
        if self.clamp_margin is not None:
            checks.between(self.clamp_margin, "clamp_margin", 0)


class PcaRegression(Method[PcaRegressionConfig]):
    """Principal components of the displacements and a linear regression on the features."""

    name = "pca_regression"
    traits = Traits(controls_suffice=True, asks_rig=True, baseline=True)
    Config = PcaRegressionConfig

    def fit(self, poses: Poses, *, rig: Rig | None = None, progress: Progress = SILENT) -> Deformer:
        """Learn `poses`, driven by bones, controls, or both."""
        from understudy.methods.differential.features import FeatureTable, never_seen
        from understudy.methods.differential.ridge import ridge_regression
        from understudy.methods.differential.skins import make_skin
        from understudy.methods.skin_fitting.displacements import displacement_blocks

        config = self.config
        if poses.skeleton is None and poses.controls is None:
            raise InputError(
                f"{self.name} needs bones or controls, and {poses.name!r} has neither; for mesh "
                f"sequences use a decomposition method"
            )
        skin = (
            None
            if poses.skeleton is None
            else make_skin(config.skin, poses, rig, config.influences, progress)
        )
        chosen = evenly(poses.pose_count, _BASIS_POSES)
        sample = np.empty((len(chosen), 3 * poses.vertex_count), np.float32)
        for where, block in displacement_blocks(poses, skin, chosen):
            sample[where] = block.reshape(len(block), -1)
        mean = sample.mean(axis=0, dtype=np.float64).astype(np.float32)
        sample -= mean
        directions = principal_components(sample, config.components)[0].astype(np.float32)
        error = 1e-4 * poses.mesh.height if config.basis_error is None else config.basis_error
        some = sample[evenly(len(sample), _ERROR_POSES)]
        directions = directions[
            :, : components_for_error(some, directions, np.ones(poses.vertex_count), error)
        ]
        coefficients = np.empty((poses.pose_count, directions.shape[1]), np.float32)
        for where, block in displacement_blocks(poses, skin):
            coefficients[where] = (block.reshape(len(block), -1) - mean) @ directions
        table = FeatureTable.of(poses, config.controls)
        nets, bases = (), ()
        if directions.shape[1]:
            weight, bias = ridge_regression(table.standard, coefficients, config.ridge)
            weight = weight / table.spread
            numbers = np.arange(directions.shape[1])
            nets = (
                Net(
                    np.arange(len(table.columns)),
                    (weight,),
                    (bias - weight @ table.centre,),
                    numbers,
                ),
            )
            bases = (Basis(np.arange(poses.vertex_count), directions, numbers),)
        wide = (
            np.inf
            if config.clamp_margin is None
            else config.clamp_margin * (table.high - table.low)
        )
        return Deformer(
            mesh=poses.mesh, skeleton=poses.skeleton, control_spec=poses.control_spec, skin=skin,
            features=Features(table.columns, table.low - wide, table.high + wide), nets=nets,
            bases=bases, mean=mean.reshape(-1, 3), method=self.name,
            training={"poses": poses.pose_count, "components": directions.shape[1]},
            provenance={"understudy": __version__, "poses": poses.name, "config": asdict(config),
            "controls_never_seen": never_seen(poses)},
        )  # fmt: skip
