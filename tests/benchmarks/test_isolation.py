"""Work in its own process: its time and memory."""

import numpy as np

from understudy_benchmarks.isolation import isolated


def _small():
    return float(np.ones(1000).sum())


def _large():
    return float(np.ones(60_000_000).sum())


def test_work_in_its_own_process_is_charged_for_its_own_memory_alone():
    held = np.ones(60_000_000)  # 480 MB here must not count there
    small = isolated(_small)
    assert small.value == 1000
    assert small.peak_mb < 300
    del held
    assert isolated(_large).peak_mb > 480
