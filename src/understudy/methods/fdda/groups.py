"""Groups of vertices of `fdda`: the skin, one group per bone, and the principal components of each.

A group is the set of vertices that one network predicts. Groups overlap at their borders: vertex v
has the share s_vg in group g, with sum_g s_vg = 1 (`soft_membership`). `components.py` finds the
components of each group.

Letters: T poses, V vertices, n vertices of a group, P components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.io.pose_store import StoredVertices
from understudy.methods.fdda.cluster_groups import groups_on_cluster
from understudy.methods.fdda.components import BasisOptions, Group, Membership, components_of
from understudy.methods.skin_fitting.best_bone import best_bone, reduce_bones, rigid_errors
from understudy.methods.skin_fitting.blended_skin import blended_skin, soft_membership
from understudy.system import cluster
from understudy.system.progress import Progress

__all__ = ["Group", "Groups", "assign_bones", "find_groups", "find_skin"]

_ASSIGNMENT_POSES = 1000  # enough to assign bones


class GroupOptions(Protocol):
    """The options that groups depend on, as in `FddaConfig`."""

    @property
    def seam_rings(self) -> int: ...

    @property
    def basis_poses(self) -> int | None: ...

    @property
    def max_components(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups whose vertices move relative to the skin, and the mean displacement (V,3)."""

    mean: np.ndarray
    groups: list[Group]

    def coefficients(self, displacements: np.ndarray) -> list[np.ndarray]:
        """The coefficients (t,P) of every group, of displacements (t,V,3)."""
        block = displacements - self.mean
        return [
            block[:, group.vertices].reshape(len(block), -1) @ group.basis for group in self.groups
        ]


def assign_bones(poses: Poses, tau: float) -> np.ndarray:
    """The bone of each vertex, (V,): the best one over example poses, of as few bones as allowed.

    tau  factor by which removing bones may increase the error (sections 3.1.1 and 3.3.3)
    """
    errors = rigid_errors(poses, evenly(poses.pose_count, _ASSIGNMENT_POSES))
    return best_bone(errors, reduce_bones(errors, tau))


def find_skin(poses: Poses, tau: float, rings: int, progress: Progress) -> tuple[Skin, np.ndarray]:
    """The skin, blended over `rings` rings, and the group of each vertex (V,), numbered from 0."""
    with progress.task("finding each vertex's best bone", 1) as task:
        bones = assign_bones(poses, tau)
        task.advance()
    labels = np.unique(bones, return_inverse=True)[1].reshape(-1)
    return blended_skin(poses, bones, rings), labels


def find_groups(
    poses: Poses,
    skin: Skin | None,
    labels: np.ndarray,
    config: GroupOptions,
    basis_error: float,
    progress: Progress,
) -> Groups:
    """The principal components and coefficients of every group.

    skin         the skin of the deformer; None where there are no bones
    labels       (V,) the group of each vertex
    basis_error  mean distance per vertex that the components may leave
    A group that does not move relative to the skin is left out. Two passes read the poses block by
    block: the first collects a sample for the mean and the bases, the second projects every pose.
    """
    shares = soft_membership(poses.mesh, labels, config.seam_rings).tocsc()
    shares.sort_indices()
    spans = [slice(*shares.indptr[g : g + 2]) for g in range(shares.shape[1])]
    given = [
        Membership(g, shares.indices[span].astype(np.int32), shares.data[span])
        for g, span in enumerate(spans)
    ]
    mean = np.zeros((poses.vertex_count, 3), np.float32)
    options = BasisOptions(config.basis_poses, config.max_components, float(basis_error))
    workers = cluster.current()
    with progress.task("finding the components of each group", 2 * poses.pose_count) as task:
        if workers is not None and isinstance(poses.vertices, StoredVertices):
            found = groups_on_cluster(workers, poses.vertices.path, skin, given, options, task)
        else:
            found = components_of(poses, skin, given, options, task)
    mean[found.vertices] = found.mean
    return Groups(mean, found.groups)
