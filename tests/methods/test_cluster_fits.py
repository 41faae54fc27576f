"""Fits on a real Ray cluster of two nodes: the bytes of one machine, whoever is killed."""

import json
import sys
import time

import pytest
from ray_nodes import TWO_NODES, end_session, finish, start

from understudy.jobs import fit
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="clusters of several nodes run on Linux"),
]
# 45 bones, so that there are several stacks of networks.
RIG = """
from understudy_benchmarks.astrid_rig import LimbRig

class Limbs(LimbRig):
    rings = 19
"""
OPTIONS = {
    "fdda": {"epochs": "30", "tau": "1.0"},
    "corrected_skin": {"epochs": "3", "regions": "40", "input_poses": "2"},
    "differential": {"epochs": "2", "anchor_epochs": "2", "regions": "16", "input_poses": "2"},
}
DRIVER = (
    TWO_NODES
    + """
import json
from pathlib import Path
from understudy.system.cluster import Cluster, using
from understudy.jobs import fit

folder, kill, jobs = Path(sys.argv[1]), sys.argv[2] == "kill", json.loads(sys.argv[3])

def trained():
    return len(list(folder.glob("*/training-*/*.found")))

def end_one():
    while not trained():
        time.sleep(0.02)
    nodes.remove_node(workers[0], allow_graceful=False)
    # Into a file: Ray prints from other threads and may break a line.
    (folder / "killed_at").write_text(str(trained()))

if kill:
    threading.Thread(target=end_one, daemon=True).start()
for method, options in jobs.items():
    out = folder / f"{method}.understudy"
    with using(Cluster(nodes.address, 2), Path(f"{out}.checkpoint-cluster")):
        fit(method, folder.parent / "s.zarr", out, options=options)
    assert not list(folder.glob("*checkpoint*"))
"""
)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A folder with a pose store and the file of every method, fitted without Ray."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "limbs.py").write_text(RIG)
    (folder / "driver.py").write_text(DRIVER)
    sample_poses(f"{folder / 'limbs.py'}:Limbs", SamplePlan(150, seed=1), folder / "s.zarr")
    (folder / "plain").mkdir()
    for method, options in OPTIONS.items():
        fit(method, folder / "s.zarr", folder / "plain" / f"{method}.understudy", options=options)
    return folder


def same(fitted, out, methods):
    for method in methods:
        name = f"{method}.understudy"
        assert (out / name).read_bytes() == (fitted / "plain" / name).read_bytes(), method


def jobs(*methods):
    return json.dumps({method: OPTIONS[method] for method in methods})


def test_a_node_killed_while_networks_are_trained_changes_no_byte(fitted):
    out = fitted / "killed"
    out.mkdir()
    finish(start(fitted / "driver.py", out, "kill", jobs("fdda")))
    assert int((out / "killed_at").read_text()) < 6  # of six stacks
    same(fitted, out, ["fdda"])


def test_a_driver_that_was_killed_goes_on_and_every_method_has_the_same_bytes(fitted):
    out = fitted / "again"
    out.mkdir()
    first = start(fitted / "driver.py", out, "go", jobs("fdda"))
    try:
        deadline = time.monotonic() + 200
        while not list(out.glob("*/training-*/*.found")):
            assert first.poll() is None, first.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        end_session(first)
    assert not (out / "fdda.understudy").exists()
    kept = list(out.glob("*/training-*/*.found"))
    assert 0 < len(kept) < 6
    again = start(fitted / "driver.py", out, "go", jobs(*OPTIONS))
    try:
        # What was finished is not trained again, so its file keeps its time.
        before = {file: file.stat().st_mtime_ns for file in kept}
        while again.poll() is None and all(file.exists() for file in kept):
            assert all(file.stat().st_mtime_ns == t for file, t in before.items() if file.exists())
            time.sleep(0.1)
    except FileNotFoundError:
        pass  # the fit is done
    finish(again)
    same(fitted, out, OPTIONS)
