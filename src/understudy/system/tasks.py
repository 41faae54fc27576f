"""Work on several threads: our own tasks, each with linear algebra on one thread.

Threads of BLAS meet after every product. Where another program occupies a core, all of them wait
for the one that lost it; for small matrices meeting takes longer than the product. Tasks of this
module meet once, after all of them are done, and their results do not depend on the number of
threads.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

from understudy.system import threads
from understudy.system.fit_packages import threadpool_limits

Part = TypeVar("Part")
Result = TypeVar("Result")

_lock = threading.Lock()
_users = 0
_limits: Any = None
_inside = threading.local()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread in the whole process, until the last caller has left."""
    global _users, _limits
    with _lock:
        if not _users:
            _limits = threadpool_limits(1, "blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _limits.restore_original_limits()
                _limits = None


def parallel_map(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """Return [work(part) for part in parts], computed on all threads.

    This pays off only for work that releases the interpreter lock, as NumPy does. Inside a task it
    runs in the task's own thread.
    """
    return list(parallel_results(work, parts))


def parallel_results(work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """Yield the results of `parallel_map` in order; few parts and results are held at a time.

    The caller's thread takes the parts and uses the results.
    """
    workers = threads.count()
    if workers == 1 or inside():
        yield from map(work, parts)
        return
    pool, pending = _pool(workers), deque[Future[Result]]()
    with one_blas_thread():
        try:
            for part in parts:
                # A copy of the context: `numpy.errstate` of the caller holds in the task.
                pending.append(pool.submit(copy_context().run, work, part))
                if len(pending) > workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
            wait(pending)  # tasks may still write to arrays of the caller


def inside() -> bool:
    """Return whether the caller runs in a thread of `parallel_map`."""
    return getattr(_inside, "task", False)


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="understudy", initializer=_enter_task)


def _enter_task() -> None:
    _inside.task = True


if hasattr(os, "register_at_fork"):  # the threads of a pool exist only in the parent
    os.register_at_fork(after_in_child=_pool.cache_clear)
