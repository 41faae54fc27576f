"""A disk that is full or read-only: a clear message, nothing lost, and it resumes."""

import numpy as np
import pytest
from bending_rig import BendingRig
from small_disk import fill, read_only, small_disk
from store_files import contents

from understudy.io import pose_store as store
from understudy.jobs import Fit
from understudy.rigs.parallel_sampling import SamplingJob, sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system.errors import FileError

PLAN = SamplePlan(60, seed=2)


class FillingRig(BendingRig):
    """Another program fills the disk while the third block is evaluated."""

    folder = None

    def evaluate(self, values):
        if self.folder is not None and len(list(self.folder.glob("s.zarr/vertices/done/*"))) == 2:
            fill(self.folder)
            FillingRig.folder = None
        return super().evaluate(values)


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", 4) as folder:
        yield folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "s.zarr"
    sample_poses(FillingRig, PLAN, path, processes=1, block=10)
    return path


def test_a_disk_that_fills_up_while_sampling(disk, whole, monkeypatch):
    monkeypatch.setattr(FillingRig, "folder", disk)
    path = disk / "s.zarr"
    with pytest.raises(FileError) as told:
        sample_poses(FillingRig, PLAN, path, processes=1, block=10)
    text = str(told.value)
    assert "no space left on the disk: 60 poses need" in text
    assert "20 of 60 poses are kept" in text
    assert "run the same command again" in text
    with pytest.raises(FileError, match="too little space on the disk: 40 poses need"):
        sample_poses(FillingRig, PLAN, path, processes=1, block=10)
    assert len(store.missing_blocks(path)) == 4
    (disk / "filler").unlink()
    sample_poses(FillingRig, PLAN, path, processes=1, block=10)
    assert contents(path) == contents(whole)


@pytest.mark.slow
def test_a_disk_that_is_full_when_a_fit_ends_keeps_the_training(disk, whole, tmp_path):
    options = {"epochs": "3", "hidden": "8", "bounded": "false"}
    plain = Fit.of("fdda", tmp_path / "plain.understudy", options)
    plain.write(plain.method.fit(store.open_poses(whole)))
    job = Fit.of("fdda", disk / "hero.understudy", options)
    poses = store.open_poses(whole)
    deformer = job.method.fit(poses)
    filler = fill(disk)
    with pytest.raises(FileError, match=r"hero\.understudy: cannot be written.*disk is full"):
        job.write(deformer)
    assert not job.out.exists()
    assert job.checkpoint.exists()
    filler.unlink()
    job.write(job.method.fit(poses))
    assert job.out.read_bytes() == plain.out.read_bytes()
    assert not job.checkpoint.exists()


def test_a_read_only_store_is_read_and_not_written(disk, whole):
    half = disk / "half.zarr"
    rig = BendingRig()
    store.create(half, SamplingJob.of(FillingRig, PLAN, None, 10).sample, block=10)
    store.write_block(half, 0, rig.evaluate(store.block_controls(half, 0)[1]))
    read_only(disk, True)
    try:
        with pytest.raises(FileError, match=r"half\.zarr: cannot be written there: Read-only file"):
            sample_poses(FillingRig, PLAN, half, processes=1, block=10)
        with pytest.raises(FileError, match="cannot be written: Read-only file system"):
            store.write_block(half, 1, rig.evaluate(store.block_controls(half, 1)[1]))
        with pytest.raises(FileError, match=r"hero\.understudy: cannot be written: Read-only"):
            Fit.of("lbs", disk / "hero.understudy")
    finally:
        read_only(disk, False)
    assert len(store.missing_blocks(half)) == 5
    sample_poses(FillingRig, PLAN, half, processes=1, block=10)
    assert contents(half) == contents(whole)
    read_only(disk, True)
    try:
        poses = store.open_poses(half)
        assert np.isfinite(poses.read_poses(0, poses.pose_count)).all()
        assert Fit.of("lbs", disk.parent / "out.understudy").method.fit(poses).skin is not None
    finally:
        read_only(disk, False)
