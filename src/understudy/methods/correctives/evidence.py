"""Decides by held-out poses which controls the networks read, and which skin they correct.

Most controls of a body act through its bones, which say all there is to know. Some bones do not:
the matrix of a bone that bends along its length does not tell its shape, but the control that bends
it does. A recording does not mark such controls, and a rig may mark too few.

The evidence is how well the displacements before skinning can be predicted. With K the Gaussian
kernel of the features of some poses, and D their displacements, a kernel ridge regression predicts

    D' = K' (K + ridge I)^-1 D                          rows of K': held-out poses

Its squared error needs only the products D D^T, so its cost does not depend on the number of
vertices.

Letters: T poses, X features, V vertices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.methods.correctives.features import pose_features
from understudy.methods.skin_fitting.displacements import displacement_blocks
from understudy.training.held_out import held_out_blocks

ENOUGH_POSES = 25  # to hold some out
_POSES = 500
_BYTES = 1 << 28  # of displacements held at a time
_WIDTHS = (2.0, 8.0, 32.0)  # of the kernel, in median squared distances
_RIDGES = (1e-5, 1e-3)
# All controls are read if they lower the held-out squared error to this fraction, and by this share
# of the squared motion. Angles predict a little better than matrices even where both say the same.
_CLEARLY_LESS, _LEAST_GAIN = 0.9, 0.005


@dataclass(frozen=True, eq=False)
class Evidence:
    """Some poses, a part of them held out.

    poses     all poses
    chosen    (T,) the poses that are used
    held_out  (T,) bool
    products  (T,T) float64, D D^T of their displacements, less the mean of those not held out
    """

    poses: Poses
    chosen: np.ndarray
    held_out: np.ndarray
    products: np.ndarray

    @staticmethod
    def of(poses: Poses, skin: Skin) -> Evidence:
        """The evidence of poses with this skin."""
        chosen = evenly(poses.pose_count, _POSES)
        held_out = held_out_blocks(len(chosen))
        return Evidence(poses, chosen, held_out, _products(poses, skin, chosen, held_out))

    @property
    def motion(self) -> float:
        """The squared displacements of the held-out poses."""
        return float(np.trace(self.products[np.ix_(self.held_out, self.held_out)]))

    def error(self, controls: str) -> float:
        """The squared error of predicting held-out poses; `controls` as in `pose_features`."""
        raw, units = pose_features(self.poses, controls)
        features = raw[self.chosen][:, units.columns].astype(np.float64)
        if not features.shape[1]:
            return self.motion
        return prediction_error(features, self.products, self.held_out)


def _products(poses: Poses, skin: Skin, chosen: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """D D^T (T,T) of the displacements of the `chosen` poses; see `Evidence`."""
    products = np.zeros((len(chosen), len(chosen)))
    width = max(1, _BYTES // (12 * len(chosen)))
    for first in range(0, poses.vertex_count, width):
        part = np.arange(first, min(first + width, poses.vertex_count))
        d = np.empty((len(chosen), len(part), 3), np.float32)
        # All vertices of a small mesh are read as they lie.
        some = None if len(part) == poses.vertex_count else part
        for where, block in displacement_blocks(poses, skin, chosen, some):
            d[where] = block
        rows = d.reshape(len(chosen), -1)
        rows -= rows[~held_out].mean(axis=0)
        products += rows @ rows.T
    return products


def all_controls_help(evidence: Evidence) -> bool:
    """Whether networks should read all controls, beside those that are marked as numeric."""
    marked, every = evidence.error("numeric"), evidence.error("all")
    return every < _CLEARLY_LESS * marked and marked - every > _LEAST_GAIN * evidence.motion


def prediction_error(features: np.ndarray, products: np.ndarray, held_out: np.ndarray) -> float:
    """The least squared error of predicting held-out (T,) poses by features (T,X); D D^T (T,T)."""
    fit = ~held_out
    motion = np.trace(products[np.ix_(held_out, held_out)])
    x = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-9)
    size = np.square(x).sum(axis=1)
    squared = np.maximum(size[:, None] + size - 2 * x @ x.T, 0)
    middle = max(float(np.median(squared)), 1e-12)
    errors = [motion]
    for width in _WIDTHS:
        kernel = np.exp(-squared / (width * middle))
        inner, across = kernel[np.ix_(fit, fit)], kernel[np.ix_(fit, held_out)]
        for ridge in _RIDGES:
            weights = np.linalg.solve(inner + ridge * np.eye(len(inner)), across).T
            errors.append(
                motion
                - 2 * np.sum(weights * products[np.ix_(held_out, fit)])
                + np.sum((weights @ products[np.ix_(fit, fit)]) * weights)
            )
    return float(min(errors))
