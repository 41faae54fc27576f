"""Sampling on a real Ray cluster of several nodes: the bytes of one machine, whoever is killed."""

import shutil
import socket
import sys
import time
from pathlib import Path

import pytest
from ray_nodes import TWO_NODES, end_session, finish, start
from store_files import contents

from understudy.io import pose_store as store
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system.cluster import connected, running_cluster
from understudy.system.errors import InputError

PLAN, BLOCK = SamplePlan(120, seed=3), 10
RIG = """
from bending_rig import BendingRig

class Slow(BendingRig):
    def __init__(self):
        super().__init__(delay=0.02)

class Wrong(BendingRig):
    def evaluate(self, values):
        raise ZeroDivisionError("the rig divided by nothing")
"""
# Two nodes of one processor each; one is killed after some blocks.
DRIVER = (
    TWO_NODES
    + """
from understudy.system.cluster import Cluster
from understudy.io import pose_store as store
from understudy.rigs.parallel_sampling import SamplingJob
from understudy.rigs.ray_sampling import sample_on_cluster
from understudy.rigs.sampling import SamplePlan

rig, path, kill = sys.argv[1], sys.argv[2], sys.argv[3] == "kill"

def end_one():
    while not store.occupied(path) or len(store.missing_blocks(path)) > 9:
        time.sleep(0.1)
    nodes.remove_node(workers[0], allow_graceful=False)
    print("killed at", len(store.missing_blocks(path)), flush=True)

if kill:
    threading.Thread(target=end_one, daemon=True).start()
job = SamplingJob.of(rig, SamplePlan(120, seed=3), None, 10)
poses = sample_on_cluster(job, path, Cluster(nodes.address, 2))
print("poses", poses.pose_count, flush=True)
"""
)


@pytest.fixture
def rig(tmp_path):
    shutil.copy(Path(__file__).parents[1] / "bending_rig.py", tmp_path)
    (tmp_path / "slow.py").write_text(RIG)
    (tmp_path / "driver.py").write_text(DRIVER)
    return f"{tmp_path / 'slow.py'}:Slow"


@pytest.fixture
def whole(rig, tmp_path):
    sample_poses(rig, PLAN, tmp_path / "whole.zarr", processes=1, block=BLOCK)
    return contents(tmp_path / "whole.zarr")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="clusters of several nodes run on Linux")
def test_a_node_killed_while_sampling_changes_no_byte(rig, whole, tmp_path):
    out = finish(start(tmp_path / "driver.py", rig, tmp_path / "s.zarr", "kill"))
    assert "poses 120" in out
    assert "killed at" in out
    assert "killed at 0" not in out
    assert contents(tmp_path / "s.zarr") == whole


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="clusters of several nodes run on Linux")
def test_a_driver_that_was_killed_is_continued_by_the_next(rig, whole, tmp_path):
    path = tmp_path / "s.zarr"
    first = start(tmp_path / "driver.py", rig, path, "go")
    try:
        deadline = time.monotonic() + 200
        while not store.occupied(path) or len(store.missing_blocks(path)) > 10:
            assert first.poll() is None, first.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        end_session(first)
    left = store.missing_blocks(path)
    assert 0 < len(left) <= 10
    sample_poses(rig, PLAN, path, processes=1, block=BLOCK)
    assert contents(path) == whole


def test_a_cluster_that_was_killed_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert running_cluster() is None
    (tmp_path / "ray").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        (tmp_path / "ray/ray_current_cluster").write_text(address)
        assert running_cluster() == address
    assert running_cluster() is None
    monkeypatch.setenv("RAY_ADDRESS", "rubbish")
    assert running_cluster() is None


def test_an_address_where_nothing_answers():
    with (
        pytest.raises(InputError, match="no Ray cluster answers at 'nowhere'"),
        connected("nowhere"),
    ):
        pass
