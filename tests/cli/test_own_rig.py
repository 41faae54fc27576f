"""A rig in a user's own file, and recorded poses, through the command line alone."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import run

from understudy import Deformer
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian

EXAMPLE = Path(__file__).parents[2] / "examples" / "01_your_own_rig.py"
SMALL = ("--set", "epochs=30", "--set", "hidden=16,16")


@pytest.fixture
def lid(tmp_path, monkeypatch):
    """The example's rig as lid.py in an otherwise empty current folder."""
    (tmp_path / "lid.py").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # loading a file appends its folder
    return tmp_path


def succeed(capsys, *arguments):
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    return out


@pytest.mark.slow
def test_a_rig_in_a_file_goes_all_the_way(lid, capsys):
    # In a process of its own, so that worker processes start as they do for a user.
    command = [sys.executable, "-m", "understudy", "sample", "lid.py:Lid", "-o", "lid.zarr"]
    done = subprocess.run(
        [*command, "--count", "300", "--processes", "2"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "300 poses of lid.py:Lid" in done.stdout
    assert "understudy fit auto lid.zarr -o lid.understudy" in done.stdout
    said = succeed(capsys, "fit", "fdda", "lid.zarr", "-o", "lid.understudy", *SMALL)
    assert "understudy evaluate lid.understudy" in said
    assert Deformer.load("lid.understudy").provenance["sample"]["rig"] == "lid.py:Lid"
    said = succeed(
        capsys, "evaluate", "lid.understudy", "--report", "lid.html", "--json", "lid.json"
    )
    note = (
        "Lid has no animations: measured on 200 random poses of the training ranges that took no "
        "part in the fit (seed 1)."
    )
    assert note in said
    assert note in " ".join((lid / "lid.html").read_text(encoding="utf-8").split())
    figures = json.loads((lid / "lid.json").read_text())
    assert figures["notes"] == [note]
    assert [row["case"] for row in figures["rows"]] == ["Lid/random"]
    assert figures["rows"][0]["ee"] < 100
    succeed(capsys, "export", "lid.understudy", "lid.onnx")
    assert (lid / "lid.onnx").stat().st_size > 1000


def test_a_rig_that_moved_is_asked_for(lid, capsys):
    succeed(capsys, "sample", "lid.py:Lid", "-o", "lid.zarr", "--count", 40)
    (lid / "rigs").mkdir()
    (lid / "lid.py").rename(lid / "rigs" / "lid.py")
    code, _, err = run(capsys, "fit", "fdda", "lid.zarr", "-o", "lid.understudy", *SMALL)
    assert code == 0, err
    assert "loading the rig lid.py:Lid" in err
    assert "it is not here, so the poses alone are used; `understudy fit --rig` names it" in err
    code, _, err = run(capsys, "evaluate", "lid.understudy")
    assert code == 2
    assert "there is no file lid.py). Pass --rig with its path" in err
    succeed(capsys, "evaluate", "lid.understudy", "--rig", "rigs/lid.py:Lid")


def recorded(rig, count, seed, bones=True, controls=True):
    """The arrays of recorded poses, as the documented .npz holds them."""
    poses = rig.evaluate(gaussian(rig.controls, count, seed=seed))
    arrays = {
        "vertices": poses.vertices,
        "faces": rig.mesh.polygon_vertices.reshape(-1, 4),
        "rest": rig.mesh.vertices,
    }
    if bones:
        arrays |= {
            "world_from_bone": poses.world_from_bone,
            "rest_world_from_bone": rig.skeleton.world_from_bone,
            "parents": rig.skeleton.parents,
            "bone_names": np.array(rig.skeleton.names),
        }
    if controls:
        arrays |= {
            "controls": poses.controls,
            "control_names": np.array(rig.controls.names),
            "control_min": rig.controls.low,
            "control_max": rig.controls.high,
        }
    return arrays


def test_recorded_poses_go_all_the_way(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tube = load_rig("tube")
    np.savez("train.npz", **recorded(tube, 200, 0))
    np.savez("held_out.npz", **recorded(tube, 40, 1))
    np.savez("bare.npz", **recorded(tube, 40, 1, bones=False, controls=False))
    succeed(capsys, "fit", "fdda", "train.npz", "-o", "tube.understudy", *SMALL, "--unit", "cm")
    deformer = Deformer.load("tube.understudy")
    assert deformer.skeleton.names == tube.skeleton.names
    assert deformer.mesh.unit == "cm"
    assert deformer.provenance["sample"] == {"source": "train.npz"}
    ask = ("--poses", "held_out.npz", "--report", "a.html", "--json", "a.json")
    assert "held_out" in succeed(capsys, "evaluate", "tube.understudy", *ask)
    (row,) = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert row["ee"] < 100
    assert "<html" in (tmp_path / "a.html").read_text(encoding="utf-8")
    succeed(capsys, "export", "tube.understudy", "tube.onnx")
    for arguments, says in (
        (("evaluate", "tube.understudy"), "does not say which rig.*--rig RIG, or --poses"),
        (("evaluate", "tube.understudy", "--poses", "bare.npz"), "driven by bones, and bare.npz"),
        (("evaluate", "tube.understudy", "--poses", "a.npz", "--rig", "tube"), "give one of them"),
        (
            ("fit", "fdda", "bare.npz", "-o", "x.understudy"),
            "fdda needs bones, and 'bare' has vertices alone. Use a method that does not "
            r"\(auto, temporal, ssdr, two_layer\), or record the bones",
        ),
    ):
        code, _, err = run(capsys, *arguments)
        assert code == 2
        assert re.search(says, err), err


def test_poses_recorded_without_bones_are_fitted_by_their_controls(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tube = load_rig("tube")
    np.savez("train.npz", **recorded(tube, 100, 0, bones=False))
    code, _, err = run(capsys, "fit", "lbs", "train.npz", "-o", "x.understudy")
    assert code == 2
    assert "lbs needs bones, and 'train' has controls and no bones" in err
    assert "(auto, corrected_skin, differential, temporal, ssdr, two_layer)" in err
    succeed(capsys, "fit", "pca_regression", "train.npz", "-o", "x.understudy")
    np.savez("held_out.npz", **recorded(tube, 20, 1, bones=False))
    succeed(capsys, "evaluate", "x.understudy", "--poses", "held_out.npz")
    arrays = recorded(tube, 20, 1, bones=False)
    np.savez("other.npz", **arrays | {"control_names": arrays["control_names"][::-1]})
    code, _, err = run(capsys, "evaluate", "x.understudy", "--poses", "other.npz")
    assert code == 2
    assert "control 0 is 'bend_1' in x.understudy and 'flex' in other.npz" in err
