"""Selects the inputs of each network, from a live rig or from recorded poses.

Follows FDDA section 3.3.1 (Bailey et al. 2018). A network predicts a group of vertices and needs
the bones and controls (units) that move the group. A live rig answers that by perturbation: set one
control to the far end of its range and see which vertices move. Recorded poses answer it by
regression: greedy selection of units (orthogonal matching pursuit) with a held-out fifth.

Departure: the paper assumes a live rig; selection from recorded poses is ours.

Letters: T poses, X features, P coefficients; a unit is a bone (its 12 numbers) or a control.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.poses import Poses
from understudy.geometry.transforms import parent_from_bone
from understudy.rigs.base import Rig, evaluate_batches
from understudy.system.progress import Progress
from understudy.training.held_out import held_out_blocks

INPUT_SOURCES = ("auto", "rig", "data", "all")
# Poses that a rig evaluates at a time: bounds the memory of rigs with many controls and vertices.
_PERTURBED_AT_ONCE = 32
_LEAST_ROTATION = 1e-6  # largest change of a bone's matrix entries that counts as no motion
_RIDGE = 1e-3  # per training pose, for standardised features


def units_from_rig(
    rig: Rig,
    poses: Poses,
    groups: Sequence[np.ndarray],
    displace: Callable[[Poses], np.ndarray],
    error: float,
    example_poses: int,
    seed: int,
    progress: Progress,
) -> np.ndarray:
    """The units that move a vertex of a group by more than `error`: (groups, units) bool.

    groups         vertices of each group, (n,) into the vertices that `displace` returns
    displace       poses -> displacements in rest space (t,V',3)
    example_poses  number of training poses at which the rig is perturbed, drawn by `seed`
    Each perturbation sets one control to the far end of its range, a large change as the paper
    asks.
    """
    # The sampled ranges, which may be narrower or wider than the rig's own.
    spec, controls = poses.need_controls("perturbing the rig")
    skeleton = rig.skeleton
    bone_count = 0 if skeleton is None else skeleton.bone_count
    chosen = np.random.default_rng([seed, 3]).choice(
        poses.pose_count, min(example_poses, poses.pose_count), replace=False
    )
    needs = np.zeros((len(groups), bone_count + spec.count), np.bool_)
    starts = np.concatenate([[0], np.cumsum([len(g) for g in groups])])[:-1]
    flat = np.concatenate(list(groups))
    parts = np.array_split(np.arange(spec.count), 1 + spec.count // _PERTURBED_AT_ONCE)
    perturbed = [(pose, some) for pose in controls[chosen] for some in parts]
    batches = (_perturbed(spec, pose, some) for pose, some in perturbed)
    with progress.task("perturbing the rig", len(chosen) * spec.count) as task:
        for (_, some), moved in zip(perturbed, evaluate_batches(rig, batches)):
            d = displace(moved)
            furthest = np.maximum.reduceat(
                np.linalg.norm(d[1:] - d[:1], axis=2)[:, flat], starts, axis=1
            ).T
            affected = np.greater(furthest, error)  # (groups, some controls)
            if skeleton is not None:
                turned = _turned_bones(moved)
                needs[:, :bone_count] |= affected.astype(int) @ turned.astype(int) > 0
            needs[:, bone_count + some] |= affected
            task.advance(len(some))
    return needs


def _perturbed(spec: ControlSpec, pose: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Control values (n+1,C): a pose (C,), then each of some controls (n,) at its far end."""
    far = np.where(pose > 0.5 * (spec.low + spec.high), spec.low, spec.high)
    values = np.tile(pose, (len(some) + 1, 1))
    values[np.arange(len(some)) + 1, some] = far[some]
    return values


def _turned_bones(moved: Poses) -> np.ndarray:
    """(t-1,B) bool: the bones whose matrix in their parent differs from that of the first pose."""
    skeleton, world_from_bone = moved.need_bones("perturbing the rig")
    local = parent_from_bone(world_from_bone, skeleton.parents)
    local = local.reshape(len(local), skeleton.bone_count, 12)
    return np.abs(local[1:] - local[:1]).max(axis=2) > _LEAST_ROTATION


def units_from_data(
    features: np.ndarray,
    unit: np.ndarray,
    targets: Sequence[np.ndarray],
    gain: float,
    most: int,
    progress: Progress,
) -> np.ndarray:
    """The units that predict each group's coefficients: (groups, units) bool.

    features  (T,X) standardised
    unit      (X,) the unit of each feature
    targets   (T,P) per group
    gain      fraction of the held-out error by which an addition must lower it
    most      upper limit of units per group
    For each group, units are added one at a time: the one whose features, together with those
    already selected, leave the smallest squared error of a ridge regression. A bone's matrix holds
    sines and cosines, so even a linear fit detects bends in both directions.
    """
    unit_count = int(unit.max(initial=-1)) + 1
    present = np.unique(unit)
    columns_of = [np.flatnonzero(unit == u) for u in present]
    widest = max((len(c) for c in columns_of), default=0)
    held_out = held_out_blocks(len(features))
    fit_x, test_x = features[~held_out].astype(np.float64), features[held_out].astype(np.float64)
    gram = fit_x.T @ fit_x
    ridge = _RIDGE * len(fit_x)
    padded = np.full((len(columns_of), widest), -1)
    for row, columns in zip(padded, columns_of):
        row[: len(columns)] = columns
    needs = np.zeros((len(targets), unit_count), np.bool_)
    with progress.task("selecting inputs from the poses", len(targets)) as task:
        for g, target in enumerate(targets):
            fit_y = target[~held_out].astype(np.float64)
            test_y = target[held_out].astype(np.float64)
            cross = fit_x.T @ fit_y
            chosen: list[int] = []
            best = float(np.square(test_y).sum())
            while len(chosen) < min(most, len(present)):
                inside = (
                    np.concatenate([columns_of[k] for k in chosen]) if chosen else np.zeros(0, int)
                )
                candidate = _best_addition(gram, cross, inside, padded, chosen, ridge)
                columns = np.concatenate([inside, columns_of[candidate]]).astype(int)
                weights = np.linalg.solve(
                    gram[np.ix_(columns, columns)] + ridge * np.eye(len(columns)), cross[columns]
                )
                error = float(np.square(test_y - test_x[:, columns] @ weights).sum())
                if error > best * (1 - gain):
                    break
                chosen.append(candidate)
                best = error
            needs[g, present[chosen]] = True
            task.advance()
    return needs


def _best_addition(
    gram: np.ndarray,
    cross: np.ndarray,
    inside: np.ndarray,
    padded: np.ndarray,
    taken: list[int],
    ridge: float,
) -> int:
    """The unit that lowers the training error most when it joins those already selected.

    gram    (X,X) products of the features
    cross   (X,P) products of the features with the targets
    inside  columns of the units already selected
    padded  (units, widest) columns of each unit, padded with -1
    taken   units already selected
    All candidates are evaluated at once. With S the Schur complement of a unit's own columns given
    those inside, and r their product with the residual, the squared error falls by tr(r^T S^-1 r).
    """
    widest = padded.shape[1]
    flat = np.where(padded >= 0, padded, 0)
    missing = padded < 0
    own = gram[flat[:, :, None], flat[:, None, :]]
    right = cross[flat]
    if len(inside):
        middle = gram[np.ix_(inside, inside)] + ridge * np.eye(len(inside))
        across = gram[np.ix_(inside, flat.reshape(-1))]
        solved = np.linalg.solve(middle, np.concatenate([across, cross[inside]], axis=1))
        split = across.reshape(len(inside), *flat.shape)
        back = solved[:, : across.shape[1]].reshape(len(inside), *flat.shape)
        own = own - np.einsum("iua,iub->uab", split, back, optimize=True)
        right = right - np.einsum("iua,ip->uap", split, solved[:, across.shape[1] :], optimize=True)
    padding = missing[:, :, None] | missing[:, None, :]
    own = np.where(padding, 0.0, own) + ridge * np.eye(widest)
    right = np.where(missing[:, :, None], 0.0, right)
    decrease = np.einsum("uap,uap->u", right, np.linalg.solve(own, right), optimize=True)
    decrease[taken] = -1.0
    return int(decrease.argmax())
