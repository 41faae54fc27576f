import subprocess
import sys

from understudy.evaluation import machine


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
