"""`understudy learning-curve`: fits to more and more poses, and what they say about more."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from PIL import Image

from understudy.core.poses import join_poses
from understudy.jobs.split import nested_subsets
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian


@pytest.fixture(scope="module")
def tube():
    return load_rig("tube")


def write(path, tube, count):
    poses = tube.evaluate(gaussian(tube.controls, count, seed=0))
    np.savez(
        path,
        vertices=poses.vertices,
        rest=tube.mesh.vertices,
        faces=tube.mesh.polygon_vertices.reshape(-1, 4),
        world_from_bone=poses.world_from_bone,
        rest_world_from_bone=tube.skeleton.world_from_bone,
        parents=tube.skeleton.parents,
        bone_names=np.array(tube.skeleton.names),
    )


@pytest.mark.slow
def test_figures_and_picture(tmp_path, capsys, monkeypatch, tube):
    monkeypatch.chdir(tmp_path)
    write("poses.npz", tube, 200)
    command = ("learning-curve", "pca_regression", "poses.npz", "-o", "curve", "--unit", "cm")
    code, out, err = run(capsys, *command, "--max-error", "0.01%")
    assert code == 0, err
    figures = json.loads(Path("curve/learning_curve.json").read_text())
    assert figures["poses"] == sorted(figures["poses"])
    assert len(figures["poses"]) == len(figures["mean"]) == 4
    assert figures["poses"][-1] == 170  # the other 30 are held out
    assert figures["mean"][-1] < figures["mean"][0]
    assert figures["max_error"] == pytest.approx(1e-4 * tube.mesh.height)
    assert "poses" in out.splitlines()[-2]
    picture = np.asarray(Image.open("curve/learning_curve.png").convert("RGB"))
    blue = (picture[..., 2].astype(int) - picture[..., 0] > 100).mean()
    assert blue > 0.001  # points and curve are there
    files = sorted(Path("curve").glob("*.understudy"))
    before = [file.stat().st_mtime_ns for file in files]
    code, out, err = run(capsys, *command)  # finished fits are not repeated
    assert code == 0, err
    assert "would have" in out
    assert [file.stat().st_mtime_ns for file in files] == before


def test_sources_that_have_no_curve(tmp_path, capsys, tube):
    out = tmp_path / "curve"
    few, sequence = tmp_path / "few.npz", tmp_path / "sequence.npz"
    write(few, tube, 18)
    code, _, err = run(capsys, "learning-curve", "lbs", few, "-o", out, "--fits", "9")
    assert code == 2
    assert "too few" in err
    moved = tube.evaluate(gaussian(tube.controls, 30, seed=0)).vertices
    np.savez(sequence, vertices=moved, faces=tube.mesh.polygon_vertices.reshape(-1, 4))
    code, _, err = run(capsys, "learning-curve", "lbs", sequence, "-o", out)
    assert code == 2
    assert "bones" in err


def test_subsets_of_clips_are_whole_clips(tube):
    parts = [tube.evaluate(gaussian(tube.controls, n, seed=n)) for n in (10, 20, 10, 40, 15, 25)]
    poses = join_poses(parts)
    ends = np.cumsum([10, 20, 10, 40, 15, 25]).tolist()
    sizes = [len(chosen) for chosen in nested_subsets(poses, 3, 40)]
    assert sizes == [30, 80, 120] or sizes == [30, 40, 120]
    assert set(sizes) <= set(ends)
    for chosen in nested_subsets(poses, 3, 40):
        assert (np.diff(chosen) == 1).all()
