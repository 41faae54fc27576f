"""Skins and displacements that fits of the same poses share."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from understudy.methods.differential.context import Shared


class Thing:
    pass


def test_the_same_sources_and_options_are_made_once_by_threads():
    shared, source, made = Shared(), Thing(), []

    def make():
        made.append(np.arange(3))
        return made[-1]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: shared.get((source,), ("a",), make), range(8)))
    assert len(made) == 1
    assert all(one is made[0] for one in found)
    assert shared.get((source,), ("b",), make) is not made[0]
    assert shared.get((Thing(),), ("a",), make) is not made[0]


def test_nothing_is_kept_alive():
    shared, source, count = Shared(), Thing(), []

    def make():
        count.append(1)
        return Thing()

    held = shared.get((source,), (), make)
    assert shared.get((source,), (), make) is held
    del held
    gc.collect()
    shared.get((source,), (), make)
    assert len(count) == 2
