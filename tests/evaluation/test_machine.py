import subprocess
import sys

import numpy as np

from understudy.evaluation import machine


def _small():
    return float(np.ones(1000).sum())


def _large():
    return float(np.ones(60_000_000).sum())


def test_work_in_its_own_process_is_charged_for_its_own_memory_alone():
    held = np.ones(60_000_000)  # 480 MB here must not count there
    small = machine.isolated(_small)
    assert small.value == 1000
    assert small.peak_mb < 300
    del held
    assert machine.isolated(_large).peak_mb > 480


def test_the_machine_is_described_without_names_or_paths():
    about = machine.describe()
    assert about["cores"] >= 1
    assert not any("/" in str(value) for key, value in about.items() if key not in ("cpu",))


def test_modules_load_where_unix_modules_are_missing():
    """`resource` and `os.sysconf` do not exist on Windows."""
    program = (
        "import os, sys; sys.modules['resource'] = None; del os.sysconf\n"
        "from understudy.evaluation import machine\n"
        "assert machine.describe()['memory_gb'] is None"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
