"""`understudy sample RIG --around FILE.understudy`."""

import numpy as np
import pytest
from command_line import run

from understudy import Deformer
from understudy.core.joined_samples import join_samples
from understudy.io import pose_store
from understudy.io.registry import read_poses
from understudy.io.store_header import marker_of_block
from understudy.methods.failure_sampling import vertex_errors
from understudy.rigs import load_rig
from understudy.rigs.sampling import SamplePlan


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A sample and a stand-in that fails."""
    folder = tmp_path_factory.mktemp("failures")
    tube = load_rig("tube")
    from understudy.methods import method_type

    kind = method_type("lbs")
    deformer = kind(kind.Config()).fit(tube.evaluate(SamplePlan(40).values(tube)))
    deformer.save(folder / "tube.understudy")
    return folder / "tube.understudy"


def test_half_random_half_around_failures(tmp_path, capsys, fitted):
    store = tmp_path / "more.zarr"
    command = ("sample", "tube", "-o", store, "--count", "120", "--around", fitted, "--seed", "3")
    code, out, err = run(capsys, *command)
    assert code == 0, err
    assert "60 random" in out
    poses, tube = read_poses(store), load_rig("tube")
    assert poses.pose_count == 120
    np.testing.assert_array_equal(poses.controls[:60], SamplePlan(60, 3).values(tube))
    # What the store holds is what the rig shows, copied or not.
    again = tube.evaluate(poses.controls)
    np.testing.assert_array_equal(poses.read_poses(0, 120), again.vertices)
    errors = vertex_errors(Deformer.load(fitted), poses).mean(axis=1)
    assert errors[60:].mean() > 1.1 * errors[:60].mean()
    plan = pose_store.provenance(store)["plan"]
    assert plan["kind"] == "around failures"
    assert plan["count"] == 120
    assert [path.name for path in tmp_path.iterdir()] == ["more.zarr"]  # nothing is left behind


def test_an_interrupted_run_goes_on_with_its_values(tmp_path, capsys, fitted):
    store = tmp_path / "more.zarr"
    command = ("sample", "tube", "-o", store, "--count", "300", "--around", fitted)
    assert run(capsys, *command)[0] == 0
    before = read_poses(store).read_poses(0, 300)
    last = pose_store.count_blocks(store) - 1
    marker_of_block(store, last).unlink()
    assert pose_store.missing_blocks(store) == [last]
    code, _, err = run(capsys, *command)
    assert code == 0, err
    np.testing.assert_array_equal(read_poses(store).read_poses(0, 300), before)
    code, _, err = run(capsys, *command, "--seed", "5")
    assert code == 2
    assert "plan" in err


def test_what_cannot_be_sampled(tmp_path, capsys, fitted):
    store = tmp_path / "more.zarr"
    base = ("sample", "tube", "-o", store, "--count", "20")
    for more, words in (
        (("--around", tmp_path / "no.understudy"), "no such file"),
        (("--around", fitted, "--around", "wave"), "one .understudy file"),
        (("--around", fitted, "--share", "1"), "between 0 and 1"),
        (("--around", fitted, "--chunk", "1/2"), "--chunk"),
    ):
        code, _, err = run(capsys, *base, *more)
        assert code == 2
        assert words in err
    code, _, err = run(capsys, "sample", "face", "-o", store, "--around", fitted, "--count", "9")
    assert code == 2
    assert "another rig" in err


def test_two_stores_are_one_sample(tmp_path, capsys, fitted):
    for seed in (0, 1):
        out = tmp_path / f"{seed}.zarr"
        run(capsys, "sample", "tube", "-o", out, "--count", "30", "--seed", seed)
    first, second = (read_poses(tmp_path / f"{seed}.zarr") for seed in (0, 1))
    both = join_samples([first, second])
    assert both.pose_count == 60
    assert both.spans == ()
    whole = np.concatenate([first.read_poses(0, 30), second.read_poses(0, 30)])
    some = np.array([5, 3, 70])
    np.testing.assert_array_equal(both.read_poses(20, 45), whole[20:45])
    np.testing.assert_array_equal(both.read_vertices(some), whole[:, some])
    np.testing.assert_array_equal(both.read(29, 31, some), whole[29:31][:, some])
    np.testing.assert_array_equal(both.take(np.array([0, 59])).vertices, whole[[0, 59]])
    np.testing.assert_array_equal(both.between(25, 40).read_poses(0, 99), whole[25:40])
    assert both.read_poses(60, 70).shape == (0, 104, 3)
    file = tmp_path / "both.understudy"
    sources = (tmp_path / "0.zarr", tmp_path / "1.zarr")
    code, _, err = run(capsys, "fit", "lbs", *sources, "-o", file)
    assert code == 0, err
    assert Deformer.load(file).provenance["sample"]["rig"] == "tube"
