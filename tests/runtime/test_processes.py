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


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", START + program],
        env=os.environ | {"PYTHONPATH": str(TESTS)} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_deforms_frees_its_pools_and_ends():
    # Freeing a pool joins its helpers. Those do not exist in the child.
    done = run(
        """
from understudy.runtime import native
pool = native.compiled.Pool(3)
child = os.fork()
for threads in (3, 2):
    assert np.array_equal(deformer.deform(bones, controls, threads=threads), want)
del pool
if child:
    end = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.02)
    if ended == (0, 0):
        os.kill(child, 9)
    assert ended == (child, 0), "the child hangs"
    print("both")
"""
    )
    assert (done.returncode, done.stdout.strip()) == (0, "both"), done.stderr


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
    # The file shrinks when its header is parsed: a reader that had mapped it would end here, with
    # SIGBUS, as soon as it looks at an array.
    done = run(
        f"""
import json
from understudy import Deformer
path = {str(tmp_path / "a.understudy")!r}
deformer.save(path)
parse, cuts = json.loads, []

def cut_and_parse(*given, **options):
    if not cuts:
        os.truncate(path, 100)
    cuts.append(path)
    return parse(*given, **options)

json.loads = cut_and_parse
loaded = Deformer.load(path)
json.loads = parse
assert cuts, "the reader parses its header elsewhere: cut the file there"
os.truncate(path, 0)
assert np.array_equal(loaded.deform(bones, controls, threads=3), want)
"""
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
