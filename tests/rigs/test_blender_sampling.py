"""Sampling a rig of Blender: several processes, some of which die, and programs that are killed."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from understudy.cli import main
from understudy.io import pose_store
from understudy.rigs.blender.rig import BlenderRig
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system.errors import UnderstudyError
from understudy.system.progress import Progress, Task

PLAN = SamplePlan(320, seed=5)


def bridges(parent: int) -> list[int]:
    """The Blender processes that a process started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, owner = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if int(owner) == parent and state != "Z" and b"bridge.py" in command:
            found.append(int(folder.name))
    return found


class Disturbed(Progress):
    """Does something when some poses are sampled, once."""

    def __init__(self, poses: int, act):
        self.poses, self.act, self.total = poses, act, 0.0

    @contextmanager
    def task(self, label, total):
        owner = self

        class Counting(Task):
            def advance(self, steps=1):
                owner.total += steps
                if owner.act and owner.total >= owner.poses and label.startswith("sampling"):
                    act, owner.act = owner.act, None
                    act()

        yield Counting()


@pytest.fixture(scope="module")
def alone(files, tmp_path_factory):
    """The poses of an undisturbed run with one process."""
    out = tmp_path_factory.mktemp("alone") / "arm.zarr"
    with BlenderRig(files / "arm.blend") as rig:
        return sample_poses(lambda: rig, PLAN, out, processes=1)


def assert_same(poses, expected):
    np.testing.assert_array_equal(poses.controls, expected.controls)
    count = poses.pose_count
    assert count == expected.pose_count
    np.testing.assert_array_equal(poses.read_poses(0, count), expected.read_poses(0, count))
    np.testing.assert_array_equal(poses.world_from_bone, expected.world_from_bone)


@pytest.mark.slow
def test_two_processes_of_which_one_is_killed(files, alone, tmp_path):
    killed = []

    def kill_one():
        killed.append(bridges(os.getpid())[0])
        os.kill(killed[0], signal.SIGKILL)

    before = set(bridges(os.getpid()))
    assert not before
    progress = Disturbed(40, kill_one)
    path = str(files / "arm.blend")
    poses = sample_poses(path, PLAN, tmp_path / "arm.zarr", processes=2, progress=progress)
    assert killed
    assert_same(poses, alone)
    assert progress.total == PLAN.count  # no pose was evaluated for nothing, none twice
    assert not bridges(os.getpid())
    assert pose_store.provenance(tmp_path / "arm.zarr")["rig"] == "arm.blend"


@pytest.mark.slow
def test_interrupted_sampling_is_resumed(files, alone, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    out = tmp_path / "arm.zarr"
    with pytest.raises(KeyboardInterrupt, match="320 poses are kept"):
        sample_poses(
            str(files / "arm.blend"), PLAN, out, processes=2, progress=Disturbed(100, interrupt)
        )
    assert not bridges(os.getpid())
    left = Disturbed(1e9, None)
    poses = sample_poses(str(files / "arm.blend"), PLAN, out, processes=2, progress=left)
    assert 0 < left.total < PLAN.count  # what was kept is not sampled again
    assert_same(poses, alone)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_killed_program_is_resumed(files, tmp_path):
    out, whole = tmp_path / "arm.zarr", tmp_path / "whole.zarr"
    arguments = ["sample", str(files / "arm.blend"), "--count", "3000", "--processes", "2", "-o"]
    program = [sys.executable, "-c", "from understudy.cli import main; main()"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*program, *arguments, str(out)], stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while len(list(out.glob("vertices/done/*.json"))) < 3:
            assert process.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.005)
        children = bridges(process.pid)
        process.kill()
        process.wait()
    with pytest.raises(UnderstudyError, match="sampling stopped at"):
        pose_store.open_poses(out)
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "Blender outlives the program"
        time.sleep(0.05)
    main([*arguments, str(out)])
    main([*arguments, str(whole)])
    assert_same(pose_store.open_poses(out), pose_store.open_poses(whole))


@pytest.mark.slow
def test_controls_command(files, tmp_path, capsys):
    ranges = tmp_path / "ranges.toml"
    main(["controls", str(files / "arm.blend"), "--control", "upper.rot.*", "-o", str(ranges)])
    lines = ranges.read_text().splitlines()
    names = [line.split('"')[1] for line in lines if line.startswith('"upper')]
    assert names == ["upper.rot.x", "upper.rot.y", "upper.rot.z"]
    ranges.write_text('"upper.rot.y" = [5, 10]\n')
    out = tmp_path / "arm.zarr"
    command = ["sample", str(files / "arm.blend"), "--control", "upper.rot.*", "--ranges"]
    main([*command, str(ranges), "--count", "20", "-o", str(out)])
    poses = pose_store.open_poses(out)
    assert poses.control_spec.names == tuple(names)
    assert poses.controls[:, 1].min() >= 5
    assert poses.controls[:, 1].max() <= 10
    assert pose_store.provenance(out)["rig"] == "arm.blend?control=upper.rot.*"
    capsys.readouterr()
    main(["controls", "tube", "--control", "bend_*"])
    printed = capsys.readouterr().out
    assert '"bend_1"' in printed
    assert '"twist' not in printed
    with pytest.raises(SystemExit):
        main(["sample", "tube", "--mesh", "Body", "-o", str(tmp_path / "tube.zarr")])
    assert ".blend files" in capsys.readouterr().err
