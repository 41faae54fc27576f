"""`understudy compare SOURCE`: methods are fitted, measured on held-out poses, and timed."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import run

from understudy.evaluation.report.plots import frontier
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian


@pytest.mark.slow
def test_a_source_is_fitted_measured_and_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tube = load_rig("tube")
    poses = tube.evaluate(gaussian(tube.controls, 60, seed=0))
    np.savez(
        "poses.npz",
        vertices=poses.vertices,
        rest=tube.mesh.vertices,
        faces=tube.mesh.polygon_vertices.reshape(-1, 4),
        world_from_bone=poses.world_from_bone,
        rest_world_from_bone=tube.skeleton.world_from_bone,
        parents=tube.skeleton.parents,
        bone_names=np.array(tube.skeleton.names),
    )
    command = (
        "compare",
        "poses.npz",
        "-o",
        "out",
        "--methods",
        "lbs,pca_regression",
        "--unit",
        "cm",
    )
    code, _, err = run(capsys, *command)
    assert code == 0, err
    rows = {r["method"]: r for r in json.loads(Path("out/errors.json").read_text())["rows"]}
    assert list(rows) == ["lbs", "pca_regression"]
    for row in rows.values():
        assert {"mean", "p99", "max", "ee", "bytes", "ms_1", "ms_2", "fit_s"} <= row.keys()
    report = Path("out/report.html").read_text(encoding="utf-8")
    assert "Error and cost" in report
    assert report.count("Error against") == 2
    files = [Path(f"out/{name}.understudy") for name in rows]
    before = [file.stat().st_mtime_ns for file in files]
    assert run(capsys, *command)[0] == 0  # again: nothing is fitted
    assert [file.stat().st_mtime_ns for file in files] == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("tube",), "--out is missing"),
        (("tube", "a.understudy", "-o", "x"), "give .understudy files to compare, or a source"),
        (("a.understudy", "--methods", "lbs"), "--out and --methods"),
        (("tube", "-o", "x", "--rig", "tube"), "--rig and --poses"),
        (("tube", "-o", "x", "--count", "30", "--methods", "lsb"), "did you mean 'lbs'"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, capsys, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, "compare", *arguments)
    assert code == 2
    assert says in err


def test_the_frontier_has_no_method_that_another_beats():
    points = {"slow": (5.0, 1.0), "bad": (6.0, 2.0), "fast": (1.0, 3.0), "equal": (5.0, 1.0)}
    assert frontier(points) == ["fast", "slow"]
