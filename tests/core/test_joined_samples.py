"""Several stores of one rig as one sample."""

import numpy as np
from command_line import run

from understudy import Deformer
from understudy.core.joined_samples import join_samples
from understudy.io.registry import read_poses


def test_two_stores_are_one_sample(tmp_path, capsys):
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
