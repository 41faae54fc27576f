"""Sampling a rig into a store with several processes.

`sample_block` is all the work there is: evaluate the poses of one block, write the block. It knows
nothing of processes, so any pool can run it. Workers share nothing but the store; each builds its
rig once and writes its own blocks, so memory does not grow with the number of poses.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from understudy.core import checks
from understudy.core.errors import InputError, UnderstudyError
from understudy.core.poses import Poses
from understudy.core.progress import SILENT, Progress, Task
from understudy.core.version import __version__
from understudy.io import pose_store as store
from understudy.rigs import Rig, load_rig
from understudy.rigs.sampling import SamplePlan

# poses given to the rig at once: bounds the rig's scratch memory, and how long a stop or a progress
# bar waits
STEP = 16
FEW = 64  # starting processes takes longer than evaluating so few poses
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
    block: int = store.BLOCK,
) -> Poses:
    """The poses of `plan`, evaluated into the store at `path` and opened from there. What an
    interrupted call left is kept and continued.

    rig        name of a built-in rig, or what builds one: a class or function that worker processes
               can import (or a `functools.partial` of it)
    processes  worker processes; None: one per core. With 1, or with few poses, the rig is evaluated
               in this process
    ranges     TOML file of training ranges (`ControlSpec.with_ranges`)
    overwrite  replace the store that is there: start again, also where it could be continued
    block      poses that are written, and lost when a process is killed, together; counts only when
               the store is made

    In a script, call it under `if __name__ == "__main__":`, as worker processes import the script.
    """
    build = partial(load_rig, rig) if isinstance(rig, str) else rig
    if not callable(build):
        raise InputError(
            f"rig: expected a rig's name or what builds a rig (a class or function), got "
            f"{type(rig).__qualname__}"
        )
    checks.between(1 if processes is None else processes, "processes", low=1)
    here = build()
    spec = here.controls if ranges is None else here.controls.with_ranges(ranges)
    values = plan.values(here, spec)
    facts = {"rig": here.name, "plan": plan.facts(), "understudy": __version__}
    with store.lock(path):
        missing = _prepare(
            Path(path), (here.mesh, here.skeleton, spec, values, facts), block, overwrite
        )
        if missing:
            todo = sum(len(store.block_controls(path, k)[0]) for k in missing)
            workers = 1 if todo < FEW else int(min(processes or os.cpu_count() or 1, len(missing)))
            with (
                progress.task(f"sampling {here.name}", todo) as task,
                _resumable(path, plan.count, workers),
            ):
                if todo < plan.count:
                    task.note(f"{plan.count - todo} of {plan.count} poses were there already")
                if workers == 1:
                    for k in missing:
                        sample_block(here, path, k, task.advance)
                else:
                    _sample_in_processes(build, path, missing, workers, task)
    return store.open_poses(path)


def sample_block(
    rig: Rig, path: str | Path, k: int, advance: Callable[[int], None] = lambda poses: None
) -> None:
    """Evaluate and write block `k` of the store at `path`; `advance` hears of every few poses."""
    rows, values = store.block_controls(path, k)
    vertices = np.empty((len(rows), rig.mesh.vertex_count, 3), np.float32)
    bones = None if rig.skeleton is None else np.empty((len(rows), rig.skeleton.bone_count, 3, 4))
    for start in range(0, len(rows), STEP):
        some = slice(start, min(start + STEP, len(rows)))
        poses = _evaluate(rig, values[some], rows[start])
        vertices[some] = poses.read_poses(0, poses.pose_count)
        if bones is not None:
            bones[some] = poses.world_from_bone
        advance(some.stop - some.start)
    store.write_block(path, k, Poses(rig.mesh, vertices, rig.skeleton, bones))


def _prepare(path: Path, sample: tuple, block: int, overwrite: bool) -> list[int]:
    """Make the store or continue the one that is there; the blocks to write."""
    if store.occupied(path) and not overwrite:
        return store.resume(path, *sample)
    store.create(path, *sample, block=block, overwrite=overwrite)
    return store.missing_blocks(path)


def _evaluate(rig: Rig, values: np.ndarray, first: int) -> Poses:
    """Some poses of the rig; an error names the pose and its controls."""
    try:
        return _evaluate_checked(rig, values)
    except Exception as caught:
        problem = caught
    if len(values) > 1:  # the rig may not know which of them it was: ask for each alone
        for pose in range(len(values)):
            _evaluate(rig, values[pose : pose + 1], first + pose)
        problem.add_note(
            f"rig {rig.name!r} failed at poses {first}..{first + len(values) - 1} together, but at "
            f"none of them alone"
        )
        raise problem
    where = f"rig {rig.name!r} failed at pose {first}"
    controls = f"Its controls: {store.controls_text(rig.controls, values[0])}"
    if isinstance(problem, UnderstudyError):
        raise InputError(f"{where}: {problem}. {controls}") from problem
    problem.add_note(f"{where}. {controls}")  # a bug in the rig keeps its type and traceback
    raise problem


def _evaluate_checked(rig: Rig, values: np.ndarray) -> Poses:
    poses = rig.evaluate(values)
    checks.same_count(
        poses.pose_count, len(values), "poses", f"the output of rig {rig.name!r}", "its input"
    )
    checks.same_count(
        poses.vertex_count,
        rig.mesh.vertex_count,
        "vertices",
        f"the output of rig {rig.name!r}",
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
def _resumable(path: str | Path, count: int, workers: int) -> Iterator[None]:
    """Say with every kind of stop what is kept and how to go on."""

    def kept() -> str:
        left = sum(len(store.block_controls(path, k)[0]) for k in store.missing_blocks(path))
        return (
            f"{count - left} of {count} poses are kept in {path}; run the same command again "
            f"(without overwrite) to resume"
        )

    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"sampling was stopped: {kept()}") from None
    except BrokenProcessPool as problem:
        raise UnderstudyError(
            f"a worker process died: killed by the system, most often for lack of memory "
            f"({workers} processes ran). {kept()}, with fewer processes. "
            'If a script called this: the call belongs under `if __name__ == "__main__":`'
        ) from problem
    except UnderstudyError as problem:
        raise type(problem)(f"{problem}. {kept()}") from problem
    except Exception as problem:
        problem.add_note(kept())
        raise


def _sample_in_processes(
    build: Callable[[], Rig], path: str | Path, blocks: list[int], workers: int, task: Task
) -> None:
    try:
        packed = pickle.dumps(build)
    except Exception as problem:
        raise InputError(
            f"rig: {build!r} cannot be sent to worker processes ({problem}); pass a class or "
            f"function of an importable module, or processes=1"
        ) from problem
    context = get_context("spawn")  # fork would copy threads' locks in unknown states
    lifeline, hold = context.Pipe(duplex=False)
    counts = context.RawArray(
        "q", max(blocks) + 1
    )  # poses done of each block: one writer each, so no lock a killed worker could keep
    told = 0
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
            task.advance(now - told)
            told = now
            for future in done:
                future.result()
        pool.shutdown()
    finally:
        # workers still at work end at once: blocks are marked as done only when they are, so
        # nothing is lost by it
        hold.close()
        pool.shutdown(cancel_futures=True)
        lifeline.close()


@contextlib.contextmanager
def _worker_environment() -> Iterator[None]:
    """While workers start: one thread for each one's linear algebra (read when NumPy loads), and
    Ctrl-C left to this process.
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


# in a worker process: how to build the rig, the rig once it is built, the store, the counts
_worker: dict = {}


def _start_worker(packed: bytes, path: str, lifeline, counts) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    _worker.update(packed=packed, path=path, counts=counts)


def _end_with_parent(lifeline) -> None:
    """Ends this worker as soon as the parent lets go of the other end: on a stop, on an error, or
    because it was killed.
    """
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(1)


def _work(k: int) -> None:
    def count(poses: int) -> None:
        _worker["counts"][k] += poses

    try:
        if (
            "rig" not in _worker
        ):  # here rather than at the start, so that an error reaches the parent
            _worker["rig"] = pickle.loads(_worker["packed"])()
        sample_block(_worker["rig"], _worker["path"], k, count)
    except Exception as problem:
        try:
            pickle.loads(pickle.dumps(problem))
        except (
            Exception
        ):  # it could not travel to the parent, which would then blame a killed worker
            raise RuntimeError("".join(traceback.format_exception(problem))) from None
        raise
