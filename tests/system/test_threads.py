"""The number of threads, how they wait, and tasks on several of them."""

import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from understudy.system import tasks, threads
from understudy.system.errors import InputError


def blas_threads():
    return [found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"]


@pytest.mark.parametrize(
    ("files", "membership", "want"),
    [
        ({"cpu.max": "max 100000\n"}, "0::/\n", None),
        ({"cpu.max": "150000 100000\n"}, "0::/\n", 1.5),
        ({"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, "0::/a/b\n", 3.0),
        # Inside a container, the path may be that outside it, which is not there.
        ({"cpu.max": "50000 100000\n"}, "0::/docker/1234\n", 0.5),
        (
            {"cpu,cpuacct/j/cpu.cfs_quota_us": "200000", "cpu,cpuacct/j/cpu.cfs_period_us": "1e5"},
            "5:memory:/j\n4:cpu,cpuacct:/j\n",
            2.0,
        ),
        (
            {"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            "4:cpu,cpuacct:/\n",
            None,
        ),
        ({"cpu.max": "rubbish"}, "0::/\n", None),
        ({}, "rubbish", None),
    ],
)
def test_limits_of_containers(tmp_path, files, membership, want):
    for name, content in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "membership").write_text(membership)
    assert threads.granted_processors(tmp_path / "membership", tmp_path / "cgroup") == want


def test_no_cgroups_no_limit(tmp_path):
    assert threads.granted_processors(tmp_path / "none", tmp_path) is None


def test_the_container_and_low_priority_lower_the_count(monkeypatch):
    monkeypatch.setattr(threads, "affinity", lambda: 8)
    monkeypatch.setattr(os, "getpriority", lambda kind, who: 0)
    monkeypatch.setattr(threads, "granted_processors", lambda: None)
    assert threads.count() == 8
    monkeypatch.setattr(threads, "granted_processors", lambda: 2.5)
    assert threads.count() == 3
    monkeypatch.setattr(os, "getpriority", lambda kind, who: 10)
    assert threads.count() == 1


def test_using_is_restored_and_checked():
    before = threads.count()
    with threads.using(5):
        with threads.using(None):
            assert threads.count() == 5
        with threads.using(2):
            assert threads.count() == 2
        assert threads.count() == 5
    assert threads.count() == before
    with pytest.raises(InputError, match="threads"), threads.using(0):
        pass


def test_waiting_is_passive_unless_the_user_says_otherwise():
    program = (
        "import os, understudy; "
        "print(os.environ['OMP_WAIT_POLICY'], os.environ['OPENBLAS_THREAD_TIMEOUT'])"
    )
    given = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY",)}
    given["OPENBLAS_THREAD_TIMEOUT"] = "20"
    done = subprocess.run(
        [sys.executable, "-c", program], env=given, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["PASSIVE", "20"]


def test_the_environment_is_set_before_numpy_loads():
    program = (
        "import sys; import understudy.system.thread_environment as e; "
        "first = list(sys.modules); "
        "print(first.index(e.__name__) < first.index('numpy'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"


def test_blas_has_one_thread_until_the_last_user_has_left():
    before = blas_threads()
    first, second = tasks.one_blas_thread(), tasks.one_blas_thread()
    first.__enter__()
    second.__enter__()
    assert set(blas_threads()) == {1}
    first.__exit__(None, None, None)
    assert set(blas_threads()) == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


@pytest.mark.parametrize("count", [1, 3])
def test_tasks_keep_their_order_and_may_contain_tasks(count):
    def work(i):
        return sum(tasks.parallel_map(lambda j: i * j, range(4)))

    with threads.using(count):
        assert tasks.parallel_map(work, range(20)) == [6 * i for i in range(20)]


def test_an_error_in_a_task_is_raised():
    def work(i):
        return np.linalg.inv(np.zeros((2, 2)))

    with threads.using(2), pytest.raises(np.linalg.LinAlgError):
        tasks.parallel_map(work, range(3))
