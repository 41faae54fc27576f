"""Sampling with the workers of a Ray cluster: actors that keep a rig open between blocks.

An actor gets the path of the store and what builds the rig, never poses: it writes its blocks to
the store, on a disk that all nodes share. The bytes are those of one machine, because
`sample_block` is the same. A block whose actor or node died is given to another actor. If the
driver dies, its actors end; finished blocks are kept, and the same command continues.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.core import tasks, threads
from understudy.core.errors import InputError, MissingDependencyError, UnderstudyError
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress, Task
from understudy.io import pose_store as store
from understudy.rigs.base import Rig, name_of
from understudy.rigs.parallel_sampling import SamplingJob, resumable, sample_block

_LOST_IN_A_ROW = 10  # actors that die without a finished block between them: something is wrong
_CONNECT_TIMEOUT = 3.0
_INTERVAL = 0.5  # seconds; Ctrl-C is noticed in between


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster and how many of its workers to use.

    address  auto (the cluster that this machine belongs to, else one of its own processors), or the
             address of a cluster: ray://host:port or host:port
    workers  actors; None: one for each processor of the cluster
    """

    address: str = "auto"
    workers: int | None = None


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
            count = len(job.values)
            todo = sum(len(store.block_controls(path, k)[0]) for k in missing)
            label = f"sampling {name_of(job.rig).partition('?')[0]} on Ray"
            with (
                progress.task(label, todo) as task,
                connected(cluster.address) as ray,
                resumable(path, count, cluster.workers or 1),
            ):
                if todo < count:
                    task.note(f"{count - todo} of {count} poses were there already")
                most = cluster.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
                workers = min(most, len(missing))
                _Pool(ray, build or job.build, os.path.abspath(path), workers, task).run(missing)
    return store.open_poses(path)


@contextlib.contextmanager
def connected(cluster: str) -> Iterator[Any]:
    """The package ray, connected to a cluster; one that was connected before stays so."""
    try:
        import ray
    except ImportError as problem:
        raise MissingDependencyError(
            "--cluster needs the package ray: pip install 'understudy[cluster]'"
        ) from problem
    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    try:
        found = running_cluster() if cluster == "auto" else cluster
        if found is None:
            own: dict[str, Any] = {"num_cpus": threads.count(), "include_dashboard": False}
            ray.init(address="local", **own, **quiet)
        else:
            ray.init(address=found, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as problem:
        raise InputError(
            f"cluster: no Ray cluster answers at {cluster!r} ({problem}); start one with `ray "
            "start --head`, or use --cluster auto"
        ) from problem
    try:
        yield ray
    finally:
        ray.shutdown()


def running_cluster() -> str | None:
    """The address of the Ray cluster that this machine belongs to; None: none answers.

    Ray itself waits for minutes for a cluster whose processes were killed.
    """
    file = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    address = os.environ.get("RAY_ADDRESS")
    if address is None:
        try:
            address = file.read_text(encoding="utf-8").strip()
        except OSError:
            return None
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT):
            return address
    except (OSError, ValueError):
        return None


class _Worker:
    """In an actor: a rig that stays open, and the store."""

    def __init__(self, build: Callable[[], Rig], path: str):
        self._build, self._path = build, path
        self._rig: Rig | None = None

    def ready(self) -> None:
        """Return once the actor runs."""

    def sample(self, k: int) -> int:
        """Evaluate and write block `k`; return the number of its poses."""
        if self._rig is None:  # built here, not at the start, so that an error is reported
            self._rig = self._build()
        with threads.using(1), tasks.one_blas_thread():
            sample_block(self._rig, self._path, k)
        return len(store.block_controls(self._path, k)[0])


class _Pool:
    """Actors that share the blocks; those that die are replaced.

    A replacement may wait until a node has a processor to spare. Blocks are given only to actors
    that run.
    """

    def __init__(self, ray: Any, build: Callable[[], Rig], path: str, count: int, task: Task):
        self._ray, self._build, self._path, self._task = ray, build, path, task
        self._kind = ray.remote(num_cpus=1, max_restarts=0)(_Worker)
        self._lost = 0
        self._actors: list[Any] = []
        self._running: dict[Any, tuple[Any, int | None]] = {}  # None: the actor starts
        for _ in range(count):
            self._start()

    def run(self, blocks: Sequence[int]) -> None:
        """Sample the blocks; an error of the rig is raised here."""
        left = deque(blocks)
        idle: list[Any] = []
        try:
            while left or any(k is not None for _, k in self._running.values()):
                while left and idle:
                    actor, k = idle.pop(), left.popleft()
                    self._running[actor.sample.remote(k)] = (actor, k)
                done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_INTERVAL)
                for result in done:
                    actor, block = self._running.pop(result)
                    if self._take(result, block, left):
                        idle.append(actor)
                    else:
                        self._actors.remove(actor)
                        self._start()
        finally:
            for actor in self._actors:
                # Finished blocks are kept; what an actor has begun is done again.
                with contextlib.suppress(Exception):
                    self._ray.kill(actor)

    def _start(self) -> None:
        actor = self._kind.remote(self._build, self._path)
        self._actors.append(actor)
        self._running[actor.ready.remote()] = (actor, None)

    def _take(self, result: Any, k: int | None, left: deque[int]) -> bool:
        """Count a finished block; False: the actor is lost, and its block is to be done again."""
        errors = self._ray.exceptions
        try:
            poses = self._ray.get(result)
        except (errors.RayActorError, errors.WorkerCrashedError, errors.NodeDiedError) as problem:
            self._lost += 1
            if self._lost > _LOST_IN_A_ROW:
                raise UnderstudyError(
                    f"cluster: {self._lost} workers died one after the other "
                    f"({type(problem).__name__}); look into their memory and the log of Ray"
                ) from problem
            if k is not None:
                left.appendleft(k)
            return False
        except errors.RayTaskError as problem:
            raise problem.cause if isinstance(problem.cause, Exception) else problem from None
        if k is not None:
            self._task.advance(poses)
            self._lost = 0
        return True
