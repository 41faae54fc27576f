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

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

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
    spans = [slice(*shares.indptr[g : g + 2]) for g in range(shares.shape[1])]
    given = [
        Membership(g, shares.indices[span].astype(np.int32), shares.data[span])
        for g, span in enumerate(spans)
    ]
    mean = np.zeros((poses.vertex_count, 3), np.float32)
    workers = cluster.current()
    with session.progress.task("finding components", 2 * poses.pose_count) as task:
        if workers is not None and isinstance(poses.vertices, StoredVertices):
            found = _on_cluster(workers, poses.vertices.path, skin, given, options, task)
        else:
            found = components_of(poses, skin, given, options, task)
    mean[found.vertices] = found.mean
    label = np.array([group.label for group in found.groups], int)
    network = label if network_of is None else network_of[label]
    return Groups(mean, found.groups, np.unique(network, return_inverse=True)[1].reshape(-1))


def components_of(
    poses: Poses, skin: Skin | None, given: Sequence[Membership], options: BasisOptions, task: Task
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


def _on_cluster(
    workers: Workers,
    store: Place,
    skin: Skin | None,
    given: Sequence[Membership],
    options: BasisOptions,
    task: Task,
) -> Components:
    """The result of `components_of` for the poses of a store, from the workers of a cluster."""
    parts = _even_parts(given, workers.count)
    blend = None if skin is None else skin.blend
    common = {} if skin is None else {"bone_index": skin.bone_index, "weight": skin.weight}
    found = compute_parts(
        workers,
        "groups",
        [provenance(store), asdict(options), blend],
        common,
        [_packed(part) for part in parts],
        _Finding(store.absolute(), options, blend),
        2 * open_poses(store).pose_count,
        _Share(task, len(parts)),
    )
    return Components(
        np.concatenate([arrays["vertices"] for arrays in found]),
        np.concatenate([arrays["mean"] for arrays in found]),
        [
            Group(**vars(one), basis=arrays[f"{one.label}.basis"], coefficients=arrays[name])
            for part, arrays in zip(parts, found)
            for one in part
            if (name := f"{one.label}.coefficients") in arrays
        ],
    )


class _Finding:
    """The work: the components of the groups of a part."""

    def __init__(self, store: Place, options: BasisOptions, blend: str | None):
        self._store, self._options, self._blend = store, options, blend
        self._poses: Poses | None = None

    def __call__(self, common: Arrays, part: Arrays, task: Task, checkpoint: Path) -> Arrays:
        if self._poses is None:
            self._poses = open_poses(self._store)
        skin = None if self._blend is None else Skin(**common, blend=self._blend)
        labels = sorted(int(name.partition(".")[0]) for name in part if name.endswith(".share"))
        given = [Membership(g, part[f"{g}.vertices"], part[f"{g}.share"]) for g in labels]
        found = components_of(self._poses, skin, given, self._options, task)
        arrays = {"vertices": found.vertices, "mean": found.mean}
        for group in found.groups:
            arrays[f"{group.label}.basis"] = group.basis
            arrays[f"{group.label}.coefficients"] = group.coefficients
        return arrays


def _even_parts(given: Sequence[Membership], most: int) -> list[list[Membership]]:
    """The groups in at most `most` parts of nearly equal numbers of vertices, in their order.

    A part reads the tiles of the store that its vertices lie in, so there are few parts.
    """
    ends = np.cumsum([len(group.vertices) for group in given])
    part = (ends - 1) * most // max(1, int(ends[-1]))
    return [[given[int(g)] for g in np.flatnonzero(part == k)] for k in np.unique(part)]


def _packed(part: Sequence[Membership]) -> dict[str, np.ndarray]:
    arrays = {}
    for group in part:
        arrays[f"{group.label}.vertices"] = group.vertices
        arrays[f"{group.label}.share"] = group.share
    return arrays
