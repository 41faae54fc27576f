"""`bench scale`: commands alone and beside a busy loop, each in its own process."""

import json
import os
import time

import numpy as np
import pytest

from understudy.evaluation.result import CaseResult
from understudy.rigs.registry import load_rig
from understudy.system.errors import InputError, UnderstudyError
from understudy_benchmarks import Request, busy_cases, run
from understudy_benchmarks.ray_cases import RIG, ray_findings


@pytest.mark.slow
def test_rows_of_a_command_alone_and_beside_a_busy_loop(tmp_path):
    cases = ("busy/sample", "busy/compress")
    outcome = run("scale", Request("quick", out=tmp_path, cases=cases))
    rows = {row["case"]: row for row in json.loads(json.dumps(outcome.as_json("scale")))["rows"]}
    assert tuple(rows) == cases
    for row in rows.values():
        assert row["quiet_s"] > 0
        assert row["busy_s"] > 0
        assert row["busy_cpu_s"] < 2 * row["busy_s"] + 1  # two cores; the loop is not counted
    assert (tmp_path / "busy/sample/sampled.zarr").is_dir()
    assert (tmp_path / "busy/compress/sequence.understudy").is_file()
    assert all("x the time alone" in line for line in outcome.notes)


@pytest.mark.parametrize("case", ["busy/fdda", "busy/differential"])
def test_commands_of_fits(tmp_path, case, monkeypatch):
    monkeypatch.setattr(busy_cases, "sampled", lambda *_: None)
    size = busy_cases.SIZES["quick"]
    words = busy_cases.CASES[case](tmp_path, size, 3, None)
    assert words[:2] == ["fit", case.partition("/")[2]]
    assert {"epochs=1", "seed=3"} <= set(words)


def test_the_busy_loop_uses_processor_time_and_ends():
    used = lambda: os.times().children_user
    before = used()
    with busy_cases.busy_loop():
        time.sleep(0.5)
        assert used() == before  # children that run are not counted
    assert used() > before


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_two_cores_are_used_and_given_back():
    before = os.sched_getaffinity(0)
    with busy_cases.two_cores():
        assert len(os.sched_getaffinity(0)) <= busy_cases.CORES
    assert os.sched_getaffinity(0) == before


def test_errors(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="case of bench scale"):
        run("scale", Request("quick", cases=("busy/none",)))
    monkeypatch.setitem(busy_cases.CASES, "busy/sample", lambda *_: ["info", "missing.understudy"])
    with pytest.raises(UnderstudyError, match=r"missing\.understudy"):
        run("scale", Request("quick", out=tmp_path, cases=("busy/sample",)))


def test_one_ray_worker_and_two_are_compared():
    rows = [
        CaseResult("ray/50ms", "ray-1", {"sample_s": 20.0, "fit_s": 36.0, "same": 1.0}),
        CaseResult("ray/50ms", "ray-2", {"sample_s": 10.0, "fit_s": 20.0, "same": 1.0}),
    ]
    (text,) = ray_findings(rows)
    assert "2.00 x one at sampling, 1.80 x at fitting, 1.87 x together; the files are the" in text
    assert list(ray_findings(rows[:1])) == []
    slow = load_rig(RIG)
    started = time.monotonic()
    slow.evaluate(np.zeros((2, 90)))
    assert time.monotonic() - started >= 0.1
