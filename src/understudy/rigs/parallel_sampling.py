"""Sampling a rig into a pose store with several processes.

The unit of work is `sample_block`: evaluate the poses of one block and write the block. It does not
know about processes, so any pool can run it. Workers share only the store; each builds its rig once
and writes its own blocks, so memory does not grow with the number of poses.

A rig that another program evaluates (`ExternalRig`) brings its own processes: threads of this
process wait for them.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.poses import Poses, evenly
from understudy.core.version import __version__
from understudy.io import pose_store as store
from understudy.rigs.base import ExternalRig, Rig, elsewhere, name_of, skin_of
from understudy.rigs.registry import checked_rig, load_rig, portable_name
from understudy.rigs.sampling import SamplePlan
from understudy.rigs.stretch import Edges, nearer_to_rest
from understudy.system import checks, memory, threads
from understudy.system.errors import FileError, InputError, UnderstudyError
from understudy.system.progress import SILENT, Progress, Task

# Poses given to the rig at once: bounds its scratch memory and the time between progress updates.
STEP = 16
# Of a store whose rig another program evaluates. Such rigs are slow; with small blocks, workers end
# at nearly the same time and little is lost.
EXTERNAL_BLOCKS = 32
_SHOWN_FRAMES = 24  # of the animations: how far they stretch the mesh
FEW = 64  # starting processes takes longer than evaluating this many poses
SHOWN, MOST_SHOWN = 4, 12  # poses that tell a rig from another; most where few controls move in one
THREAD_SETTINGS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def sample_poses(
    rig: str | Callable[[], Rig],
    plan: SamplePlan,
    path: str | Path,
    processes: int | None = None,
    progress: Progress = SILENT,
    ranges: str | Path | None = None,
    overwrite: bool = False,
    block: int | None = None,
) -> Poses:
    """The poses of `plan`, evaluated into the store at `path`, which an interrupted call continues.

    rig        what `load_rig` takes (a name, `package.module:Class`, `path/to/rig.py:Class`,
               `path/to/hero.blend`), or what builds the rig: a class or function that worker
               processes can import (or a `functools.partial` of it)
    processes  worker processes; None: `system.threads.count()`. With 1, or with few poses,
               the rig is evaluated in this process
    ranges     TOML file of training ranges (`ControlSpec.with_ranges`)
    overwrite  replace the store at `path`, also where it could be continued
    block      poses that are written together, and lost together when a process is killed; used
               only when the store is created. None: by the size of the mesh

    In a script, call it under `if __name__ == "__main__":`, because worker processes import the
    script.
    """
    job = SamplingJob.of(rig, plan, ranges, block)
    checks.between(1 if processes is None else processes, "processes", low=1)
    try:
        with store.lock(path):
            job.write(path, job.open_store(path, overwrite), processes, progress)
    finally:
        if isinstance(rig, str) and isinstance(job.rig, ExternalRig):  # it was built here
            job.rig.close()
    return store.open_poses(path)


@dataclass(frozen=True, eq=False)
class SamplingJob:
    """What is sampled: the same in every process that takes part.

    build     builds the rig
    rig       the rig, in this process
    spec      its controls, with the training ranges
    values    (T,C) control values of all poses
    facts     the provenance of the poses
    block     poses per block of the store
    """

    build: Callable[[], Rig]
    rig: Rig
    spec: ControlSpec
    values: np.ndarray
    facts: Mapping[str, Any]
    block: int

    @staticmethod
    def of(
        rig: str | Callable[[], Rig], plan: SamplePlan, ranges: str | Path | None, block: int | None
    ) -> SamplingJob:
        """The job of a plan; arguments as in `sample_poses`."""
        build = partial(load_rig, rig) if isinstance(rig, str) else rig
        if not callable(build):
            raise InputError(
                f"rig: expected a rig's name or what builds a rig (a class or function), got "
                f"{type(rig).__qualname__}"
            )
        here = checked_rig(build(), "rig")
        name = portable_name(rig) if isinstance(rig, str) else name_of(here)
        spec = here.controls if ranges is None else here.controls.with_ranges(ranges)
        facts: dict[str, Any] = {"rig": name, "plan": plan.facts(), "understudy": __version__}
        if plan.stretch is not None:
            facts["stretch"] = _stretch_limit(here, plan.stretch, plan)
        if block is None:
            block = store.default_block(here.mesh)
            if isinstance(here, ExternalRig):  # every worker gets some, and little is lost
                block = min(block, max(8, -(-plan.count // EXTERNAL_BLOCKS)))
        return SamplingJob(build, here, spec, plan.values(here, spec), facts, block)

    @cached_property
    def sample(self) -> store.Sample:
        """What the store is made for."""
        rig = self.rig
        skin, rows = skin_of(rig), _shown_rows(self.spec, self.values)
        shown, _ = evaluate_natural(rig, self.values[rows], None, rows)
        return store.Sample(rig.mesh, rig.skeleton, self.spec, self.values, self.facts, skin, shown)

    def open_store(self, path: str | Path, overwrite: bool) -> list[int]:
        """The blocks to write of the store at `path`, which is created if it is not there.

        overwrite  replace the store, also where it could be continued
        """
        sample = self.sample
        if store.occupied(path) and not overwrite:
            missing = store.resume(path, sample)
            need_same_rig(path, self.rig, sample.shown)
            return missing
        store.create(path, sample, self.block, overwrite=overwrite)
        return store.missing_blocks(path)

    def sizes(self, path: str | Path, blocks: Sequence[int]) -> list[int]:
        """How many poses some blocks of the store at `path` have."""
        return [len(store.block_controls(path, k)[0]) for k in blocks]

    @contextlib.contextmanager
    def task(
        self,
        path: str | Path,
        todo: int,
        workers: int,
        progress: Progress,
        share: int | None = None,
        where: str = "",
    ) -> Iterator[Task]:
        """Report that `todo` poses are written; errors inside say what is kept.

        share  as in `write`
        where  the sampling runs, for the label
        """
        count = len(self.values)
        share = count if share is None else share
        label = f"sampling {name_of(self.rig).partition('?')[0]}{where}"
        with progress.task(label, todo) as task, resumable(path, count, workers):
            if todo < share:
                task.note(f"{share - todo} of {share} poses were there already")
            yield task

    @property
    def bytes_per_worker(self) -> int:
        """About what one process takes: itself, a block, and its compressed tiles."""
        return (200 << 20) + int(2.5 * 12 * self.block * self.rig.mesh.vertex_count)

    def write(
        self,
        path: str | Path,
        missing: list[int],
        processes: int | None,
        progress: Progress,
        share: int | None = None,
    ) -> None:
        """Evaluate and write the blocks `missing` of the store at `path`.

        share  poses of this process, with those that were there already; None: all
        """
        if not missing:
            return
        todo = sum(self.sizes(path, missing))
        few = todo < FEW and not isinstance(self.rig, ExternalRig)
        workers = 1 if few else int(min(processes or threads.count(), len(missing)))
        workers = max(1, min(workers, memory.budget() // self.bytes_per_worker))
        with self.task(path, todo, workers, progress, share) as task:
            if isinstance(self.rig, ExternalRig) and workers > 1:
                _sample_side_by_side(self.rig, path, missing, workers, task)
            elif workers == 1:
                for k in missing:
                    sample_block(self.rig, path, k, task.advance)
            else:
                _sample_in_processes(self.build, path, missing, workers, task)


def need_same_rig(path: str | Path, rig: Rig, now: Poses | None = None) -> None:
    """Raise unless `rig` moves the mesh as the one that the store at `path` was begun with.

    now  the poses that the store keeps to tell, as `rig` makes them; None: it is asked
    """
    kept = store.shown(path)
    if not kept:
        where = "was begun by an older version, which kept no poses to know the rig by"
    else:
        if now is None:
            now, _ = evaluate_natural(rig, kept["controls"], None)
        where = elsewhere(replace(now, **kept), now)
        if not where:
            return
        where = f"the rig moves {where} elsewhere than when this store was begun"
    raise FileError(f"{path}: {where}. {store.ANOTHER}")


def same_rig(path: str | Path, build: Callable[[], Rig]) -> Rig:
    """The rig that `build` makes, in a worker: it must be the one of the store at `path`."""
    rig = build()
    need_same_rig(path, rig)
    return rig


def _shown_rows(spec: ControlSpec, values: np.ndarray) -> list[int]:
    """Which poses of a plan a rig is known by: a few, in which as many controls move as can be."""
    moved = values != spec.rest  # (T,C)
    rows: list[int] = []
    left = moved.any(axis=0)  # controls that have not moved yet
    while len(rows) < min(len(values), MOST_SHOWN if left.any() else SHOWN):
        gain = moved[:, left].sum(axis=1)
        gain[rows] = -1
        best = np.flatnonzero(gain == gain.max())
        rows.append(int(best[len(best) * min(len(rows), SHOWN - 1) // SHOWN]))
        left &= ~moved[rows[-1]]
    return rows


def sample_block(
    rig: Rig, path: str | Path, k: int, advance: Callable[[int], None] = lambda poses: None
) -> None:
    """Evaluate and write block `k` of the store at `path`.

    advance  called with the number of poses done, every few poses
    """
    rows, values = store.block_controls(path, k)
    limit = store.stretch_limit(path)
    poses, nearer = evaluate_natural(rig, values, limit, rows, advance)
    store.write_block(path, k, poses, None if limit is None else nearer)


def evaluate_natural(
    rig: Rig,
    values: np.ndarray,
    limit: float | None,
    numbers: Sequence[int] | None = None,
    advance: Callable[[int], None] = lambda poses: None,
) -> tuple[Poses, np.ndarray]:
    """Some poses (T), and how far (T,) of the way from rest to its values (T,C) each is.

    limit    share of the edges that a pose may stretch; None: all are at their values
    numbers  of the poses, for errors; None: from 0
    advance  as in `sample_block`
    """
    numbers = range(len(values)) if numbers is None else numbers
    vertices = np.empty((len(values), rig.mesh.vertex_count, 3), np.float32)
    bones = None
    if rig.skeleton is not None:
        bones = np.empty((len(values), rig.skeleton.bone_count, 3, 4))
    rest, nearer = rig.controls.rest.astype(np.float64), np.ones(len(values), np.float32)
    edges = None if limit is None else Edges.of(rig.mesh)
    for start in range(0, len(values), STEP):
        some = slice(start, min(start + STEP, len(values)))
        poses = _evaluate(rig, values[some], numbers[some])
        vertices[some] = poses.read_poses(0, poses.pose_count)
        if bones is not None:
            bones[some] = poses.world_from_bone
        if edges is not None and limit is not None:
            there = None if bones is None else bones[some]
            again = partial(_evaluate_nearer, rig, values[some], rest, numbers[some])
            nearer[some] = nearer_to_rest(vertices[some], there, edges, limit, again)
        advance(some.stop - some.start)
    values = rest + nearer[:, None] * (values - rest)
    return Poses(rig.mesh, vertices, rig.skeleton, bones, rig.controls, values), nearer


def _evaluate_nearer(
    rig: Rig,
    values: np.ndarray,
    rest: np.ndarray,
    numbers: Sequence[int],
    rows: np.ndarray,
    factor: float,
) -> Poses:
    return _evaluate(rig, rest + factor * (values[rows] - rest), [numbers[row] for row in rows])


def _stretch_limit(rig: Rig, least: float, plan: SamplePlan) -> float:
    """The share of the edges that may be stretched: at least what the animations show."""
    if not plan.animation_share:
        return least
    frames = np.concatenate(plan.curves(rig))
    shown = rig.evaluate(frames[evenly(len(frames), _SHOWN_FRAMES)])
    vertices = shown.read_poses(0, shown.pose_count)
    return max(least, round(float(Edges.of(rig.mesh).stretched(vertices).max()), 4))


def _evaluate(rig: Rig, values: np.ndarray, numbers: Sequence[int]) -> Poses:
    """Some poses of the rig; an error names the pose, by its number, and its controls."""
    try:
        return _evaluate_checked(rig, values)
    except Exception as caught:
        problem = caught
    if len(values) > 1:  # the rig may not say which pose failed: evaluate each alone
        for pose in range(len(values)):
            _evaluate(rig, values[pose : pose + 1], numbers[pose : pose + 1])
        problem.add_note(
            f"rig {name_of(rig)!r} failed at poses {numbers[0]}..{numbers[-1]} together, "
            "but at none of them alone"
        )
        raise problem
    where = f"rig {name_of(rig)!r} failed at pose {numbers[0]}"
    controls = f"Its controls: {store.controls_text(rig.controls, values[0])}"
    if isinstance(problem, UnderstudyError):
        raise InputError(f"{where}: {problem}. {controls}") from problem
    problem.add_note(f"{where}. {controls}")  # a bug in the rig keeps its type and traceback
    raise problem


def _evaluate_checked(rig: Rig, values: np.ndarray) -> Poses:
    poses = rig.evaluate(values)
    checks.same_count(
        poses.pose_count, len(values), "poses", f"the output of rig {name_of(rig)!r}", "its input"
    )
    checks.same_count(
        poses.vertex_count,
        rig.mesh.vertex_count,
        "vertices",
        f"the output of rig {name_of(rig)!r}",
        "its mesh",
    )
    if rig.skeleton is not None and poses.world_from_bone is None:
        raise InputError("the rig has bones, but the poses it gives have none")
    for name, array in (
        ("vertices", poses.read_poses(0, poses.pose_count)),
        ("world_from_bone", poses.world_from_bone),
    ):
        if array is not None:
            checks.finite(array, name)
    return poses


@contextlib.contextmanager
def resumable(path: str | Path, count: int, workers: int) -> Iterator[None]:
    """Add to every error and interruption what is kept and how to resume."""

    def kept() -> str:
        left = sum(len(store.block_controls(path, k)[0]) for k in store.missing_blocks(path))
        return (
            f"{count - left} of {count} poses are kept in {path}; run the same command again "
            "(without overwrite) to resume"
        )

    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"sampling was stopped: {kept()}") from None
    except BrokenProcessPool as problem:
        raise UnderstudyError(
            "a worker process died: the system killed it, most often for lack of memory "
            f"({workers} processes ran). {kept()}, with fewer processes. "
            'In a script, call sample_poses under `if __name__ == "__main__":`'
        ) from problem
    except UnderstudyError as problem:
        raise type(problem)(f"{problem}. {kept()}") from problem
    except Exception as problem:
        problem.add_note(kept())
        raise


def _sample_side_by_side(
    rig: ExternalRig, path: str | Path, blocks: list[int], workers: int, task: Task
) -> None:
    """Sample the blocks with a thread for each of `workers` siblings of the rig."""
    left: queue.SimpleQueue[int] = queue.SimpleQueue()
    for k in blocks:
        left.put(k)
    lock = threading.Lock()

    def advance(poses: int) -> None:
        with lock:
            task.advance(poses)

    def work(one: ExternalRig) -> None:
        need_same_rig(path, one)
        with contextlib.suppress(queue.Empty):
            while True:
                sample_block(one, path, left.get_nowait(), advance)

    siblings = [rig.sibling() for _ in range(workers)]
    pool = ThreadPoolExecutor(workers, thread_name_prefix="sampling")
    try:
        pending = {pool.submit(work, one) for one in siblings}
        while pending:
            done, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
    finally:
        # Threads that still wait for an answer end at once, because their processes do.
        with contextlib.suppress(queue.Empty):
            while True:
                left.get_nowait()
        for one in siblings:
            one.close()
        pool.shutdown(cancel_futures=True)


def _sample_in_processes(
    build: Callable[[], Rig], path: str | Path, blocks: list[int], workers: int, task: Task
) -> None:
    try:
        packed = pickle.dumps(build)
    except Exception as problem:
        raise InputError(
            f"rig: {build!r} cannot be sent to worker processes ({problem}); pass a class or "
            "function of an importable module, or processes=1"
        ) from problem
    context = get_context("spawn")  # fork would copy threads' locks in unknown states
    lifeline, hold = context.Pipe(duplex=False)
    # Poses done of each block. Each has one writer, so there is no lock that a killed worker keeps.
    counts = context.RawArray("q", max(blocks) + 1)
    shown = 0
    pool = ProcessPoolExecutor(
        workers,
        mp_context=context,
        initializer=_start_worker,
        initargs=(packed, str(path), lifeline, counts),
    )
    try:
        with _worker_environment():
            pending = {pool.submit(_work, k) for k in blocks}
        while pending:
            done, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
            now = sum(counts)
            task.advance(now - shown)
            shown = now
            for future in done:
                future.result()
        pool.shutdown()
    finally:
        # Busy workers end at once. Nothing is lost: a block is marked as done only when it is.
        hold.close()
        pool.shutdown(cancel_futures=True)
        lifeline.close()


@contextlib.contextmanager
def _worker_environment() -> Iterator[None]:
    """While workers start: one thread for the linear algebra of each, and no Ctrl-C for them.

    NumPy reads the number of threads when it loads.
    """
    before = {name: os.environ.get(name) for name in THREAD_SETTINGS}
    main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    os.environ.update(dict.fromkeys(THREAD_SETTINGS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if main:
            signal.signal(signal.SIGINT, signal.SIG_DFL if handler is None else handler)


# In a worker process: how to build the rig, the rig once it is built, the store, the counts.
_worker: dict[str, Any] = {}


def _start_worker(packed: bytes, path: str, lifeline, counts) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    _worker.update(packed=packed, path=path, counts=counts)


def _end_with_parent(lifeline) -> None:
    """End this worker when the parent closes the pipe: on Ctrl-C, on an error, or when killed."""
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(1)


def _work(k: int) -> None:
    def count(poses: int) -> None:
        _worker["counts"][k] += poses

    try:
        if "rig" not in _worker:  # built here, not at the start, so that an error is reported
            _worker["rig"] = same_rig(_worker["path"], pickle.loads(_worker["packed"]))
        sample_block(_worker["rig"], _worker["path"], k, count)
    except Exception as problem:
        try:
            pickle.loads(pickle.dumps(problem))
        except Exception:  # it cannot be sent to the parent, which would report a killed worker
            raise RuntimeError("".join(traceback.format_exception(problem))) from None
        raise
