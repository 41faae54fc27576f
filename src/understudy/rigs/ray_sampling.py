"""Sampling with the workers of a Ray cluster: actors that keep a rig open between blocks.

An actor gets the path of the store and what builds the rig, never poses: it writes its blocks to
the store, on a disk that all nodes share. The bytes are those of one machine, because
`sample_block` is the same. A block whose actor or node died is given to another actor. If the
driver dies, its actors end; finished blocks are kept, and the same command continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

import numpy as np

from understudy.core.poses import Poses
from understudy.io import pose_store as store
from understudy.rigs.base import Rig
from understudy.rigs.parallel_sampling import SamplingJob, same_rig, sample_block
from understudy.system.bucket import place
from understudy.system.cluster import Advance, Cluster, Pool, Workers, connected, worker_count
from understudy.system.progress import SILENT, Progress

_HELD = 2  # batches of poses of each worker that a fit holds


def sample_on_cluster(
    job: SamplingJob,
    path: str | Path,
    cluster: Cluster,
    build: Callable[[], Rig] | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Poses:
    """The poses of a job, evaluated by a Ray cluster into the store at `path`, as `sample_poses`.

    path       on a disk that the workers share
    build      builds the rig on a worker; None: as here
    overwrite  replace the store at `path`, also where it could be continued
    """
    with store.lock(path):
        missing = job.open_store(path, overwrite)
        if missing:
            sizes, asked = job.sizes(path, missing), cluster.workers or 1
            with (
                connected(cluster.address) as ray,
                job.task(path, sum(sizes), asked, progress, where=" on Ray") as task,
            ):
                workers = min(worker_count(ray, cluster), len(missing))
                work = _Sampler(build or job.build, str(place(path).absolute()))
                with Pool(ray, work, workers) as pool:
                    pool.run(missing, sizes, task)
    return store.open_poses(path)


class _OpenRig:
    """In an actor: a rig that stays open between parts."""

    def __init__(self, build: Callable[[], Rig]):
        self._build = build

    @cached_property
    def rig(self) -> Rig:
        """The rig; built here, not at the start, so that an error is reported."""
        return self._build()


class _Sampler(_OpenRig):
    """The work of sampling: evaluate and write block `k`."""

    def __init__(self, build: Callable[[], Rig], path: str):
        super().__init__(partial(same_rig, path, build))
        self._path = path

    def __call__(self, k: int, advance: Advance) -> None:
        sample_block(self.rig, self._path, k, advance)


class _Evaluator(_OpenRig):
    """The work of `ClusterRig`: vertices and bones at control values (t,C)."""

    def __call__(
        self, values: np.ndarray, advance: Advance
    ) -> tuple[np.ndarray, np.ndarray | None]:
        poses = self.rig.evaluate(values)
        return poses.read_poses(0, poses.pose_count), poses.world_from_bone


class ClusterRig:
    """A rig that the workers of a cluster evaluate, for the few poses that a fit asks for.

    A batch of poses is evaluated as one, by one worker: many rigs round differently when they
    evaluate more poses at once, and a fit shall get the same bits as without a cluster.

    rig      the same rig, in this process
    build    builds it on a worker
    workers  where
    """

    def __init__(self, rig: Rig, build: Callable[[], Rig], workers: Workers):
        self._rig, self._build, self._workers = rig, build, workers
        self._pool: Pool | None = None
        self.mesh, self.skeleton, self.controls = rig.mesh, rig.skeleton, rig.controls

    def __getattr__(self, name: str):
        return getattr(self._rig, name)  # its name, its animations, ...

    def evaluate(self, values: np.ndarray) -> Poses:
        """The T poses at control values (T,C)."""
        return next(self.evaluate_batches([values]))

    def evaluate_batches(self, batches: Iterable[np.ndarray]) -> Iterator[Poses]:
        """Yield the poses of each batch of control values (T,C); few are held at a time."""
        left = iter(batches)
        while some := list(islice(left, _HELD * self._workers.count)):
            if self._pool is None or self._pool.closed:
                self._pool = self._workers.pool(_Evaluator(self._build))
            some = [self.controls.check(values) for values in some]
            for values, (vertices, bones) in zip(some, self._pool.run(some)):
                yield Poses(self.mesh, vertices, self.skeleton, bones, self.controls, values)
