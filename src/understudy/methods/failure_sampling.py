"""Control values around the poses at which a deformer fails: active sampling.

A deformer is measured on proposed poses, random ones of its rig. New poses are drawn around those
with the largest error. A character fails in one place at a time, an elbow or a lip, and the rest
of such a pose is like any other. So the controls are divided into parts that act on the same
vertices, and each part of a new pose comes from a proposal of its own. With d_ti the displacement
of vertex i in proposal t before skinning, e_ti the error of the deformer, and x_t the controls:

    d_ti   ~ W_i x_t + b                              ridge regression over the proposals
    a_ic   = |W_ic| / sum over c of |W_ic|            share of control c in what vertex i does
    parts    controls with similar columns of a, by average linkage
    f_tp   = sum over i, and c of part p, of  a_ic e_ti
    x'_c   = x_tc + spread * noise,   t drawn for each part of c with probability f_tp^power

All proposals are meant to be trained on too: none is evaluated in vain.

Letters: T proposals, V vertices, C controls, P parts.
"""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from understudy.core.controls import ControlSpec
from understudy.core.deformer import Deformer
from understudy.core.errors import InputError
from understudy.core.poses import Poses
from understudy.methods.differential.ridge import ridge_regression
from understudy.methods.skin_fitting.displacements import displace

POWER = 2.0  # how much more often poses with larger errors are drawn
_PENALTY = 1e-2  # of the ridge regression: few proposals, many controls
_SIMILAR = 0.5  # cosine of the shares of two controls of one part
_BLOCK = 64


def failure_values(
    deformer: Deformer, proposals: Poses, count: int, spread: float, seed: int
) -> np.ndarray:
    """Control values (count,C) float64 around the proposals with the largest errors.

    proposals  poses of the rig that the deformer stands in for, with their controls
    spread     width of the noise, as a share of the training range
    """
    spec, values = proposals.need_controls("sampling around failures")
    if not proposals.pose_count:
        raise InputError("sampling around failures needs at least one proposed pose")
    errors = vertex_errors(deformer, proposals)
    shares = control_shares(deformer, proposals)
    parts = control_parts(shares)
    random = np.random.default_rng([seed, 3])
    result = np.empty((count, spec.count))
    for part in range(int(parts.max(initial=-1)) + 1):
        own = np.flatnonzero(parts == part)
        weight = (errors @ shares[:, own].sum(axis=1)) ** POWER
        total = float(weight.sum())
        even = np.full(len(weight), 1 / len(weight))
        drawn = random.choice(len(weight), count, p=weight / total if total > 0 else even)
        result[:, own] = values[drawn][:, own]
    return _near(spec, result, spread, random)


def vertex_errors(deformer: Deformer, poses: Poses) -> np.ndarray:
    """The error (T,V) float32 of every vertex."""
    found = np.empty((poses.pose_count, poses.vertex_count), np.float32)
    for where, true in poses.pose_blocks(_BLOCK):
        bones = None if deformer.skeleton is None else poses.world_from_bone
        controls = None if deformer.control_spec is None else poses.controls
        got = deformer.deform(
            None if bones is None else bones[where],
            None if controls is None else controls[where],
        )
        found[where] = np.linalg.norm(got - true, axis=2)
    return found


def control_shares(deformer: Deformer, poses: Poses) -> np.ndarray:
    """a of the equations, (V,C): how much of what each vertex does is due to each control."""
    spec, values = poses.need_controls("sampling around failures")
    moved = displace(poses, deformer.skin)
    width = np.where(spec.high > spec.low, spec.high - spec.low, 1)
    weight, _ = ridge_regression(values / width, moved.reshape(len(moved), -1), _PENALTY)
    size = np.linalg.norm(weight.reshape(-1, 3, spec.count), axis=1)
    return size / np.maximum(size.sum(axis=1, keepdims=True), 1e-30)


def control_parts(shares: np.ndarray) -> np.ndarray:
    """The part (C,) of each control, from 0; shares (V,C)."""
    count = shares.shape[1]
    if count < 2:
        return np.zeros(count, int)
    unit = shares / np.maximum(np.linalg.norm(shares, axis=0), 1e-30)
    apart = 1 - np.clip(unit.T @ unit, 0, 1)
    pairs = apart[np.triu_indices(count, 1)]
    return fcluster(linkage(pairs, "average"), 1 - _SIMILAR, "distance").astype(int) - 1


def _near(
    spec: ControlSpec, values: np.ndarray, spread: float, random: np.random.Generator
) -> np.ndarray:
    """Values (T,C) with noise, inside the training ranges."""
    noise = random.uniform(-0.5, 0.5, values.shape) * spread * (spec.high - spec.low)
    moved = values + noise
    # Mirrored at the ends of the range: clamped, many values would be exactly there.
    moved = np.where(moved > spec.high, 2 * spec.high - moved, moved)
    moved = np.where(moved < spec.low, 2 * spec.low - moved, moved)
    return np.clip(moved, spec.low, spec.high)
