"""`bench scale` against size: the rig, the commands it runs, and the slopes it reports."""

import json

import numpy as np
import pytest

from understudy.evaluation.result import CaseResult
from understudy.rigs.registry import checked_rig
from understudy.rigs.sampling import gaussian
from understudy.system.errors import UnderstudyError
from understudy.system.progress import SILENT
from understudy_benchmarks import Request, run, size_cases
from understudy_benchmarks.astrid_rig import Limbs10k, Limbs169k
from understudy_benchmarks.process_cost import run_command
from understudy_benchmarks.scale_plot import plot_sizes


def test_the_rig_has_the_size_of_astrid_and_rests_at_zero():
    rig = checked_rig(Limbs169k(), "limbs")
    assert (rig.mesh.vertex_count, rig.skeleton.bone_count) == (168_635, 45)
    poses = rig.evaluate(np.zeros((1, 90)))
    assert np.allclose(poses.world_from_bone[0], rig.skeleton.world_from_bone, atol=1e-12)
    moved = np.linalg.norm(poses.vertices[0] - rig.mesh.vertices, axis=1)
    assert moved.max() < 3  # cm: the bulges alone


def test_a_limb_moves_alone_and_bulges():
    rig = Limbs10k()
    values = np.zeros((2, 90))
    values[1, 2 * 12] = 25  # bone 3 of the second limb
    rest, bent = rig.evaluate(values).vertices
    moved = np.flatnonzero(np.abs(bent - rest).max(axis=1) > 1e-4) // (69 * 29)
    assert set(moved) == {1}
    linear = rig.evaluate(gaussian(rig.controls, 2, 0))
    again = Limbs10k().evaluate(gaussian(rig.controls, 2, 0))
    assert np.array_equal(linear.vertices, again.vertices)


@pytest.mark.slow
def test_a_row_has_time_memory_and_disk(tmp_path):
    outcome = run("scale", Request("quick", out=tmp_path, cases=("vertices/10005",)))
    (row,) = json.loads(json.dumps(outcome.as_json("scale")))["rows"]
    assert (row["poses"], row["vertices"]) == (16, 10_005)
    for step in size_cases.STEPS:
        assert row[f"{step}_s"] > 0
        assert row[f"{step}_cpu_s"] > 0
        assert 10 < row[f"{step}_peak_mb"] <= row["peak_mb"] < 4000
    raw = 16 * 10_005 * 12 / 1e6
    assert 0.5 * raw < row["disk_mb"] < 1.5 * raw
    assert not (tmp_path / "vertices/10005/poses.zarr").exists()
    assert (tmp_path / "vertices/10005/fdda.understudy").is_file()
    assert any("the shared disk is the first limit" in note for note in outcome.notes)


def row(poses: int, seconds: float) -> CaseResult:
    figures = {"poses": poses, "vertices": 168_635, "disk_mb": poses, "peak_mb": 2000}
    for step in size_cases.STEPS:
        figures |= {f"{step}_s": seconds, f"{step}_cpu_s": seconds, f"{step}_peak_mb": 2000}
    return CaseResult(f"astrid/{poses}", size_cases.METHOD, figures)


def test_findings_have_slopes_and_a_projection():
    rows = [row(1000, 40.0), row(500, 20.0), row(2000, 80.0)]
    slopes, projection = size_cases.findings(rows)
    assert "sample 1.00, fit 1.00, evaluate 1.00" in slopes
    assert "2.00 GB" in slopes
    assert "by the line through" in projection
    assert "together 40 min; 20 GB on disk" in projection  # 3 x 0.04 s x 20,000 poses
    measured = size_cases.findings([*rows, row(20_000, 900.0)])[1]
    assert measured.startswith("20000 poses: sample 15 min")
    assert "together 45 min" in measured
    assert size_cases.findings(rows[:1]) == []


def test_curves_are_drawn_where_there_are_several_sizes(tmp_path):
    assert plot_sizes([row(500, 20.0)], tmp_path) == []
    (file,) = plot_sizes([row(1000, 40.0), row(500, 20.0)], tmp_path)
    assert file.name == "scale_poses.png"
    assert file.stat().st_size > 10_000


def test_a_command_that_fails():
    with pytest.raises(UnderstudyError, match=r"missing\.understudy"):
        run_command(["info", "missing.understudy"])


def test_a_full_case_that_was_interrupted_keeps_the_steps_that_are_done(tmp_path, monkeypatch):
    case, ran = size_cases.SizeCase(16, 10_005), []

    def command(words):
        ran.append(words[0])
        if words[0] == "fit" and ran.count("fit") == 1:
            raise KeyboardInterrupt
        return size_cases.Cost(len(ran), 1.0, 5.0)

    monkeypatch.setattr(size_cases, "run_command", command)
    monkeypatch.setattr(size_cases, "bytes_on_disk", lambda path: 7e6)
    measure = lambda resume, seed=0: (
        size_cases.measure_size("astrid/16", case, tmp_path, seed, SILENT, resume).figures
    )
    with pytest.raises(KeyboardInterrupt):
        measure(True)
    figures = measure(True)
    assert ran == ["sample", "fit", "fit", "evaluate"]
    assert (figures["sample_s"], figures["fit_s"], figures["disk_mb"]) == (1, 3, 7)
    assert figures["interrupted"] == 1
    measure(True, seed=1)  # another case: nothing is kept
    assert ran[4:] == ["sample", "fit", "evaluate"]
    assert "interrupted" not in measure(False)
    assert ran[7:] == ["sample", "fit", "evaluate"]
