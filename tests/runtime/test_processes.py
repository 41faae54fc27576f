"""The compiled runtime where processes fork and where the interpreter ends during a call."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.runtime import native

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(
    native.compiled is None, reason="installed without a compiler: there is no compiled runtime"
)
START = """
import os, sys, threading, time
import numpy as np
from parity.kinds import KINDS, drivers
deformer = KINDS["wide"]()
bones, controls = drivers(deformer, 40)
want = deformer.deform(bones, controls, threads=3)
"""


def run(program, timeout=60):
    return subprocess.run(
        [sys.executable, "-c", START + program],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_deforms_and_ends():
    done = run(
        """
child = os.fork()
for threads in (3, 2):
    assert np.array_equal(deformer.deform(bones, controls, threads=threads), want)
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("both")
"""
    )
    assert (done.returncode, done.stdout.strip()) == (0, "both"), done.stderr


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_a_forked_child_keeps_its_processors():
    done = run(
        """
child = os.fork()
before = os.sched_getaffinity(0)
end = time.monotonic() + 0.5
while time.monotonic() < end:
    deformer.deform(bones, controls, threads=3)
    assert os.sched_getaffinity(0) == before
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("attempt", range(5))
def test_the_interpreter_ends_while_daemon_threads_deform(attempt):
    done = run(
        """
def work():
    while True:
        deformer.deform(bones, controls, threads=2)

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "truncate"), reason="no truncate on this system")
def test_a_file_that_shrinks_while_it_is_loaded_and_played(tmp_path):
    path = tmp_path / "a.understudy"
    done = run(
        f"""
from understudy import Deformer
from understudy.core.errors import UnderstudyError
path = {str(path)!r}
deformer.save(path)
data = open(path, "rb").read()
loaded = Deformer.load(path)
ended = threading.Event()

def rewrite():
    while not ended.is_set():
        os.truncate(path, 100)
        with open(path, "r+b") as file:
            file.write(data)

writer = threading.Thread(target=rewrite, daemon=True)
writer.start()
for _ in range(200):
    try:
        Deformer.load(path)
    except UnderstudyError:
        pass
ended.set()
writer.join()
os.truncate(path, 0)
assert np.array_equal(loaded.deform(bones, controls, threads=3), want)
"""
    )
    assert done.returncode == 0, done.stderr
