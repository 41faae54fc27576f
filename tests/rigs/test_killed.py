"""Samplers that are killed at random moments: what continues ends with the same bytes.

Once or twice in `make test`; `make test-full` sets UNDERSTUDY_KILLS, and kills each that often.
"""

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from bending_rig import BendingRig
from bucket_server import BUCKET, s3_server
from ray_nodes import TWO_NODES, end_session, start
from store_files import contents

from understudy.io import pose_store as store
from understudy.rigs.chunk_sampling import Chunk, sample_chunk
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system import bucket
from understudy.system.errors import FileError

KILLS = int(os.environ.get("UNDERSTUDY_KILLS", "0"))
PLAN, BLOCK, POSES = SamplePlan(120, seed=3), 10, 120
SECONDS = 1.5  # that a sampler works, about
RIG = """
from bending_rig import BendingRig

class Slow(BendingRig):
    def __init__(self):
        super().__init__(delay=0.012)
"""
# Says when it is ready, so that the random moment lies in its work and not in its start.
SAMPLER = """
import sys
from understudy.rigs.chunk_sampling import Chunk, sample_chunk
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan

if __name__ == "__main__":
    rig, path, chunk = sys.argv[1:]
    print("ready", flush=True)
    if chunk == "all":
        sample_poses(rig, SamplePlan(120, seed=3), path, processes=1, block=10)
    else:
        sample_chunk(rig, SamplePlan(120, seed=3), path, Chunk.from_text(chunk), 1, block=10)
"""
RAY = (
    TWO_NODES
    + """
from understudy.system.cluster import Cluster
from understudy.rigs.parallel_sampling import SamplingJob
from understudy.rigs.ray_sampling import sample_on_cluster
from understudy.rigs.sampling import SamplePlan

job = SamplingJob.of(sys.argv[1], SamplePlan(120, seed=3), None, 10)
print("ready", flush=True)
sample_on_cluster(job, sys.argv[2], Cluster(nodes.address, 2))
"""
)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="ends sessions of processes")


@pytest.fixture
def rig(tmp_path):
    shutil.copy(Path(__file__).parents[1] / "bending_rig.py", tmp_path)
    (tmp_path / "slow.py").write_text(RIG)
    (tmp_path / "sampler.py").write_text(SAMPLER)
    (tmp_path / "ray_driver.py").write_text(RAY)
    return f"{tmp_path / 'slow.py'}:Slow"


@pytest.fixture
def whole(rig, tmp_path):
    sample_poses(rig, PLAN, tmp_path / "whole.zarr", processes=1, block=BLOCK)
    return contents(tmp_path / "whole.zarr")


def kill_at_random(samplers: list[subprocess.Popen], moment: float) -> None:
    """Wait until all are at work, and some more, and end them with all that they started."""
    try:
        for one in samplers:
            line = one.stdout.readline()
            while line and line != "ready\n":
                line = one.stdout.readline()
        time.sleep(moment)
    finally:
        for one in samplers:
            end_session(one)


def killed_often(kills, begin, path, whole, read=contents, remove=shutil.rmtree) -> None:
    """Kill what `begin` starts at random moments; a store that is complete gives way to another."""
    moments, cut = random.Random(7), 0
    for _ in range(kills):
        kill_at_random(begin(), moments.uniform(0, SECONDS))
        if store.occupied(path):
            cut += bool(left := store.missing_blocks(path))
            if not left:
                assert read(path).keys() >= whole.keys()
                remove(path)
    if kills > 5:
        assert cut, "no kill struck while a store was written"


@pytest.mark.slow
@on_linux
def test_a_sampler(rig, whole, tmp_path):
    path = tmp_path / "s.zarr"
    begin = lambda: [start(tmp_path / "sampler.py", rig, path, "all")]
    killed_often(KILLS or 2, begin, path, whole)
    sample_poses(rig, PLAN, path, processes=1, block=BLOCK)
    assert contents(path) == whole


@pytest.mark.slow
@on_linux
def test_the_machines_of_a_farm(rig, whole, tmp_path):
    """Three at the same time, of which two have the same chunk."""
    path = tmp_path / "s.zarr"
    chunks = ("1/2", "2/2", "2/2")
    begin = lambda: [start(tmp_path / "sampler.py", rig, path, chunk) for chunk in chunks]
    killed_often(KILLS or 1, begin, path, whole)
    for number in (1, 2):
        sample_chunk(rig, PLAN, path, Chunk(number, 2), processes=1, block=BLOCK)
    assert contents(path) == whole
    assert not list(tmp_path.glob(".s.zarr*partial"))


@pytest.mark.slow
@on_linux
def test_a_sampler_to_a_bucket(rig, whole, tmp_path, monkeypatch):
    with s3_server() as port:
        settings = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        bucket._client.cache_clear()
        path = f"s3://{BUCKET}/killed/s.zarr"
        there = bucket.place(path)

        def objects(_) -> dict[str, bytes]:
            client = bucket._client(BUCKET)
            read = lambda name: bytes(client.get(f"{there.key}/{name}").bytes())
            return {name: read(name) for name in there.sizes()}

        begin = lambda: [start(tmp_path / "sampler.py", rig, path, "all")]
        killed_often(KILLS or 1, begin, path, whole, objects, lambda _: there.remove())
        sample_poses(rig, PLAN, path, processes=1, block=BLOCK)
        found = objects(path)
        bucket._client.cache_clear()
    headers = (found.pop("zarr.json"), whole.pop("zarr.json"))
    assert found == whole
    assert len(headers[0]) > 0


@pytest.mark.slow
@on_linux
@pytest.mark.skipif(not KILLS, reason="starts a cluster each time; see test_ray_sampling.py")
def test_a_cluster(rig, whole, tmp_path):
    path = tmp_path / "s.zarr"
    killed_often(KILLS, lambda: [start(tmp_path / "ray_driver.py", rig, path)], path, whole)
    sample_poses(rig, PLAN, path, processes=1, block=BLOCK)
    assert contents(path) == whole


def test_a_clock_that_is_set_back(tmp_path, monkeypatch):
    """Times of files and of the day decide nothing."""
    path, other = tmp_path / "s.zarr", tmp_path / "whole.zarr"
    sample_poses(BendingRig, PLAN, other, processes=1, block=BLOCK)
    sample_chunk(BendingRig, PLAN, path, Chunk(1, 2), processes=1, block=BLOCK)
    for file in path.rglob("*"):
        os.utime(file, (4e9, 4e9))
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    done = sample_chunk(BendingRig, PLAN, path, Chunk(1, 2), processes=1, block=BLOCK)
    assert done.sampled == 0
    sample_chunk(BendingRig, PLAN, path, Chunk(2, 2), processes=1, block=BLOCK)
    assert contents(path) == contents(other)


def test_a_store_that_is_copied_while_it_is_written(tmp_path):
    path, copies = tmp_path / "s.zarr", []
    slow = lambda: BendingRig(delay=0.004)
    writer = threading.Thread(target=sample_poses, args=(slow, PLAN, path, 1), kwargs={"block": 10})
    writer.start()
    while writer.is_alive():
        copy = tmp_path / f"copy_{len(copies)}.zarr"
        if store.occupied(path) and len(copies) < 6:
            copies.append(copy)
            shutil.copytree(path, copy, copy_function=_copy)
        time.sleep(0.05)
    writer.join()
    partial = 0
    for copy in copies:
        try:
            store.open_poses(copy)
        except FileError:
            partial += 1
        sample_poses(slow, PLAN, copy, 1, block=BLOCK)
        assert contents(copy) == contents(path)
    assert partial


def _copy(source: str, target: str) -> None:
    """As programs copy that pass over what has gone: drafts of tiles."""
    if Path(source).exists():
        shutil.copyfile(source, target)
