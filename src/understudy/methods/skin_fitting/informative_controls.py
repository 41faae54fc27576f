"""Decides from the poses whether the networks read all controls beside the bones.

Most controls of a body act through its bones, which say all there is to know. Some bones do not:
the matrix of a bone that bends along its length does not tell its shape, but the control that bends
it does. A recording does not mark such controls, and a rig may mark too few.

The evidence is a prediction of held-out poses. With K the Gaussian kernel of the features of some
poses, and D their displacements before skinning, a kernel ridge regression predicts

    D' = K' (K + ridge I)^-1 D                          rows of K': held-out poses

once from bones and the controls that are marked, once with all controls. Its squared error needs
only the products D D^T, so its cost does not depend on the number of vertices.

Letters: T poses, X features, V vertices.
"""

from __future__ import annotations

import numpy as np

from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.methods.skin_fitting.displacements import displacements_at
from understudy.training.features import pose_features

_POSES = 500
_BLOCKS, _HELD_OUT_EVERY, _HELD_OUT_FIRST = 25, 5, 2
_WIDTHS = (2.0, 8.0, 32.0)  # of the kernel, in median squared distances
_RIDGES = (1e-5, 1e-3)
# All controls are read if they lower the held-out squared error to this fraction, and by this share
# of the squared motion. Angles predict a little better than matrices even where both say the same.
_CLEARLY_LESS, _LEAST_GAIN = 0.9, 0.005


def resolve_controls(choice: str, poses: Poses, skin: Skin | None) -> str:
    """The controls that networks read: numeric, all or none, as in `pose_features`.

    choice  what the user asked for; auto: decide from the poses
    skin    the skin of the deformer; None where there are no bones
    """
    if choice != "auto":
        return choice
    spec = poses.control_spec
    if spec is None or poses.controls is None or skin is None:
        return "numeric"
    if spec.numeric.all() or poses.pose_count < _BLOCKS:
        return "all"
    chosen = evenly(poses.pose_count, _POSES)
    # Whole blocks of time are held out: in an animation, neighbouring frames are nearly equal.
    held_out = (np.arange(len(chosen)) * _BLOCKS // len(chosen)) % _HELD_OUT_EVERY == (
        _HELD_OUT_FIRST
    )
    d = displacements_at(poses, skin, chosen).reshape(len(chosen), -1)
    d -= d[~held_out].mean(axis=0)
    products = (d @ d.T).astype(np.float64)
    errors = {}
    for name in ("numeric", "all"):
        raw, units = pose_features(poses, name)
        errors[name] = held_out_error(raw[chosen][:, units.columns], products, held_out)
    gain = errors["numeric"] - errors["all"]
    motion = np.trace(products[np.ix_(held_out, held_out)])
    clear = gain > (1 - _CLEARLY_LESS) * errors["numeric"] and gain > _LEAST_GAIN * motion
    return "all" if clear else "numeric"


def held_out_error(features: np.ndarray, products: np.ndarray, held_out: np.ndarray) -> float:
    """The squared error of predicting held-out poses, the least over widths and ridges.

    features  (T,X)
    products  (T,T), D D^T of the centred displacements
    held_out  (T,) bool
    """
    left = np.trace(products[np.ix_(held_out, held_out)])
    if not features.shape[1]:
        return float(left)
    x = features.astype(np.float64)
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)
    size = np.square(x).sum(axis=1)
    squared = np.maximum(size[:, None] + size - 2 * x @ x.T, 0)
    middle = max(float(np.median(squared)), 1e-12)
    fit = ~held_out
    errors = [left]
    for width in _WIDTHS:
        kernel = np.exp(-squared / (width * middle))
        inner, across = kernel[np.ix_(fit, fit)], kernel[np.ix_(fit, held_out)]
        for ridge in _RIDGES:
            weights = np.linalg.solve(inner + ridge * np.eye(len(inner)), across).T
            errors.append(
                left
                - 2 * np.sum(weights * products[np.ix_(held_out, fit)])
                + np.sum((weights @ products[np.ix_(fit, fit)]) * weights)
            )
    return float(min(errors))
