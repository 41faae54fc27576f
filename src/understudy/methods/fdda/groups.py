"""Groups of vertices of `fdda`: the skin, one group per bone, and the principal components of each.

A group is the set of vertices that one network predicts. Groups overlap at their borders: vertex v
has the share s_vg in group g, with sum_g s_vg = 1 (`soft_membership`). The components of a group
minimise the share-weighted error: with rows of d scaled by sqrt(s),

    sqrt(s) d ~ Q c        Q (3n,P) orthonormal, principal components
    s d ~ U c,  c = U^T d  with U = sqrt(s) Q

so |c - c'|^2 is the share-weighted squared error of the vertices, and adding U_g c_g over all
groups gives the displacement.

Letters: T poses, V vertices, n vertices of a group, P components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from understudy.core import memory, tasks
from understudy.core.poses import Poses, evenly
from understudy.core.progress import Progress
from understudy.core.skin import Skin
from understudy.geometry.pca import components_for_error, principal_components
from understudy.methods.skin_fitting.best_bone import best_bone, reduce_bones, rigid_errors
from understudy.methods.skin_fitting.blended_skin import blended_skin, soft_membership
from understudy.methods.skin_fitting.displacements import displacement_blocks

# Enough poses to assign bones, and to measure what a basis leaves.
_ASSIGNMENT_POSES = 1000
_ERROR_POSES = 300
_BATCH_BYTES = 1 << 30  # of displacements held at a time, at most
_BATCH_SHARE = 0.25  # of the memory


class GroupOptions(Protocol):
    """The options that groups depend on, as in `FddaConfig`."""

    @property
    def seam_rings(self) -> int: ...

    @property
    def basis_poses(self) -> int | None: ...

    @property
    def max_components(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Group:
    """The vertices that one network predicts.

    label         its number
    vertices      (n,) int32
    share         (n,) the share of each vertex in this group
    basis         (3n,P) float32, U: coefficients to displacements times the share
    coefficients  (T,P) float32, what the network has to predict
    """

    label: int
    vertices: np.ndarray
    share: np.ndarray
    basis: np.ndarray
    coefficients: np.ndarray

    @property
    def core(self) -> np.ndarray:
        """The vertices that mostly belong to this group, and so determine its inputs."""
        return self.vertices[self.share >= min(0.3, self.share.max())]


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
    members = [shares.indices[span].astype(np.int32) for span in spans]
    sample = evenly(poses.pose_count, config.basis_poses)
    mean = np.zeros((poses.vertex_count, 3), np.float32)
    groups: list[Group] = []
    batches = _batches([len(m) for m in members], len(sample))
    total = 2 * len(batches) * poses.pose_count
    with progress.task("finding the components of each group", total) as task:
        for batch in batches:
            together = np.unique(np.concatenate([members[g] for g in batch]))
            d = np.empty((len(sample), len(together), 3), np.float32)
            for where, block in displacement_blocks(poses, skin, sample, together, task):
                d[where] = block
            mean[together] = d.mean(axis=0, dtype=np.float64)
            d -= mean[together]
            parts = [(np.searchsorted(together, members[g]), shares.data[spans[g]]) for g in batch]
            bases = tasks.parallel_map(
                partial(_basis, d, config.max_components, basis_error), parts
            )
            found = []
            for g, (columns, share), basis in zip(batch, parts, bases):
                if basis.shape[1]:
                    coefficients = np.empty((poses.pose_count, basis.shape[1]), np.float32)
                    found.append((columns, Group(g, members[g], share, basis, coefficients)))
            del d
            for where, block in displacement_blocks(poses, skin, None, together, task):
                block -= mean[together]
                tasks.parallel_map(partial(_project, block, where), found)
            groups += [group for _, group in found]
    return Groups(mean, groups)


def _project(block: np.ndarray, where: slice, part: tuple[np.ndarray, Group]) -> None:
    """Write the coefficients of the poses `where`, with displacements (t,n,3), to a group."""
    columns, group = part
    rows = block[:, columns].reshape(len(block), -1)
    group.coefficients[where] = rows @ group.basis


def _basis(
    d: np.ndarray, most: int, basis_error: float, part: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """U (3n,P) float32: the fewest components of a group that leave at most `basis_error`.

    d     (S,N,3) displacements of several groups
    part  (n,) columns of the group in d, and the share (n,) of each in the group
    """
    columns, share = part
    root = np.sqrt(share).astype(np.float32)
    rows = (d[:, columns] * root[:, None]).reshape(len(d), -1)
    directions = principal_components(rows, most)[0].astype(np.float32)
    count = components_for_error(
        rows[evenly(len(rows), _ERROR_POSES)], directions, 1 / root, basis_error
    )
    return directions[:, :count] * np.repeat(root, 3)[:, None]


def _batches(sizes: Sequence[int], pose_count: int) -> list[list[int]]:
    """Group numbers in batches whose displacements over `pose_count` poses fit in memory."""
    batches: list[list[int]] = [[]]
    held, most = 0, memory.share(_BATCH_SHARE, _BATCH_BYTES)
    for g, size in enumerate(sizes):
        if batches[-1] and held + size * pose_count * 12 > most:
            batches.append([])
            held = 0
        batches[-1].append(g)
        held += size * pose_count * 12
    return batches
