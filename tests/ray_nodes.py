"""Clusters of several Ray nodes on this machine, each in a process of its own.

None of a cluster outlives its test, because all of its processes share the session of the driver.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

# Given to drivers: two nodes of one processor each, and a head without.
TWO_NODES = """
import sys, threading, time
from ray.cluster_utils import Cluster as Nodes

small = {"object_store_memory": 80_000_000}
head = {"num_cpus": 0, "include_dashboard": False, **small}
nodes = Nodes(initialize_head=True, head_node_args=head)
workers = [nodes.add_node(num_cpus=1, **small) for _ in range(2)]
nodes.wait_for_nodes()
"""


def start(driver: Path, *words) -> subprocess.Popen:
    """Start a driver's script."""
    return subprocess.Popen(
        [sys.executable, str(driver), *map(str, words)],
        env={**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(running: subprocess.Popen) -> str:
    """The output of a driver; whatever it started ends with it."""
    try:
        out, _ = running.communicate(timeout=240)
    finally:
        end_session(running)
    assert running.returncode == 0, out
    return out


def end_session(running: subprocess.Popen) -> None:
    """End a driver and the processes of its cluster."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            session = int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[3])
            if session == running.pid:
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, ValueError):
            continue
    running.wait()
    running.stdout.close()
