"""Groups of vertices of `fdda`: the skin, one group per bone, and the principal components of each.

A group is the set of vertices that one network predicts. Groups overlap at their borders: vertex v
has the share s_vg in group g, with sum_g s_vg = 1 (`soft_membership`). The components of a group
minimise the share-weighted error. With s the share of each vertex, and rows of d scaled by sqrt(s),

    sqrt(s) d ~ Q c        Q (3n,P) orthonormal, principal components
    s d ~ U c,  c = U^T d  with U = sqrt(s) Q

so |c - c'|^2 is the share-weighted squared error of the vertices, and adding U_g c_g over all
groups gives the displacement.

A group has the same components alone as beside others. So on a cluster every worker reads its
groups from the pose store, and the bytes are the same. Files in the cluster's folder connect driver
and workers, as in `training/trainer.py`: `skin.safetensors`, `groups-K.safetensors` (vertices and
shares of the groups of part K), and what was found, `groups-K.found`.

Letters: T poses, V vertices, n vertices of a group, P components.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from understudy.core.poses import Poses, evenly
from understudy.core.skin import Skin
from understudy.geometry.pca import components_for_error, principal_components
from understudy.io.array_file import read_arrays, write_arrays
from understudy.io.pose_store import Place, StoredVertices, open_poses, provenance
from understudy.methods.skin_fitting.best_bone import best_bone, reduce_bones, rigid_errors
from understudy.methods.skin_fitting.blended_skin import blended_skin, soft_membership
from understudy.methods.skin_fitting.displacements import displacement_blocks
from understudy.system import cluster, memory, tasks
from understudy.system.cluster import Advance, PartTask, Workers
from understudy.system.progress import Progress, Task

_ASSIGNMENT_POSES = 1000  # enough to assign bones
_ERROR_POSES = 300  # enough to measure what a basis leaves
_BATCH_BYTES = 1 << 30  # of displacements held at a time, at most
_BATCH_SHARE = 0.25  # of the memory
_DIGITS = 24  # of the fingerprint


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
    """The groups whose vertices move relative to the skin, and the mean displacement (V,3)."""

    mean: np.ndarray
    groups: list[Group]

    def coefficients(self, displacements: np.ndarray) -> list[np.ndarray]:
        """The coefficients (t,P) of every group, of displacements (t,V,3)."""
        block = displacements - self.mean
        return [
            block[:, group.vertices].reshape(len(block), -1) @ group.basis for group in self.groups
        ]


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


def assign_bones(poses: Poses, tau: float) -> np.ndarray:
    """The best bone (V,) of each vertex, of as few as `tau` allows (sections 3.1.1 and 3.3.3)."""
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
    seam_rings: int,
    options: BasisOptions,
    progress: Progress,
) -> Groups:
    """The principal components and coefficients of every group that moves relative to the skin.

    skin        None where there are no bones
    labels      (V,) the group of each vertex
    seam_rings  rings of edges over which neighbouring groups are blended
    """
    shares = soft_membership(poses.mesh, labels, seam_rings).tocsc()
    shares.sort_indices()
    spans = [slice(*shares.indptr[g : g + 2]) for g in range(shares.shape[1])]
    given = [
        Membership(g, shares.indices[span].astype(np.int32), shares.data[span])
        for g, span in enumerate(spans)
    ]
    mean = np.zeros((poses.vertex_count, 3), np.float32)
    workers = cluster.current()
    with progress.task("finding the components of each group", 2 * poses.pose_count) as task:
        if workers is not None and isinstance(poses.vertices, StoredVertices):
            found = groups_on_cluster(workers, poses.vertices.path, skin, given, options, task)
        else:
            found = components_of(poses, skin, given, options, task)
    mean[found.vertices] = found.mean
    return Groups(mean, found.groups)


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


def groups_on_cluster(
    workers: Workers,
    store: Place,
    skin: Skin | None,
    given: Sequence[Membership],
    options: BasisOptions,
    task: Task,
) -> Components:
    """The result of `components_of` for the poses of a store, from the workers of a cluster."""
    skin_arrays = {} if skin is None else _skin_arrays(skin)
    parts = _even_parts(given, workers.count)
    packed = [_packed(part) for part in parts]
    facts = [provenance(store), asdict(options), "" if skin is None else skin.blend]
    folder = workers.folder / f"groups-{_fingerprint(facts, [skin_arrays, *packed])}"
    missing = [k for k in range(len(parts)) if not (folder / f"groups-{k}.found").exists()]
    count = open_poses(store).pose_count
    whole = 2 * count
    task.advance(whole * (1 - len(missing) / len(parts)))
    if missing:
        if skin is not None:
            write_arrays(folder / "skin.safetensors", skin_arrays)
        for k in missing:
            write_arrays(folder / f"groups-{k}.safetensors", packed[k])
        work = _Finding(store.absolute(), folder, options, None if skin is None else skin.blend)
        with workers.pool(work, len(missing)) as pool:
            pool.run(missing, [whole] * len(missing), _Share(task, len(parts)))
    found = [_read(folder / f"groups-{k}.found", part) for k, part in enumerate(parts)]
    vertices = np.concatenate([part.vertices for part in found])
    return Components(
        vertices,
        np.concatenate([part.mean for part in found]),
        [group for part in found for group in part.groups],
    )


class _Finding:
    """The work: the components of the groups of part `k`."""

    def __init__(self, store: Place, folder: Path, options: BasisOptions, blend: str | None):
        self._store, self._folder, self._options, self._blend = store, folder, options, blend
        self._opened: tuple[Poses, Skin | None] | None = None

    def __call__(self, k: int, advance: Advance) -> None:
        if self._opened is None:
            skin = None
            if self._blend is not None:
                skin = Skin(**read_arrays(self._folder / "skin.safetensors"), blend=self._blend)
            self._opened = open_poses(self._store), skin
        given = _unpacked(read_arrays(self._folder / f"groups-{k}.safetensors"))
        found = components_of(*self._opened, given, self._options, PartTask(advance))
        arrays = {"vertices": found.vertices, "mean": found.mean}
        for group in found.groups:
            arrays[f"{group.label}.basis"] = group.basis
            arrays[f"{group.label}.coefficients"] = group.coefficients
        write_arrays(self._folder / f"groups-{k}.found", arrays)


def _even_parts(given: Sequence[Membership], most: int) -> list[list[Membership]]:
    """The groups in at most `most` parts of nearly equal numbers of vertices, in their order.

    A part reads the tiles of the store that its vertices lie in, so there are few parts.
    """
    ends = np.cumsum([len(group.vertices) for group in given])
    part = (ends - 1) * most // max(1, int(ends[-1]))
    return [[given[int(g)] for g in np.flatnonzero(part == k)] for k in np.unique(part)]


def _skin_arrays(skin: Skin) -> dict[str, np.ndarray]:
    return {name: array for name, array in vars(skin).items() if isinstance(array, np.ndarray)}


def _packed(part: Sequence[Membership]) -> dict[str, np.ndarray]:
    arrays = {}
    for group in part:
        arrays[f"{group.label}.vertices"] = group.vertices
        arrays[f"{group.label}.share"] = group.share
    return arrays


def _unpacked(arrays: Mapping[str, np.ndarray]) -> list[Membership]:
    labels = sorted(int(name.partition(".")[0]) for name in arrays if name.endswith(".share"))
    return [Membership(g, arrays[f"{g}.vertices"], arrays[f"{g}.share"]) for g in labels]


def _read(path: Path, part: Sequence[Membership]) -> Components:
    arrays = read_arrays(path)
    groups = [
        Group(
            one.label,
            one.vertices,
            one.share,
            arrays[f"{one.label}.basis"],
            arrays[f"{one.label}.coefficients"],
        )
        for one in part
        if f"{one.label}.basis" in arrays
    ]
    return Components(arrays["vertices"], arrays["mean"], groups)


def _fingerprint(facts: object, arrays: Sequence[Mapping[str, np.ndarray]]) -> str:
    """A short hash of what the result depends on."""
    digest = sha256(json.dumps(facts, sort_keys=True).encode())
    for part in arrays:
        for name in sorted(part):
            digest.update(f"{name}{part[name].dtype}{part[name].shape}".encode())
            digest.update(np.ascontiguousarray(part[name]).data)
    return digest.hexdigest()[:_DIGITS]
