"""Pose stores in a bucket: a real S3 server, also one that is slow or answers with errors."""

import numpy as np
import pytest
from bending_rig import BendingRig
from bucket_server import BUCKET, Proxy, s3_server
from command_line import run
from store_files import contents

from understudy.io import pose_store as store
from understudy.jobs import Fit
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.sampling import SamplePlan
from understudy.system import bucket
from understudy.system.bucket import place
from understudy.system.errors import FileError, InputError

PLAN, BLOCK = SamplePlan(60, seed=2), 10


@pytest.fixture(scope="module")
def server():
    with s3_server() as port:
        yield port


@pytest.fixture
def proxy(server, monkeypatch):
    """A proxy before the server, which the environment names."""
    passing = Proxy(server)
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{passing.port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "UNDERSTUDY_BUCKET_TIMEOUT": "1",
        "UNDERSTUDY_BUCKET_PATIENCE": "1.5",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    bucket._client.cache_clear()
    yield passing
    passing.close()
    bucket._client.cache_clear()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "s.zarr"
    sample_poses(BendingRig, PLAN, path, processes=1, block=BLOCK)
    return path


def tiles(path) -> dict[str, int]:
    """The sizes of the tiles and other files of a store, without its markers."""
    found = place(path).sizes()
    return {name: size for name, size in found.items() if name != "zarr.json"}


@pytest.mark.slow
def test_a_store_in_a_bucket_holds_what_one_on_disk_holds(proxy, whole):
    path = f"s3://{BUCKET}/shows/a/s.zarr"
    assert not store.occupied(path)
    with pytest.raises(FileError, match=r"s3://films/shows/a/s\.zarr: no such pose store"):
        store.open_poses(path)
    poses = sample_poses(BendingRig, PLAN, path, processes=1, block=BLOCK)
    disk = store.open_poses(whole)
    everything = np.arange(poses.vertex_count)
    np.testing.assert_array_equal(poses.read_vertices(everything), disk.read_poses(0, 60))
    np.testing.assert_array_equal(poses.world_from_bone, disk.world_from_bone)
    assert poses.name == "s"
    local = {n: len(data) for n, data in contents(whole).items() if n != "zarr.json"}
    assert tiles(path) == local
    with pytest.raises(FileError, match="holds another sample"):
        sample_poses(BendingRig, SamplePlan(60, seed=3), path, processes=1, block=BLOCK)


@pytest.mark.slow
def test_commands_take_a_bucket(proxy, tmp_path, capsys):
    path = f"s3://{BUCKET}/cli/tube.zarr"
    code, told, _ = run(capsys, "sample", "tube", "-o", path, "--count", "40")
    assert code == 0
    assert path in told
    out = tmp_path / "tube.understudy"
    assert run(capsys, "fit", "lbs", path, "-o", str(out))[0] == 0
    assert out.exists()


@pytest.mark.slow
def test_a_bucket_that_answers_with_errors_while_sampling(proxy, whole):
    path = f"s3://{BUCKET}/errors/s.zarr"
    broken = lambda verb, key, number: 503 if verb == "PUT" and "/done/2.json" in key else None
    proxy.trouble = broken
    with pytest.raises(FileError) as told:
        sample_poses(BendingRig, PLAN, path, processes=1, block=BLOCK)
    text = str(told.value)
    assert f"{path}: the bucket does not answer" in text
    assert "503" in text
    assert "20 of 60 poses are kept" in text
    assert "\n" not in text
    proxy.trouble = lambda verb, key, number: None
    assert len(store.missing_blocks(path)) == 4
    with pytest.raises(FileError, match="sampling stopped at 20 of 60 poses"):
        store.open_poses(path)
    sample_poses(BendingRig, PLAN, path, processes=1, block=BLOCK)
    assert tiles(path).keys() == {n for n in contents(whole) if n != "zarr.json"}
    np.testing.assert_array_equal(
        store.open_poses(path).read_poses(0, 60), store.open_poses(whole).read_poses(0, 60)
    )


@pytest.mark.slow
def test_errors_that_pass_are_not_noticed(proxy, whole):
    path = f"s3://{BUCKET}/often/s.zarr"
    proxy.trouble = lambda verb, key, number: 503 if number % 7 == 1 else None
    poses = sample_poses(BendingRig, PLAN, path, processes=1, block=BLOCK)
    proxy.trouble = lambda verb, key, number: 0.2 if number % 5 == 1 else None
    np.testing.assert_array_equal(
        poses.read_poses(0, 60), store.open_poses(whole).read_poses(0, 60)
    )


@pytest.mark.slow
def test_a_bucket_that_stops_answering_while_fitting(proxy, tmp_path):
    path = f"s3://{BUCKET}/slow/s.zarr"
    poses = sample_poses(BendingRig, PLAN, path, processes=1, block=BLOCK)
    job = Fit.of("lbs", tmp_path / "hero.understudy")
    proxy.trouble = lambda verb, key, number: 30.0
    with pytest.raises(FileError, match="the bucket does not answer"):
        job.method.fit(poses)
    with pytest.raises(FileError, match="the bucket does not answer"):
        store.open_poses(path)
    with pytest.raises(FileError, match="the bucket does not answer"):
        store.occupied(path)
    proxy.trouble = lambda verb, key, number: None
    job.write(job.method.fit(poses))
    assert job.out.exists()


@pytest.mark.slow
def test_an_interrupted_creation_is_begun_again(proxy, whole):
    path = f"s3://{BUCKET}/begun/s.zarr"
    proxy.trouble = lambda verb, key, number: (
        503 if verb == "PUT" and "control_values" in key else None
    )
    with pytest.raises(FileError, match="the bucket does not answer"):
        sample_poses(BendingRig, PLAN, path, processes=1, block=BLOCK)
    assert not store.occupied(path)
    proxy.trouble = lambda verb, key, number: None
    sample_poses(BendingRig, PLAN, path, processes=1, block=BLOCK)
    assert store.open_poses(path).pose_count == 60


def test_a_place_needs_a_bucket_and_a_path():
    with pytest.raises(InputError, match="expected s3://BUCKET/PATH"):
        place("s3://films")
