"""The principal components of the displacements of a skin, region by region.

A group is a set of vertices with components of its own: a region, which overlaps others at its
borders. Vertex v has the share s_vg in group g, with sum_g s_vg = 1 (`soft_membership`). The
components of a group minimise the share-weighted error. With s the share of each vertex, and rows
of d scaled by sqrt(s),

    sqrt(s) d ~ Q c        Q (3n,P) orthonormal, principal components
    s d ~ U c,  c = U^T d  with U = sqrt(s) Q

so |c - c'|^2 is the share-weighted squared error of the vertices, and adding U_g c_g over all
groups gives the displacement.

A group has the same components alone as beside others. So on a cluster every worker reads its
groups from the pose store, and the bytes are the same.

Letters: T poses, V vertices, R regions, G groups, n vertices of a group, P components.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from understudy.core.networks import Basis
from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.geometry.pca import components_for_error, principal_components
from understudy.io.array_parts import Arrays, compute_parts
from understudy.io.pose_store import Place, StoredVertices, open_poses, provenance
from understudy.methods.correctives.session import FitSession
from understudy.methods.skin_fitting.blended_skin import soft_membership
from understudy.methods.skin_fitting.displacements import displacement_blocks
from understudy.system import cluster, memory, tasks
from understudy.system.cluster import Workers
from understudy.system.progress import Task

_ERROR_POSES = 300  # enough to measure what a basis leaves
_BATCH_BYTES = 1 << 30  # of displacements held at a time, at most
_BATCH_SHARE = 0.25  # of the memory
_SHARES = ("data", "indices", "indptr")


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
    """The groups whose vertices move relative to the skin.

    mean        (V,3) float32, mean displacement
    groups      the groups
    network_of  (G,) the network that predicts each group, from 0 without gaps
    """

    mean: np.ndarray
    groups: list[Group]
    network_of: np.ndarray

    @property
    def networks(self) -> list[list[Group]]:
        """The groups of each network."""
        count = int(self.network_of.max(initial=-1)) + 1
        return [
            [self.groups[g] for g in np.flatnonzero(self.network_of == n)] for n in range(count)
        ]

    @property
    def cores(self) -> list[np.ndarray]:
        """The vertices (n,) that determine the inputs of each network."""
        return [np.unique(np.concatenate([g.core for g in own])) for own in self.networks]

    @property
    def targets(self) -> list[np.ndarray]:
        """The coefficients (T,P) that each network predicts."""
        return [np.concatenate([g.coefficients for g in own], axis=1) for own in self.networks]

    def project(self, displacements: np.ndarray) -> list[np.ndarray]:
        """The coefficients (t,P) of each network, of displacements (t,V,3)."""
        block = displacements - self.mean
        rows = lambda group: block[:, group.vertices].reshape(len(block), -1) @ group.basis
        return [np.concatenate([rows(g) for g in own], axis=1) for own in self.networks]

    @property
    def bases(self) -> list[Basis]:
        """The bases of the deformer, whose coefficients the networks write one after the other."""
        result, first = [], 0
        for group in (group for own in self.networks for group in own):
            numbers = np.arange(first, first + group.basis.shape[1])
            result.append(Basis(group.vertices, group.basis, numbers))
            first += len(numbers)
        return result


@dataclass(frozen=True)
class BasisOptions:
    """How components are found.

    poses           example poses they are found from; None: all
    max_components  of a group
    error           mean distance per vertex that the components may leave; 0: all are kept
    """

    poses: int | None
    max_components: int
    error: float


# Mean displacements (V,3) float32, and the groups that move relative to the skin.
Found = tuple[np.ndarray, list[Group]]


def find_groups(
    session: FitSession,
    labels: np.ndarray,
    seam_rings: int = 0,
    network_of: np.ndarray | None = None,
    components: int | None = None,
) -> Groups:
    """The principal components and coefficients of every region that moves relative to the skin.

    labels      (V,) the region of each vertex, from 0 without gaps
    seam_rings  rings of edges over which neighbouring regions are blended
    network_of  (R,) the network of each region; None: each has its own
    components  number of components of a region; None: the fewest that the basis error allows
    """
    config, poses, skin = session.config, session.poses, session.skin
    options = BasisOptions(config.basis_poses, config.max_components, session.basis_error)
    if components is not None:
        options = BasisOptions(config.basis_poses, components, 0.0)
    shares = soft_membership(poses.mesh, labels, seam_rings).tocsc()
    shares.sort_indices()
    workers = cluster.current()
    with session.progress.task("finding components", 2 * poses.pose_count) as task:
        if workers is not None and isinstance(poses.vertices, StoredVertices):
            mean, groups = _on_cluster(workers, poses.vertices.path, skin, shares, options, task)
        else:
            every = np.arange(shares.shape[1])
            mean, groups = components_of(poses, skin, shares, every, options, task)
    label = np.array([group.label for group in groups], int)
    network = label if network_of is None else network_of[label]
    return Groups(mean, groups, np.unique(network, return_inverse=True)[1].reshape(-1))


def components_of(
    poses: Poses,
    skin: Skin | None,
    shares: sp.csc_matrix,
    labels: np.ndarray,
    options: BasisOptions,
    task: Task,
) -> Found:
    """The components and coefficients of some groups.

    skin    the skin of the deformer; None where there are no bones
    shares  (V,G) the share of each vertex in each group, its rows in order
    labels  (g,) numbers of these groups
    task    is advanced by twice the number of poses
    Two passes read the poses block by block: the first collects a sample for the mean and the
    bases, the second projects every pose. Groups that do not fit in memory together have their own
    passes.
    """
    sample = evenly(poses.pose_count, options.poses)
    batches = _batches(labels, np.diff(shares.indptr), len(sample))
    share = _Share(task, len(batches))
    mean = np.zeros((poses.vertex_count, 3), np.float32)
    groups: list[Group] = []
    for batch in batches:
        together = np.unique(shares[:, batch].nonzero()[0])
        d = np.empty((len(sample), len(together), 3), np.float32)
        for where, block in displacement_blocks(poses, skin, sample, together, share):
            d[where] = block
        mean[together] = d.mean(axis=0, dtype=np.float64)
        d -= mean[together]
        spans = [slice(*shares.indptr[g : g + 2]) for g in batch]
        parts = [(shares.indices[s].astype(np.int32), shares.data[s]) for s in spans]
        columns = [np.searchsorted(together, vertices) for vertices, _ in parts]
        bases = tasks.parallel_map(
            partial(_basis, d, options), [(own, part[1]) for own, part in zip(columns, parts)]
        )
        found = [
            (own, Group(label, *part, basis, np.empty((poses.pose_count, basis.shape[1]), "f4")))
            for label, own, part, basis in zip(batch, columns, parts, bases)
            if basis.shape[1]
        ]
        del d
        for where, block in displacement_blocks(poses, skin, None, together, share):
            block -= mean[together]
            tasks.parallel_map(partial(_project, block, where), found)
        groups += [group for _, group in found]
    return mean, groups


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


def _batches(labels: np.ndarray, sizes: np.ndarray, pose_count: int) -> list[list[int]]:
    """Group numbers in batches whose displacements over `pose_count` poses fit in memory."""
    batches: list[list[int]] = [[]]
    held, most = 0, memory.share(_BATCH_SHARE, _BATCH_BYTES)
    for g in labels.tolist():
        needed = int(sizes[g]) * pose_count * 12
        if batches[-1] and held + needed > most:
            batches.append([])
            held = 0
        batches[-1].append(g)
        held += needed
    return batches


def _on_cluster(
    workers: Workers,
    store: Place,
    skin: Skin | None,
    shares: sp.csc_matrix,
    options: BasisOptions,
    task: Task,
) -> Found:
    """The result of `components_of` for the poses of a store, from the workers of a cluster."""
    # Nearly equal numbers of vertices in few parts: each reads the tiles that its vertices lie in.
    ends = shares.indptr[1:].astype(np.int64)
    part = (ends - 1) * workers.count // max(1, int(ends[-1]))
    parts = [np.flatnonzero(part == k) for k in np.unique(part)]
    blend = None if skin is None else skin.blend
    common = {name: getattr(shares, name) for name in _SHARES}
    if skin is not None:
        common |= {"bone_index": skin.bone_index, "weight": skin.weight}
    found = compute_parts(
        workers,
        "groups",
        [provenance(store), asdict(options), blend],
        common,
        [{"labels": labels} for labels in parts],
        _Finding(store.absolute(), options, blend),
        2 * open_poses(store).pose_count,
        _Share(task, len(parts)),
    )
    mean, groups = np.zeros((shares.shape[0], 3), np.float32), []
    for labels, arrays in zip(parts, found):
        own = np.unique(shares[:, labels].nonzero()[0])
        mean[own] = arrays["mean"][own]
        for label in labels.tolist():
            if f"{label}.basis" in arrays:
                names = ("vertices", "share", "basis", "coefficients")
                groups.append(Group(label, *(arrays[f"{label}.{name}"] for name in names)))
    return mean, groups


class _Finding:
    """The work: the components of the groups of a part."""

    def __init__(self, store: Place, options: BasisOptions, blend: str | None):
        self._store, self._options, self._blend = store, options, blend
        self._poses: Poses | None = None

    def __call__(self, common: Arrays, part: Arrays, task: Task, checkpoint: Path) -> Arrays:
        if self._poses is None:
            self._poses = open_poses(self._store)
        skin = None
        if self._blend is not None:
            skin = Skin(common["bone_index"], common["weight"], blend=self._blend)
        shares = sp.csc_matrix(
            tuple(common[name] for name in _SHARES),
            shape=(self._poses.vertex_count, len(common["indptr"]) - 1),
        )
        mean, groups = components_of(self._poses, skin, shares, part["labels"], self._options, task)
        arrays = {"mean": mean}
        for group in groups:
            for name in ("vertices", "share", "basis", "coefficients"):
                arrays[f"{group.label}.{name}"] = getattr(group, name)
        return arrays
