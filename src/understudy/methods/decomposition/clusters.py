"""Initial clusters: vertices that move together, one affine bone per cluster.

Clusters are added one at a time. The cluster with the largest error is split: its worst vertex and
the members that stay closest to it over all frames get a bone of their own. Then all vertices
choose their best bone again and all bones are fitted again, a few times.

Only the motion counts, not the connectivity of the mesh. Dem Bones starts from patches of the
surface, which fails on meshes of many disconnected parts.
"""

from __future__ import annotations

import numpy as np

from understudy.methods.decomposition.fit import Fit, WeightSearch, single_bone_fit
from understudy.methods.decomposition.motion import Motion
from understudy.methods.decomposition.transform_solve import solve_transforms
from understudy.methods.decomposition.weight_solve import no_weights, solve_weights

_ROUNDING = 1e-14  # squared rounding error of float32 coordinates in a mesh of unit size
_MIN_VERTICES = 8  # that a new bone is fitted to, if the cluster has as many
_REPEATS = 3  # of assigning and fitting after a split
_LAST_REPEATS = 10
_ONE_BONE = WeightSearch(influences=1, exchanges=0)


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


def distant_seeds(motion: Motion, count: int) -> np.ndarray:
    """Return vertices (count,), each with the trajectory most distant from those before it."""
    seeds = [int(np.argmax(motion.square))]
    nearest = np.full(motion.vertex_count, np.inf)
    while len(seeds) < count:
        nearest = np.minimum(nearest, _distances(motion, seeds[-1]))
        seeds.append(int(np.argmax(nearest)))
    return np.array(seeds)


def nearest_seed(motion: Motion, seeds: np.ndarray) -> np.ndarray:
    """Return the number (V,) int32 of the seed, a vertex, whose trajectory is nearest."""
    nearest = np.full(motion.vertex_count, np.inf)
    cluster = np.zeros(motion.vertex_count, np.int32)
    for number, seed in enumerate(seeds):
        distance = _distances(motion, int(seed))
        cluster[distance < nearest] = number
        nearest = np.minimum(nearest, distance)
    return cluster


def _distances(motion: Motion, vertex: int) -> np.ndarray:
    """Return the squared distance (V,) of all trajectories from that of a vertex."""
    return ((motion.targets - motion.targets[vertex]) ** 2).sum(axis=1)
