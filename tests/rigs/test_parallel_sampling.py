"""Sampling with processes: the same store however it was made, and however often it was stopped."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from bending_rig import BendingRig

from understudy.io import pose_store as store
from understudy.rigs import parallel_sampling
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan, gaussian
from understudy.system.errors import FileError, InputError, UnderstudyError
from understudy.system.progress import Progress, Task

PLAN = SamplePlan(240, seed=3)
BLOCK = 16
BEND = gaussian(BendingRig().controls, 240, seed=3)[:, 0]
FIRST = int(np.argmax(BEND > 79))  # the first pose where the rig's trouble strikes


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()
    }


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    path = tmp_path_factory.mktemp("parallel_sampling") / "whole.zarr"
    sample_poses(BendingRig, PLAN, path, processes=1, block=BLOCK)
    return contents(path)


class Recorder(Progress):
    """Progress that remembers."""

    def __init__(self):
        self.steps, self.notes, self.total = [], [], None

    def task(self, label, total):
        self.total = total
        recorder = self

        class Listening(Task):
            def __enter__(self):
                return self

            def __exit__(self, *_):
                return None

            def advance(self, steps=1):
                recorder.steps.append(steps)

            def note(self, text):
                recorder.notes.append(text)

        return Listening()


def test_in_process_sample_is_the_rig_at_the_plan(tmp_path):
    recorder = Recorder()
    poses = sample_poses(BendingRig, PLAN, tmp_path / "s", processes=1, progress=recorder)
    values = gaussian(BendingRig().controls, 240, seed=3)
    assert np.array_equal(poses.controls, values)
    assert np.array_equal(poses.read_poses(0, 240), BendingRig().evaluate(values).vertices)
    assert (sum(recorder.steps), recorder.total) == (240, 240)
    facts = store.provenance(tmp_path / "s")
    assert (facts["rig"], facts["plan"]["seed"], facts["plan"]["kind"]) == (
        "bending",
        3,
        "gaussian",
    )


def test_processes_give_the_same_bytes_and_leave_the_environment(tmp_path, uninterrupted):
    before, recorder = dict(os.environ), Recorder()
    sample_poses(BendingRig, PLAN, tmp_path / "s", processes=2, block=BLOCK, progress=recorder)
    assert contents(tmp_path / "s") == uninterrupted
    assert dict(os.environ) == before
    assert sum(recorder.steps) == recorder.total == 240
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_blocks_do_not_change_the_sample(tmp_path):
    one, two = (
        sample_poses(BendingRig, SamplePlan(100), tmp_path / str(block), processes=1, block=block)
        for block in (7, 64)
    )
    assert np.array_equal(one.controls, two.controls)
    assert np.array_equal(one.read_poses(0, 100), two.read_poses(0, 100))


def test_a_finished_sample_is_only_opened(tmp_path, monkeypatch):
    sample_poses(BendingRig, SamplePlan(20), tmp_path / "s")
    monkeypatch.setattr(parallel_sampling, "sample_block", None)
    assert sample_poses(BendingRig, SamplePlan(20), tmp_path / "s").pose_count == 20


def test_few_poses_need_no_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel_sampling, "_sample_in_processes", None)
    (tmp_path / "s").mkdir()  # an empty folder is as good as none
    assert (
        sample_poses(lambda: BendingRig(), SamplePlan(1), tmp_path / "s", processes=8).pose_count
        == 1
    )


def test_another_plan_is_refused_and_overwrite_starts_again(tmp_path):
    sample_poses(BendingRig, SamplePlan(20), tmp_path / "s")
    with pytest.raises(FileError, match="plan seed 0 there, 1 now"):
        sample_poses(BendingRig, SamplePlan(20, seed=1), tmp_path / "s")
    poses = sample_poses(BendingRig, SamplePlan(20, seed=1), tmp_path / "s", overwrite=True)
    assert np.array_equal(poses.controls, gaussian(BendingRig().controls, 20, seed=1))


def test_ranges_come_from_a_file(tmp_path):
    (tmp_path / "ranges.toml").write_text("bend = [0, 5]\n")
    poses = sample_poses(
        BendingRig, SamplePlan(20), tmp_path / "s", ranges=tmp_path / "ranges.toml"
    )
    assert 0 <= poses.controls[:, 0].min() < poses.controls[:, 0].max() <= 5
    assert poses.control_spec.high[0] == 5
    with pytest.raises(FileError, match="ranges '"):
        sample_poses(BendingRig, SamplePlan(20), tmp_path / "s")


def test_a_second_sampler_is_refused(tmp_path):
    with store.lock(tmp_path / "s"), pytest.raises(FileError, match="another process is sampling"):
        sample_poses(BendingRig, SamplePlan(20), tmp_path / "s")


@pytest.mark.parametrize(
    ("rig", "message"),
    [
        (3, "got int"),
        ("humna", "did you mean 'human'"),
        (lambda: BendingRig(), "cannot be sent to worker"),
    ],
)
def test_wrong_rigs_are_explained(tmp_path, rig, message):
    with pytest.raises(InputError, match=message):
        sample_poses(rig, SamplePlan(80), tmp_path / "s", processes=2, block=BLOCK)


def test_wrong_number_of_processes(tmp_path):
    with pytest.raises(InputError, match="processes"):
        sample_poses(BendingRig, SamplePlan(20), tmp_path / "s", processes=0)


@pytest.mark.parametrize("processes", [1, 2])
def test_nan_names_the_pose_and_keeps_what_is_done(tmp_path, uninterrupted, processes):
    rig = partial(BendingRig, trouble="nan")
    message = (
        r"rig 'bending' failed at pose \d+: .*NaN.* bend = .* deg.* of 240 poses are kept in .* to "
        r"resume"
    )
    with pytest.raises(InputError, match=message) as caught:
        sample_poses(rig, PLAN, tmp_path / "s", processes=processes, block=BLOCK)
    pose = int(str(caught.value).split("at pose ")[1].split(":")[0])
    assert BEND[pose] > 79
    sample_poses(BendingRig, PLAN, tmp_path / "s", processes=1)  # repaired
    assert contents(tmp_path / "s") == uninterrupted


def test_a_bug_in_the_rig_keeps_its_type_and_gets_notes(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        sample_poses(
            partial(BendingRig, trouble="bug"), PLAN, tmp_path / "s", processes=1, block=BLOCK
        )
    notes = " ".join(caught.value.__notes__)
    assert f"rig 'bending' failed at pose {FIRST}. Its controls: bend = " in notes
    assert f" {FIRST // BLOCK * BLOCK} of 240 poses are kept" in notes


def test_an_error_that_cannot_travel_is_reported_as_text(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)AlienError: alien.*failed at pose"):
        sample_poses(
            partial(BendingRig, trouble="alien"), PLAN, tmp_path / "s", processes=2, block=BLOCK
        )


def test_a_killed_worker_is_a_clear_error_and_can_be_resumed(tmp_path, uninterrupted):
    with pytest.raises(
        UnderstudyError,
        match=(
            r"a worker process died.*lack of memory \(2 processes ran\).* of 240 poses are kept "
            r".*fewer processes"
        ),
    ):
        sample_poses(
            partial(BendingRig, trouble="die"), PLAN, tmp_path / "s", processes=2, block=BLOCK
        )
    sample_poses(BendingRig, PLAN, tmp_path / "s", processes=1)
    assert contents(tmp_path / "s") == uninterrupted


SCRIPT = """
import sys
from functools import partial
from bending_rig import BendingRig
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan

if __name__ == "__main__":
    rig, plan = partial(BendingRig, delay=0.02), SamplePlan(240, seed=3)
    sample_poses(rig, plan, sys.argv[1], processes=int(sys.argv[2]), block=16)
"""


def start_and_stop(folder: Path, processes: int, stop) -> tuple[Path, subprocess.Popen, str]:
    """A sampling process in a group of its own, stopped after its third block; the sample takes 2.4
    s or more, so that is midway.
    """
    (folder / "sampling.py").write_text(SCRIPT)
    path = folder / "s.zarr"
    here = Path(__file__).parents[1]
    search = os.pathsep.join([str(here), str(here.parent / "src")])
    command = [sys.executable, str(folder / "sampling.py"), str(path), str(processes)]
    child = subprocess.Popen(
        command,
        env=os.environ | {"PYTHONPATH": search},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: child.poll() is not None or len(markers(path)) >= 3)
        assert child.poll() is None, child.stderr.read()
        stop(child.pid)
        said = child.communicate(timeout=30)[
            1
        ]  # ends only when the workers, which hold the same pipe, have ended too
    finally:
        child.kill()
    return path, child, said


def markers(path: Path) -> list[Path]:
    return list(path.glob("vertices/done/*.json"))


def until(reached, limit: float = 30) -> None:
    end = time.monotonic() + limit
    while not reached():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("processes", [1, 2])
def test_kill_9_midway_then_resume(tmp_path, uninterrupted, processes):
    path, child, _ = start_and_stop(tmp_path, processes, lambda pid: os.kill(pid, signal.SIGKILL))
    assert child.returncode == -signal.SIGKILL
    kept = markers(path)
    assert 3 <= len(kept) < 15
    with pytest.raises(FileError, match=f"sampling stopped at {16 * len(kept)} of 240 poses"):
        store.open_poses(path)
    (path / "vertices/c.14.0.0.0123.partial").write_bytes(
        b"half a tile"
    )  # what a kill in the midst of a write leaves
    times = {file: file.stat().st_mtime_ns for file in kept}
    recorder = Recorder()
    sample_poses(BendingRig, PLAN, path, processes=processes, progress=recorder)
    assert recorder.total == sum(recorder.steps) == 240 - 16 * len(kept)
    assert recorder.notes == [f"{16 * len(kept)} of 240 poses were there already"]
    assert {
        file: file.stat().st_mtime_ns for file in kept
    } == times  # only what was missing was done again
    assert contents(path) == uninterrupted
    assert not path.with_name(".s.zarr.lock").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_midway_then_resume(tmp_path, uninterrupted, processes):
    path, child, said = start_and_stop(
        tmp_path, processes, lambda pid: os.killpg(pid, signal.SIGINT)
    )
    assert child.returncode == -signal.SIGINT  # how Python ends on an uncaught KeyboardInterrupt
    kept = len(markers(path))
    assert f"KeyboardInterrupt: sampling was stopped: {16 * kept} of 240 poses are kept in" in said
    assert said.count("Traceback") == 1  # none from the workers
    assert 3 <= kept < 15
    sample_poses(BendingRig, PLAN, path, processes=1)
    assert contents(path) == uninterrupted
