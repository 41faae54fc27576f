"""A store belongs to one rig: one that moves otherwise is noticed, whatever it is called."""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from bending_rig import BendingRig
from command_line import run

from understudy.core.controls import ControlSpec
from understudy.io import pose_store
from understudy.io.blender import launch
from understudy.rigs import parallel_sampling
from understudy.rigs.chunk_sampling import Chunk, sample_chunk
from understudy.rigs.parallel_sampling import sample_block, sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system.errors import FileError

PLAN = SamplePlan(80, seed=1)
EDIT = Path(__file__).parent / "inside_blender" / "edit_blend.py"
ELSEWHERE = "the rig moves vertex 0 by 2.0 cm elsewhere than when this store was begun"


HELPER = "def height():\n    return {}\n"
IN_WORKERS = """
import multiprocessing

def height():
    return 0.0 if multiprocessing.parent_process() is None else 2.0
"""
RIG = """
from bending_rig import BendingRig
from helper import height

class Lid(BendingRig):
    def evaluate(self, values):
        poses = super().evaluate(values)
        poses.vertices.flags.writeable = True
        poses.vertices[:, 0, 1] += height()
        return poses
"""


class Moved(BendingRig):
    """The same to look at: mesh, bones, controls and name."""

    by = 2.0

    def evaluate(self, values):
        poses = super().evaluate(values)
        poses.vertices.flags.writeable = True
        poses.vertices[:, 0, 1] += self.by
        return poses


class Turned(BendingRig):
    """Its bones alone differ."""

    def evaluate(self, values):
        poses = super().evaluate(values)
        poses.world_from_bone.flags.writeable = True
        poses.world_from_bone[:, 1, :, 3] += 0.5
        return poses


class Rounded(Moved):
    """Another machine: it rounds otherwise."""

    by = 1e-7


def begun(path: Path) -> Path:
    """A store of which a third is there."""
    sample_chunk(BendingRig, PLAN, path, Chunk(1, 3), processes=1, block=16)
    return path


@pytest.mark.parametrize("how", ["resume", "join", "complete"])
def test_a_rig_that_moves_otherwise_is_refused(tmp_path, how):
    path = begun(tmp_path / "s.zarr")
    if how == "complete":
        sample_poses(BendingRig, PLAN, path, processes=1)
    work = partial(sample_poses, Moved, PLAN, path, processes=1)
    if how == "join":
        work = partial(sample_chunk, Moved, PLAN, path, Chunk(2, 3), processes=1, block=16)
    with pytest.raises(FileError, match=f"{ELSEWHERE}. Choose another path, or overwrite it"):
        work()
    poses = sample_poses(Moved, PLAN, path, processes=1, overwrite=True)
    assert np.array_equal(poses.read_poses(0, 80), Moved().evaluate(poses.controls).vertices)


def test_bones_that_move_otherwise_are_refused(tmp_path):
    path = begun(tmp_path / "s.zarr")
    with pytest.raises(FileError, match=r"moves bone 'b' by 0\.87 cm elsewhere"):
        sample_poses(Turned, PLAN, path, processes=1)


def test_what_rounds_otherwise_continues(tmp_path):
    assert sample_poses(Rounded, PLAN, begun(tmp_path / "s.zarr"), processes=1).pose_count == 80


@pytest.mark.slow
def test_every_worker_is_asked(tmp_path):
    """Its rig may differ from that of the first process, as on a machine with another version."""
    shutil.copy(Path(__file__).parents[1] / "bending_rig.py", tmp_path)
    (tmp_path / "helper.py").write_text(IN_WORKERS)
    (tmp_path / "lid.py").write_text(RIG)
    rig = f"{tmp_path / 'lid.py'}:Lid"
    with pytest.raises(FileError, match=rf"{ELSEWHERE}.* 0 of 80 poses are kept"):
        sample_poses(rig, PLAN, tmp_path / "s.zarr", processes=2, block=16)


def test_every_control_moves_in_what_tells_a_rig(tmp_path):
    count = 60
    spec = ControlSpec(tuple(f"c{k}" for k in range(count)), [-1.0] * count, [1.0] * count)
    values = SamplePlan(300, seed=2, active=0.25).values(type("R", (), {"controls": spec})())
    rows = parallel_sampling._shown_rows(spec, values)
    assert parallel_sampling.SHOWN < len(rows) <= parallel_sampling.MOST_SHOWN
    assert (values[rows] != 0).any(axis=0).all()
    assert len(set(rows)) == len(rows)
    dense = SamplePlan(300).values(type("R", (), {"controls": spec})())
    assert parallel_sampling._shown_rows(spec, dense) == [0, 75, 151, 225]
    assert parallel_sampling._shown_rows(spec, dense[:1]) == [0]


def test_a_store_that_keeps_no_poses_of_its_rig_is_read_and_not_continued(tmp_path):
    job = parallel_sampling.SamplingJob.of(BendingRig, PLAN, None, 80)
    bare = pose_store.Sample(
        job.rig.mesh, job.rig.skeleton, job.spec, job.values, job.facts, None, None
    )
    pose_store.create(tmp_path / "s.zarr", bare, 80)
    sample_block(job.rig, tmp_path / "s.zarr", 0)
    assert pose_store.open_poses(tmp_path / "s.zarr").pose_count == 80
    with pytest.raises(FileError, match="begun by an older version"):
        sample_poses(BendingRig, PLAN, tmp_path / "s.zarr")


@pytest.mark.slow
def test_a_module_that_the_rig_imports(tmp_path):
    shutil.copy(Path(__file__).parents[1] / "bending_rig.py", tmp_path)
    (tmp_path / "lid.py").write_text(RIG)
    command = [sys.executable, "-m", "understudy", "sample", f"{tmp_path / 'lid.py'}:Lid"]
    for height, code in ((0.0, 0), (0.0, 0), (2.0, 2)):
        (tmp_path / "helper.py").write_text(HELPER.format(height))
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        done = subprocess.run(
            [*command, "-o", str(tmp_path / "s.zarr"), "--count", "20"],
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
    assert ELSEWHERE in " ".join(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize("what", ["weights", "driver", "shape key", "nothing"])
def test_an_edited_blend_file(files, tmp_path, capsys, what):
    first, path = tmp_path / "arm.blend", tmp_path / "arm.zarr"
    shutil.copy(files / "arm.blend", first)
    sample = ("sample", first, "-o", path, "--count", "40", "--processes", "1")
    assert run(capsys, *sample, "--chunk", "1/2", "--block", "20")[0] == 0
    launch.run_script(EDIT, {"source": str(first), "target": str(first), "what": what}, timeout=120)
    code, _, told = run(capsys, *sample)
    if what == "nothing":
        assert code == 0, told
    else:
        assert code == 2
        assert "elsewhere than when this store was begun" in told or "holds another sample" in told
