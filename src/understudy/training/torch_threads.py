"""The number of threads of torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from understudy.system import threads


@contextmanager
def torch_threads(most: int | None = None) -> Iterator[None]:
    """Let torch use as many threads as `understudy.system.threads` says, and at most `most`."""
    before = torch.get_num_threads()
    torch.set_num_threads(min(threads.count(), most or threads.count()))
    try:
        yield
    finally:
        torch.set_num_threads(before)
