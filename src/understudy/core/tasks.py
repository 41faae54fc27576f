"""Work on several threads: our own tasks, each with linear algebra on one thread.

Threads of BLAS meet after every product. Where another program occupies a core, all of them wait
for the one that lost it; for small matrices meeting takes longer than the product. Tasks of this
module meet once, after all of them are done, and their results do not depend on the number of
threads.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import scipy.linalg  # noqa: F401  # loads its BLAS, which `one_blas_thread` then finds
from threadpoolctl import threadpool_limits

from understudy.core import threads

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
    listed, workers = list(parts), threads.count()
    if workers == 1 or len(listed) < 2 or getattr(_inside, "task", False):
        return [work(part) for part in listed]
    with one_blas_thread():
        return list(_pool(workers).map(work, listed))


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="understudy", initializer=_enter_task)


def _enter_task() -> None:
    _inside.task = True


if hasattr(os, "register_at_fork"):  # the threads of a pool exist only in the parent
    os.register_at_fork(after_in_child=_pool.cache_clear)
