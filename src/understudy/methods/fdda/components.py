"""The principal components of groups of vertices, and the coefficients of every pose.

The components of a group minimise the share-weighted error. With s the share of each vertex in the
group, and rows of d scaled by sqrt(s),

    sqrt(s) d ~ Q c        Q (3n,P) orthonormal, principal components
    s d ~ U c,  c = U^T d  with U = sqrt(s) Q

so |c - c'|^2 is the share-weighted squared error of the vertices, and adding U_g c_g over all
groups gives the displacement. A group has the same components alone as beside others.

Letters: T poses, V vertices, n vertices of a group, P components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.geometry.pca import components_for_error, principal_components
from understudy.methods.skin_fitting.displacements import displacement_blocks
from understudy.system import memory, tasks
from understudy.system.progress import Task

_ERROR_POSES = 300  # enough to measure what a basis leaves
_BATCH_BYTES = 1 << 30  # of displacements held at a time, at most
_BATCH_SHARE = 0.25  # of the memory


@dataclass(frozen=True, eq=False)
class Membership:
    """The vertices of one group.

    label     its number
    vertices  (n,) int32
    share     (n,) the share of each vertex in this group
    """

    label: int
    vertices: np.ndarray
    share: np.ndarray


@dataclass(frozen=True, eq=False)
class Group(Membership):
    """The vertices that one network predicts.

    basis         (3n,P) float32, U: coefficients to displacements times the share
    coefficients  (T,P) float32, what the network has to predict
    """

    basis: np.ndarray
    coefficients: np.ndarray

    @property
    def core(self) -> np.ndarray:
        """The vertices that mostly belong to this group, and so determine its inputs."""
        return self.vertices[self.share >= min(0.3, self.share.max())]


@dataclass(frozen=True)
class BasisOptions:
    """How components are found.

    poses           example poses they are found from; None: all
    max_components  of a group
    error           mean distance per vertex that the components may leave
    """

    poses: int | None
    max_components: int
    error: float


@dataclass(frozen=True, eq=False)
class Components:
    """What was found for some groups.

    vertices  (m,) the vertices of these groups
    mean      (m,3) float32, their mean displacements
    groups    those that move relative to the skin
    """

    vertices: np.ndarray
    mean: np.ndarray
    groups: list[Group]


def components_of(
    poses: Poses,
    skin: Skin | None,
    given: Sequence[Membership],
    options: BasisOptions,
    task: Task,
) -> Components:
    """The components and coefficients of some groups.

    skin  the skin of the deformer; None where there are no bones
    task  is advanced by twice the number of poses
    Two passes read the poses block by block: the first collects a sample for the mean and the
    bases, the second projects every pose. Groups that do not fit in memory together have their own
    passes.
    """
    sample = evenly(poses.pose_count, options.poses)
    batches = _batches([len(group.vertices) for group in given], len(sample))
    share = _Share(task, len(batches))
    vertices = np.unique(np.concatenate([group.vertices for group in given]))
    mean = np.zeros((poses.vertex_count, 3), np.float32)
    groups: list[Group] = []
    for batch in batches:
        together = np.unique(np.concatenate([given[g].vertices for g in batch]))
        d = np.empty((len(sample), len(together), 3), np.float32)
        for where, block in displacement_blocks(poses, skin, sample, together, share):
            d[where] = block
        mean[together] = d.mean(axis=0, dtype=np.float64)
        d -= mean[together]
        parts = [
            (np.searchsorted(together, given[g].vertices), np.asarray(given[g].share))
            for g in batch
        ]
        bases = tasks.parallel_map(partial(_basis, d, options), parts)
        found = []
        for g, (columns, _), basis in zip(batch, parts, bases):
            if basis.shape[1]:
                one = given[g]
                coefficients = np.empty((poses.pose_count, basis.shape[1]), np.float32)
                group = Group(one.label, one.vertices, one.share, basis, coefficients)
                found.append((columns, group))
        del d
        for where, block in displacement_blocks(poses, skin, None, together, share):
            block -= mean[together]
            tasks.parallel_map(partial(_project, block, where), found)
        groups += [group for _, group in found]
    return Components(vertices, mean[vertices], groups)


class _Share(Task):
    """A part of a task: each step counts 1 / `parts`."""

    def __init__(self, task: Task, parts: int):
        self._task, self._parts = task, parts

    def advance(self, steps: float = 1) -> None:
        """Report that `steps` more are done."""
        self._task.advance(steps / self._parts)


def _project(block: np.ndarray, where: slice, part: tuple[np.ndarray, Group]) -> None:
    """Write the coefficients of the poses `where`, with displacements (t,n,3), to a group."""
    columns, group = part
    rows = block[:, columns].reshape(len(block), -1)
    group.coefficients[where] = rows @ group.basis


def _basis(d: np.ndarray, options: BasisOptions, part: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """U (3n,P) float32: the fewest components of a group that leave at most the error asked for.

    d     (S,N,3) displacements of several groups
    part  (n,) columns of the group in d, and the share (n,) of each in the group
    """
    columns, share = part
    root = np.sqrt(share).astype(np.float32)
    rows = (d[:, columns] * root[:, None]).reshape(len(d), -1)
    directions = principal_components(rows, options.max_components)[0].astype(np.float32)
    count = components_for_error(
        rows[evenly(len(rows), _ERROR_POSES)], directions, 1 / root, options.error
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
