"""Work on a Ray cluster: actors that share the parts of a job.

An actor keeps one object, the work, and calls it with one part after the other: the work can keep
a rig open, or a file. Parts are numbers, names or paths. Large arrays travel as files in a folder
that all nodes share. A part whose actor or node died is given to another actor; work that writes
files can keep what it had finished.

    with using(Cluster("auto", workers=4), folder):
        found = current()               # in `find_groups`, the trainer, ...; None without a cluster
        with found.pool(work) as pool:
            results = pool.run(parts)
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

from understudy.system import memory, tasks, threads
from understudy.system.errors import InputError, UnderstudyError, imported
from understudy.system.progress import Task

_LOST_IN_A_ROW = 10  # actors that die without a finished part between them: something is wrong
_CONNECT_TIMEOUT = 3.0
_FREE_TIMEOUT = 10.0  # seconds; an actor that takes longer to drop its work is ended
_INTERVAL = 0.5  # seconds; Ctrl-C is noticed in between

# Called with a part and with what counts the progress inside it.
Advance = Callable[[float], None]
Work = Callable[[Any, Advance], Any]


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster and how many of its workers to use.

    address  auto (the cluster that this machine belongs to, else one of its own processors), or the
             address of a cluster: ray://host:port or host:port
    workers  actors; None: one for each processor of the cluster
    """

    address: str = "auto"
    workers: int | None = None


class Workers:
    """The workers of a cluster that is connected.

    ray     the package
    count   actors of a pool, at most
    folder  on a disk that all nodes share, for the files of a job
    """

    def __init__(self, ray: Any, count: int, folder: Path):
        self.ray, self.count, self.folder = ray, count, folder
        self._open: Pool | None = None
        # Actors without work. They start while the driver prepares the first stage.
        self._spare, self._spare_gpu = [_new_actor(ray) for _ in range(count)], False

    @property
    def gpus(self) -> int:
        """How many GPUs the cluster has."""
        return int(self.ray.cluster_resources().get("GPU", 0))

    def pool(self, work: Work, most: int | None = None, gpu: bool = False) -> Pool:
        """Actors that keep `work`; the pool that was open before is closed.

        most  actors, at most; None: all workers
        gpu   each actor has a GPU

        Actors of earlier pools are used again: a new one takes seconds to import its packages. They
        keep their processors until the workers are closed.
        """
        if self._open is not None:
            self._open.close()
        if gpu != self._spare_gpu:
            self._end_spare()
            self._spare_gpu = gpu
        count = self.count if most is None else min(self.count, most)
        self._open = Pool(self.ray, work, max(1, count), gpu, self._spare)
        return self._open

    def close(self) -> None:
        """End all actors."""
        if self._open is not None:
            self._open.close()
            self._open = None
        self._end_spare()

    def _end_spare(self) -> None:
        _kill(self.ray, self._spare)
        self._spare.clear()


_current: Workers | None = None


def current() -> Workers | None:
    """The workers of `using`; None: there is no cluster."""
    return _current


@contextlib.contextmanager
def using(cluster: Cluster | None, folder: Path) -> Iterator[Workers | None]:
    """Let this process give work to a cluster; None: to none.

    folder  on a disk that all nodes share, for the files of a job; made when it is needed
    """
    global _current
    if cluster is None:
        yield None
        return
    with connected(cluster.address) as ray:
        before, _current = _current, Workers(ray, worker_count(ray, cluster), folder.absolute())
        try:
            yield _current
        finally:
            found, _current = _current, before
            found.close()


def worker_count(ray: Any, cluster: Cluster) -> int:
    """How many actors to use: what was asked for, else one for each processor."""
    return cluster.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """The package ray, connected to a cluster; one that was connected before stays so."""
    ray = imported("ray", "--cluster", "cluster")
    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    try:
        found = running_cluster() if address == "auto" else address
        if found is None:
            own: dict[str, Any] = {"num_cpus": threads.count(), "include_dashboard": False}
            ray.init(address="local", **own, **quiet)
        else:
            ray.init(address=found, **quiet)
    except (ConnectionError, ValueError, RuntimeError) as problem:
        raise InputError(
            f"cluster: no Ray cluster answers at {address!r} ({problem}); start one with `ray "
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


def _new_actor(ray: Any, gpu: bool = False) -> Any:
    """A new actor without work; it may take a while until it runs."""
    kind = ray.remote(num_cpus=1, num_gpus=int(gpu), max_restarts=0, max_concurrency=2)
    return kind(_Worker).remote()


def _kill(ray: Any, actors: Sequence[Any]) -> None:
    for actor in actors:
        with contextlib.suppress(Exception):
            ray.kill(actor)


class _Worker:
    """In an actor: the work, and how far it is."""

    def __init__(self) -> None:
        self._work: Work | None = None
        self._budget, self._advanced = memory.LEAST, 0.0

    def begin(self, work: Work | None, budget: int) -> None:
        """Take up some work with this many bytes of memory; None: drop the present one."""
        self._work, self._budget, self._advanced = work, budget, 0.0

    def run(self, part: Any) -> Any:
        """Do one part."""
        assert self._work is not None
        self._advanced = 0.0
        # Linear algebra of one thread: every processor has its own actor.
        with threads.using(1), memory.using(self._budget), tasks.one_blas_thread():
            return self._work(part, self._advance)

    def advanced(self) -> float:
        """How far the present part is; answered while `run` is busy."""
        return self._advanced

    def _advance(self, amount: float = 1) -> None:
        self._advanced += amount


class PartTask(Task):
    """Reports progress inside a part of a job."""

    def __init__(self, advance: Advance):
        self._advance = advance

    def advance(self, steps: float = 1) -> None:
        """Report that `steps` more are done."""
        self._advance(steps)


class Pool:
    """Actors that share the parts of a job; those that die are replaced.

    A replacement may wait until a node has a processor to spare. Parts are given only to actors
    that run.

    gpu    each actor has a GPU
    spare  actors to begin with, and where actors go that have ended their work; None: all end
    """

    def __init__(
        self, ray: Any, work: Work, count: int, gpu: bool = False, spare: list[Any] | None = None
    ):
        self._ray, self._spare = ray, spare
        self._gpu = gpu
        self._given = (ray.put(work), max(memory.LEAST // 2, memory.budget() // count))
        self._lost, self.closed = 0, False
        self._idle: list[Any] = []
        self._actors: list[Any] = []
        self._reused: list[Any] = []  # of the actors, those that were spare
        self._running: dict[Any, tuple[Any, int | None]] = {}  # None: the actor starts
        self._asked: dict[Any, Any] = {}  # actors that were asked how far they are
        self._inside: dict[Any, float] = {}  # how far the present part of each actor is
        for _ in range(count):
            self._start()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self, parts: Sequence[Any], sizes: Sequence[int] | None = None, task: Task | None = None
    ) -> list[Any]:
        """The results of the work for all parts; an error of the work is raised here.

        sizes  by how much each part advances `task`; None: 1
        """
        sizes = [1] * len(parts) if sizes is None else sizes
        results: list[Any] = [None] * len(parts)
        left = deque(range(len(parts)))
        finished, shown = 0, 0.0
        while left or any(k is not None for _, k in self._running.values()):
            while left and self._idle:
                actor, k = self._idle.pop(), left.popleft()
                self._running[actor.run.remote(parts[k])] = (actor, k)
            done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_INTERVAL)
            if not done:
                self._ask()
            for result in done:
                actor, part = self._running.pop(result)
                self._inside.pop(actor, None)
                # A spare actor may have died with its node: nothing is wrong with the work.
                expected = part is None and actor in self._reused
                if not self._take(result, part, left, results, expected):
                    self._actors.remove(actor)
                    self._start()
                    continue
                self._idle.append(actor)
                finished += 0 if part is None else sizes[part]
            now = finished + sum(self._inside.values())
            if task is not None and now > shown:
                task.advance(now - shown)
            shown = max(now, shown)
        return results

    def close(self) -> None:
        """Give the actors back, or end them; what they have begun is lost."""
        kept: list[Any] = []
        if self._spare is not None and not self.closed:
            with contextlib.suppress(Exception):  # the cluster may be gone
                kept = self._freed()
        _kill(self._ray, [actor for actor in self._actors if actor not in kept])
        if self._spare is not None:
            self._spare += kept
        self._actors, self._idle, self._running, self.closed = [], [], {}, True

    def _freed(self) -> list[Any]:
        """Idle actors that have dropped what their work keeps, such as a rig."""
        dropping = {actor.begin.remote(None, 0): actor for actor in self._idle}
        if not dropping:
            return []
        done, _ = self._ray.wait(list(dropping), num_returns=len(dropping), timeout=_FREE_TIMEOUT)
        return [dropping[one] for one in done]

    def _start(self) -> None:
        if self._spare:
            actor = self._spare.pop()
            self._reused.append(actor)
        else:
            actor = _new_actor(self._ray, self._gpu)
        self._actors.append(actor)
        self._running[actor.begin.remote(*self._given)] = (actor, None)

    def _ask(self) -> None:
        """Read how far busy actors are, and ask those again that owe no answer."""
        answers = list(self._asked)
        ready = self._ray.wait(answers, num_returns=len(answers), timeout=0)[0] if answers else []
        busy = [actor for actor, part in self._running.values() if part is not None]
        for answer in ready:
            actor = self._asked.pop(answer)
            with contextlib.suppress(Exception):  # an actor that died is noticed by its part
                amount = self._ray.get(answer)
                if actor in busy:
                    self._inside[actor] = amount
        owing = list(self._asked.values())
        self._asked |= {actor.advanced.remote(): actor for actor in busy if actor not in owing}

    def _take(
        self, result: Any, k: int | None, left: deque[int], results: list[Any], expected: bool
    ) -> bool:
        """Keep a result; False: the actor is lost, and its part is to be done again.

        expected  a loss does not count
        """
        errors = self._ray.exceptions
        lost = (
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.OutOfMemoryError,
        )
        try:
            found = self._ray.get(result)
        except lost as problem:
            self._lost += not expected
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
            results[k] = found
            self._lost = 0
        return True
