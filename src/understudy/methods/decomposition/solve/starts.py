"""Where the alternating solve starts.

The solve ends in a local minimum, so it is started several times. Starts come from clusters of
vertices, split in different ways or given by the caller, and from rigid bones. With few frames,
affine bones are under-determined, and only rigid bones lead close to an exact skin.

Starts are computed on a sample of the vertices, and those of rigid bones also on a sample of the
frames.

Vertices of a cluster move together, with one affine bone. Clusters are added one at a time. The
cluster with the largest error is split: its worst vertex and the members that stay closest to it
over all frames get a bone of their own. Then all vertices choose their best bone again and all
bones are fitted again, a few times. Only the motion counts, not the connectivity of the mesh. Dem
Bones starts from patches of the surface, which fails on meshes of many disconnected parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from understudy.core.poses import evenly
from understudy.methods.decomposition.solve.motion import (
    Fit,
    Motion,
    WeightSearch,
    in_principal_directions,
    rows_of,
    single_bone_fit,
)
from understudy.methods.decomposition.solve.plan import InitialClusters, Plan
from understudy.methods.decomposition.solve.pruning import prune_bones
from understudy.methods.decomposition.solve.solves import (
    SWEEPS,
    nearest_rigid,
    no_weights,
    solve_alternating,
    solve_in_stages,
    solve_rigid_transforms,
    solve_transforms,
    solve_weights,
)

SPLIT_SHARES = (0.25, 0.1)  # of a cluster that a split takes; each is one start of affine bones
_RIGID_VERTICES, _RIGID_FRAMES = 1500, 32  # size of the sample for rigid starts
_CLUSTER_DETAIL = 1e-6  # share of the squared motion that clustering may ignore
_DETAIL = 1e-4  # share of the clusters' squared error that the first iterations may ignore
_GIVEN_REPEATS = 4  # of fitting given clusters and assigning the vertices again
_ROUNDING = 1e-14  # squared rounding error of float32 coordinates in a mesh of unit size
_MIN_VERTICES = 8  # that a new bone is fitted to, if the cluster has as many
_REPEATS = 3  # of assigning and fitting after a split
_LAST_REPEATS = 10
_ONE_BONE = WeightSearch(influences=1, exchanges=0)


def affine_starts(
    motion: Motion, sample: Motion, directions: np.ndarray, plan: Plan
) -> tuple[Motion, list[Fit]]:
    """Return the motion of a sample in its leading directions, and fits of affine bones to it.

    motion      the whole motion, (V,3F)
    sample      some vertices of it, in principal `directions` (3F,n)
    """
    clustered = [_clusters(sample, plan, share) for share in SPLIT_SHARES]
    if plan.clusters is not None:
        project = lambda some: some.projected(directions)
        clustered.append(_given_clusters(plan.clusters, plan.bones, sample, motion, project))
    leading = sample.leading_rows(_DETAIL * min(start.error for start in clustered))
    iterations = plan.iterations // 5
    starts = []
    for start in clustered:
        transforms = np.ascontiguousarray(start.transforms[: leading.rows])
        starts.append(
            solve_in_stages(leading, replace(start, transforms=transforms), plan, iterations)
        )
        plan.bar.advance()
    for one in without_and_with_clusters(plan):
        transforms = directions[:, : leading.rows].T @ rigid_start(motion, one)
        start = solve_weights(
            leading,
            np.ascontiguousarray(transforms),
            no_weights(leading),
            plan.search(thorough=True),
        )
        starts.append(solve_alternating(leading, start, plan, iterations))
        plan.bar.advance()
    return leading, starts


def rigid_start(motion: Motion, plan: Plan) -> np.ndarray:
    """Return rigid transforms (3F,4B) fitted to a sample, from clusters of `plan`, if any."""
    plan = replace(plan, rigid=True)
    vertices = evenly(motion.vertex_count, _RIGID_VERTICES)
    frames = evenly(motion.rows // 3, _RIGID_FRAMES)
    rows = rows_of(frames)
    all_frames, sample = motion.subset(vertices), motion.subset(vertices, rows)
    if plan.clusters is None:
        fit = _clusters(in_principal_directions(sample)[0], plan, SPLIT_SHARES[0])
    else:
        in_sampled_frames = lambda some: some.subset(np.arange(some.vertex_count), rows)
        fit = _given_clusters(plan.clusters, plan.bones, sample, motion, in_sampled_frames)
    fit = replace(fit, transforms=rigid_transforms(sample, fit, sweeps=1))
    fit = solve_in_stages(sample, fit, plan, plan.iterations // 12)
    return rigid_transforms(all_frames, fit, sweeps=4 * SWEEPS)


def without_and_with_clusters(plan: Plan) -> tuple[Plan, ...]:
    """Return the plan without given clusters, followed by the plan itself if it has any."""
    without = replace(plan, clusters=None)
    return (without,) if plan.clusters is None else (without, plan)


def rigid_transforms(motion: Motion, fit: Fit, sweeps: int) -> np.ndarray:
    """Return rigid transforms (3F,4B) for the weights of `fit`.

    The rotations closest to the affine transforms, then some sweeps of exact updates.
    """
    identity = np.tile(np.eye(3, 4), (motion.rows // 3, fit.bones))
    affine = solve_transforms(motion, replace(fit, transforms=identity))
    return solve_rigid_transforms(motion, replace(fit, transforms=nearest_rigid(affine)), sweeps)


def extend_rows(motion: Motion, fit: Fit, individual: float = 0.0) -> np.ndarray:
    """Return affine transforms on all rows of `motion`, for a fit to its leading rows."""
    transforms = np.zeros((motion.rows, 4 * fit.bones))
    transforms[: len(fit.transforms)] = fit.transforms
    return solve_transforms(motion, replace(fit, transforms=transforms), individual)


def _clusters(motion: Motion, plan: Plan, share: float) -> Fit:
    """Return clusters of `motion`, which is in principal directions."""
    leading = motion.leading_rows(_CLUSTER_DETAIL * float(motion.square.sum()))
    fit = grow_clusters(leading, one_cluster(leading), plan.bones, share)
    return assign(motion, extend_rows(motion, fit))


def _given_clusters(
    given: InitialClusters,
    bones: int,
    motion: Motion,
    whole: Motion,
    select: Callable[[Motion], Motion],
) -> Fit:
    """Return given clusters, pruned or split to the number of bones, on all vertices of `motion`.

    whole   the motion whose vertices the clusters refer to
    select  takes a subset of the vertices of `whole` to the rows of `motion`
    """
    labelled = select(whole.subset(given.vertices))
    label = np.unique(given.label, return_inverse=True)[1]
    fit = single_bone_fit(labelled, label, int(label.max()) + 1)
    fit = refine_clusters(labelled, fit, _GIVEN_REPEATS)
    if fit.bones > bones:
        fit = prune_bones(labelled, fit, bones, influences=1)
    else:
        fit = grow_clusters(labelled, fit, bones)
    return refine_clusters(motion, assign(motion, fit.transforms), _GIVEN_REPEATS)


def one_cluster(motion: Motion) -> Fit:
    """Return the fit of all vertices to one affine bone."""
    start = single_bone_fit(motion, np.zeros(motion.vertex_count), 1)
    return assign(motion, solve_transforms(motion, start))


def assign(motion: Motion, transforms: np.ndarray) -> Fit:
    """Return the fit in which every vertex follows the bone of `transforms` that suits it best."""
    return solve_weights(motion, transforms, no_weights(motion), _ONE_BONE)


def refine_clusters(motion: Motion, fit: Fit, repeats: int) -> Fit:
    """Return clusters after fitting the bones and assigning the vertices again, `repeats` times."""
    for _ in range(repeats):
        fit = assign(motion, solve_transforms(motion, fit))
    return fit


def grow_clusters(motion: Motion, fit: Fit, bones: int, share: float = 0.25) -> Fit:
    """Return clusters split until there are `bones`, or until the fit is exact.

    share  of the members of a split cluster that its worst vertex takes along
    """
    exact = _ROUNDING * motion.vertex_count * motion.rows
    while fit.bones < bones and fit.error > exact:
        transforms = np.column_stack([fit.transforms, split_transform(motion, fit, share)])
        fit = refine_clusters(motion, assign(motion, transforms), _REPEATS)
    return refine_clusters(motion, fit, _LAST_REPEATS)


def split_transform(motion: Motion, fit: Fit, share: float) -> np.ndarray:
    """Return the affine transform (R,4) that splits the cluster with the largest error.

    It is fitted to the worst vertex of that cluster and to `share` of its members around it.
    """
    cluster = int(np.argmax(np.bincount(fit.index[:, 0], fit.vertex_errors, fit.bones)))
    members = np.flatnonzero(fit.index[:, 0] == cluster)
    seed = members[np.argmax(fit.vertex_errors[members])]
    away = ((motion.targets[members] - motion.targets[seed]) ** 2).sum(axis=1) * (3 / motion.rows)
    away += ((motion.rest[members] - motion.rest[seed]) ** 2).sum(axis=1)
    count = max(_MIN_VERTICES, int(share * len(members)))
    near = members[np.argsort(away, kind="stable")[:count]]
    rest, targets = motion.rest[near, :3], motion.targets[near]
    rest_mean, target_mean = rest.mean(axis=0), targets.mean(axis=0)
    rest, targets = rest - rest_mean, targets - target_mean
    # Where the vertices are coplanar or too few, the ridge takes the transform of the cluster.
    before = fit.transforms[:, 4 * cluster : 4 * cluster + 3]
    gram = rest.T @ rest
    ridge = 1e-4 * np.trace(gram) / 3 + 1e-300
    linear = np.linalg.solve(gram + ridge * np.eye(3), rest.T @ targets + ridge * before.T).T
    return np.column_stack([linear, target_mean - linear @ rest_mean])
