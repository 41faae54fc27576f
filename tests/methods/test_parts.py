"""Characters of several meshes: every method, parts left out, parts with their own error."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import run
from two_tubes import DressedTube

from understudy import Deformer, InputError
from understudy.core.parts import join_deformers, submesh, take_vertices, without_parts
from understudy.io.pose_store import open_poses
from understudy.jobs import Fit
from understudy.methods.registry import method_type, methods_by_name
from understudy.rigs.parallel_sampling import sample_poses
from understudy.rigs.part_rig import PartRig
from understudy.rigs.sampling import SamplePlan

RIG = DressedTube()
QUICK = ("--set", "epochs=10", "--set", "hidden=8")


@pytest.fixture(scope="module")
def poses():
    return RIG.evaluate(SamplePlan(60, seed=1).values(RIG))


@pytest.mark.parametrize("name", sorted(methods_by_name()[0]))
def test_every_method_fits_separate_shells(name, poses):
    kind = method_type(name)
    given = poses
    if kind.traits.takes_sequences and kind.traits.finds_bones:
        bare = {"skeleton": None, "world_from_bone": None, "control_spec": None, "controls": None}
        given = replace(poses, **bare)
    job = Fit.of(name, "x.understudy", {**kind.traits.quick, **_no_checkpoint(kind)})
    deformer = job.method.fit(given)
    assert list(deformer.mesh.parts) == ["body", "sleeve", "dust"]
    if given.skeleton is None:
        moved = deformer.deform_clip(0)
    else:
        moved = deformer.deform(poses.world_from_bone, poses.controls)
    still = np.linalg.norm(poses.vertices - poses.mesh.vertices, axis=2).mean()
    assert np.linalg.norm(moved - poses.vertices, axis=2).mean() < 0.5 * still


def _no_checkpoint(kind):
    return {"checkpoint": "none"} if "checkpoint" in kind.Config.__dataclass_fields__ else {}


def test_a_submesh_keeps_corners_materials_and_parts(poses):
    mesh = submesh(RIG.mesh, RIG.mesh.parts["sleeve"])
    assert list(mesh.parts) == ["sleeve"]
    assert set(mesh.polygon_material) == {1}
    np.testing.assert_array_equal(mesh.polygon_vertices, RIG._tube.mesh.polygon_vertices)
    np.testing.assert_array_equal(mesh.corner_uvs, RIG._tube.mesh.corner_uvs)


def test_vertices_of_a_store_are_cut_without_reading_them_all(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[1])])
    sample_poses("two_tubes:DressedTube", SamplePlan(40), tmp_path / "s.zarr", processes=1)
    whole = open_poses(tmp_path / "s.zarr")
    kept = np.array([5, 120, 210])
    cut = take_vertices(whole, kept)
    assert cut.vertices.shape == (40, 3, 3)
    everything = whole.read_poses(0, 40)
    np.testing.assert_array_equal(cut.read_poses(3, 9), everything[3:9, kept])
    np.testing.assert_array_equal(cut.read_vertices(np.array([2])), everything[:, [210]])
    np.testing.assert_array_equal(cut.read(1, 4, np.array([0, 2])), everything[1:4][:, [5, 210]])


@pytest.mark.parametrize("method", ["fdda", "differential"])
def test_parts_fitted_apart_are_one_deformer(method, poses, tmp_path):
    # With the same options a part's own fit gives the same result alone and joined.
    kind = method_type(method)
    options = {**kind.traits.quick, "checkpoint": "none"}
    job = Fit.of(method, tmp_path / "x.understudy", options)
    joined = job.fit_parts(poses, {"sleeve": 0.01}, RIG)
    vertices = RIG.mesh.parts["sleeve"]
    alone = Fit.of(method, tmp_path / "x.understudy", {**options, "basis_error": "0.01"})
    part = alone.method.fit(take_vertices(poses, vertices), rig=PartRig(RIG, vertices))
    whole = joined.deform(poses.world_from_bone, poses.controls)
    expected = part.deform(poses.world_from_bone, poses.controls)
    np.testing.assert_allclose(whole[:, vertices], expected, atol=1e-4)
    joined.save(tmp_path / "x.understudy")
    again = Deformer.load(tmp_path / "x.understudy").deform(poses.world_from_bone, poses.controls)
    np.testing.assert_allclose(again, whole, atol=1e-5)


def test_a_smaller_error_is_reached_on_its_part(poses):
    kind = method_type("pca_regression")
    job = Fit.of("pca_regression", "x.understudy", {**kind.traits.quick})
    assert "basis_error" in kind.Config.__dataclass_fields__
    error = lambda d: np.linalg.norm(
        d.deform(poses.world_from_bone, poses.controls) - poses.vertices, axis=2
    )[:, RIG.mesh.parts["sleeve"]].mean()
    coarse = replace(job, method=type(job.method)(replace(job.method.config, basis_error=0.2)))
    whole = coarse.method.fit(poses)
    assert error(coarse.fit_parts(poses, {"sleeve": 0.001})) < 0.5 * error(whole)


def test_parts_that_overlap_or_miss_vertices_are_refused(poses):
    job = Fit.of("lbs", "x.understudy")
    part = np.arange(10)
    fitted = {"a": (part, job.method.fit(take_vertices(poses, part)))}
    with pytest.raises(InputError, match="exactly one part"):
        join_deformers(RIG.mesh, fitted)


def test_unknown_parts_and_nothing_left_are_named(poses):
    with pytest.raises(InputError, match="sleeve"):
        without_parts(poses, ["slevee"])
    with pytest.raises(InputError, match="no vertex is left"):
        without_parts(poses, ["body", "sleeve", "dust"])


@pytest.mark.slow
def test_parts_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[1])])
    sample_poses("two_tubes:DressedTube", SamplePlan(80), "s.zarr", processes=1)
    command = ("fit", "fdda", "s.zarr", "-o", "x.understudy", *QUICK)
    code, _, err = run(capsys, *command, "--without", "dust", "--part-error", "sleeve=0.005")
    assert code == 0, err
    assert list(Deformer.load("x.understudy").mesh.parts) == ["body", "sleeve"]
    code, _, err = run(capsys, "evaluate", "x.understudy", "--report", "x.html")
    assert code == 0, err
    page = Path("x.html").read_text(encoding="utf-8")
    assert "<h2>Parts</h2>" in page
    assert "sleeve" in page
    for wrong, said in (
        (("--part-error", "sleeve"), "expected part=length"),
        (("--part-error", "sleve=1"), "did you mean 'sleeve'"),
        (("--without", "hat"), "hat"),
    ):
        code, _, err = run(capsys, *command, *wrong)
        assert code != 0
        assert said in err
