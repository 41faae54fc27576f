"""Components of groups on a cluster: every worker reads its groups from the pose store.

Files in the cluster's folder connect driver and workers, as in `training/cluster_training.py`:
`skin.safetensors`, `groups-K.safetensors` (vertices and shares of the groups of part K), and what
was found, `groups-K.found`. The bytes are those without a cluster, because a group has the same
components alone as beside others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import numpy as np

from understudy.core.poses import Poses
from understudy.core.skin import Skin
from understudy.io.array_file import read_arrays, write_arrays
from understudy.io.pose_store import Place, open_poses, provenance
from understudy.methods.fdda.components import (
    BasisOptions,
    Components,
    Group,
    Membership,
    components_of,
)
from understudy.system.cluster import Advance, PartTask, Workers
from understudy.system.progress import Task

_DIGITS = 24  # of the fingerprint


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
            pool.run(missing, [whole] * len(missing), _Part(task, len(parts)))
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


class _Part(Task):
    """Counts steps of one part of several."""

    def __init__(self, task: Task, parts: int):
        self._task, self._parts = task, parts

    def advance(self, steps: float = 1) -> None:
        """Report that `steps` more are done."""
        self._task.advance(steps / self._parts)


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
