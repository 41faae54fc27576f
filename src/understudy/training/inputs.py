"""Which features each network needs (FDDA section 3.3.1), asked of a live rig or learned from
recorded poses.

Features come in units that enter together: the 12 numbers of a bone in its parent's frame, or one
control.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.poses import Poses
from understudy.core.progress import Progress
from understudy.geometry.transforms import parent_from_bone
from understudy.rigs.base import Rig

_PERTURBED_AT_ONCE = (
    32  # poses evaluated together: bounds memory for rigs of many controls and vertices
)


@dataclass(frozen=True)
class FeatureUnits:
    """The features that vary over the training poses, and the unit (bone or control) each belongs
    to.

    columns  (X,) int32 into the raw features of `understudy.core.deformer.raw_features`
    unit     (X,) int32: bone number, or bone count + control number
    """

    columns: np.ndarray
    unit: np.ndarray


def varying_features(
    raw: np.ndarray, bone_count: int, roots: np.ndarray, controls: np.ndarray
) -> FeatureUnits:
    """Non-root bones and the chosen controls, less the numbers that never change (a bone's fixed
    offset, a hinge's axis).

    raw (T, 12 B + C); controls (n,) numbers of the controls that join. A constant feature can teach
    nothing and costs a weight per hidden unit.
    """
    columns = np.arange(raw.shape[1])
    unit = np.where(
        columns < 12 * bone_count, columns // 12, columns - 12 * bone_count + bone_count
    )
    allowed = np.ones(raw.shape[1], bool)
    allowed[12 * bone_count :] = False
    allowed[12 * bone_count + np.asarray(controls, int)] = True
    for root in roots:
        allowed[12 * root : 12 * root + 12] = False
    size = np.abs(raw).max(axis=0)
    varies = np.ptp(raw, axis=0) > 1e-5 * np.maximum(size, 1)
    kept = np.flatnonzero(allowed & varies)
    return FeatureUnits(kept.astype(np.int32), unit[kept].astype(np.int32))


def units_from_rig(
    rig: Rig,
    poses: Poses,
    displace: Callable[[Poses], np.ndarray],
    groups: Sequence[np.ndarray],
    error: float,
    example_poses: int,
    seed: int,
    progress: Progress,
) -> np.ndarray:
    """Perturb a live rig one control at a time: (groups, units) bool, whether a unit moves any
    vertex of a group by more than `error`.

    displace  poses -> rest-space displacements (T,V,3)
    Each example pose is a training pose; each perturbation throws one control to the far end of its
    range, a large change as the paper asks.
    """
    spec, skeleton = (
        poses.control_spec,
        rig.skeleton,
    )  # the sampled ranges, which may be narrower or wider than the rig's own
    bone_count = 0 if skeleton is None else skeleton.bone_count
    chosen = np.random.default_rng([seed, 3]).choice(
        poses.pose_count, min(example_poses, poses.pose_count), replace=False
    )
    needs = np.zeros((len(groups), bone_count + spec.count), bool)
    starts = np.concatenate([[0], np.cumsum([len(g) for g in groups])])[:-1]
    flat = np.concatenate(list(groups))
    with progress.task("asking the rig which controls move what", len(chosen) * spec.count) as bar:
        for pose in poses.controls[chosen]:
            far = np.where(pose > 0.5 * (spec.low + spec.high), spec.low, spec.high)
            for some in np.array_split(np.arange(spec.count), 1 + spec.count // _PERTURBED_AT_ONCE):
                values = np.tile(pose, (len(some) + 1, 1))
                values[np.arange(len(some)) + 1, some] = far[some]
                moved = rig.evaluate(values)
                d = displace(moved)
                furthest = np.maximum.reduceat(
                    np.linalg.norm(d[1:] - d[:1], axis=2)[:, flat], starts, axis=1
                ).T
                affected = np.greater(furthest, error)  # (groups, some controls)
                if skeleton is not None:
                    local = parent_from_bone(moved.world_from_bone, skeleton.parents).reshape(
                        len(values), bone_count, 12
                    )
                    turned = (
                        np.abs(local[1:] - local[:1]).max(axis=2) > 1e-6
                    )  # (some controls, bones)
                    needs[:, :bone_count] |= affected.astype(int) @ turned.astype(int) > 0
                needs[:, bone_count + some] |= affected
                bar.advance(len(some))
    return needs


def units_from_data(
    features: np.ndarray,
    unit: np.ndarray,
    targets: Sequence[np.ndarray],
    gain: float,
    most: int,
    progress: Progress,
) -> np.ndarray:
    """Learn the inputs from recorded poses: group-wise orthogonal matching pursuit, judged on poses
    kept aside.

    features (T,X) standardised; unit (X,); targets one (T,P) per group. For each group, units are
    added one at a time: the one whose numbers, together with those already in, leave the least
    squared error (ridge regression; a bone's matrix holds sines and cosines, so even a linear fit
    sees bends both ways). It stops when an addition no longer lowers the error on the kept-aside
    fifth by the share `gain`, or at `most` units. Returns (groups, units) bool.
    """
    unit_count = int(unit.max(initial=-1)) + 1
    present = np.unique(unit)
    columns_of = [np.flatnonzero(unit == u) for u in present]
    widest = max((len(c) for c in columns_of), default=0)
    # Blocks of time, not single poses, are kept aside: in an animation the next frame is nearly the
    # same frame.
    block = np.arange(len(features)) * 25 // max(1, len(features))
    aside = block % 5 == 2
    fit_x, test_x = features[~aside].astype(np.float64), features[aside].astype(np.float64)
    gram = fit_x.T @ fit_x
    ridge = 1e-3 * len(fit_x)
    padded = np.full((len(columns_of), widest), -1)
    for row, columns in zip(padded, columns_of):
        row[: len(columns)] = columns
    needs = np.zeros((len(targets), unit_count), bool)
    with progress.task("learning each network's inputs from the poses", len(targets)) as bar:
        for g, target in enumerate(targets):
            fit_y, test_y = target[~aside].astype(np.float64), target[aside].astype(np.float64)
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
            bar.advance()
    return needs


def _best_addition(gram, cross, inside, padded, taken, ridge) -> int:
    """The unit that lowers the training error most when it joins `inside`: all candidates at once,
    from Gram matrices alone.

    With S the Schur complement of the unit's own columns given those inside, and r their cross term
    with what is still unexplained, the squared error falls by tr(r^T S^-1 r).
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
    dead = missing[:, :, None] | missing[:, None, :]
    own = np.where(dead, 0.0, own) + ridge * np.eye(widest)
    right = np.where(missing[:, :, None], 0.0, right)
    fall = np.einsum("uap,uap->u", right, np.linalg.solve(own, right), optimize=True)
    fall[taken] = -1.0
    return int(fall.argmax())
