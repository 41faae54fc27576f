"""Pools of actors on a real Ray cluster of two nodes."""

import sys

import pytest
from ray_nodes import TWO_NODES, finish, start

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="clusters of several nodes run on Linux"),
]
DRIVER = (
    TWO_NODES
    + """
import os
from pathlib import Path
from understudy.system.cluster import Cluster, using

def where(part, advance):
    time.sleep(0.2)
    return part, os.getpid()

def late(part, advance):
    return -part, os.getpid()

with using(Cluster(nodes.address, 2), Path(sys.argv[1])) as workers:
    with workers.pool(where) as pool:
        first = pool.run(range(6))
    with workers.pool(late) as pool:
        second = pool.run(range(6))
    assert [part for part, _ in first] == [-part for part, _ in second] == list(range(6))
    used = {process for _, process in first}
    assert len(used) == 2, used
    # The next pool uses the same processes.
    assert {process for _, process in second} <= used

    # Actors that died in between are replaced, however many there are.
    nodes.remove_node(nodes.worker_nodes.copy().pop(), allow_graceful=False)
    for actor in workers._spare:
        workers.ray.kill(actor)
    workers._spare *= 20
    with workers.pool(where, most=1) as pool:
        third = pool.run(range(3))
    assert [part for part, _ in third] == [0, 1, 2]
    assert not used & {process for _, process in third}
"""
)


def test_actors_are_used_again_and_replaced_where_they_died(tmp_path):
    (tmp_path / "driver.py").write_text(DRIVER)
    finish(start(tmp_path / "driver.py", tmp_path / "files"))
