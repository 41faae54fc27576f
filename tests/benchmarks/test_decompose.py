"""`bench decompose` and `bench two-layer` on tiny sequences: every row, figure and file exists."""

import json
import math

import numpy as np
import pytest
from sequence_builders import bending_strip

from understudy import FileError, InputError
from understudy.cli import app as cli
from understudy.io.sequences import sequence_from_arrays
from understudy.system.progress import SILENT
from understudy_benchmarks import Request, decompose, two_layer


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data" / "sequences"
    folder.mkdir(parents=True)
    vertices, faces, rest = bending_strip(8)
    np.savez(folder / "strip.npz", vertices=vertices, faces=faces, rest=rest)
    np.savez(folder / "gt_lbs_strip.npz", vertices=vertices, faces=faces, rest=rest)
    return tmp_path / "data"


def test_decompose_writes_its_rows(data, no_pages, tmp_path, capsys):
    peer = decompose.importlib.util.find_spec("py_dem_bones") is not None
    where = ["--data", data, "--json", tmp_path / "a.json", "-o", tmp_path / "out"]
    cli.main([str(a) for a in ["bench", "decompose", "--quick", "--cases", "strip/2", *where]])
    shown = capsys.readouterr().out
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["benchmark"] == "decompose"
    assert "machine" in content
    rows = {(row["case"], row["method"]): row for row in content["rows"]}
    methods = decompose.METHODS if peer else decompose.METHODS[:-1]
    assert set(rows) == {("strip/2", method) for method in methods}
    for (_, method), row in rows.items():
        for name in ("e", "erms", "max_avg_dist", "crp", "bones", "influences", "fit_s", "peak_mb"):
            assert math.isfinite(row[name])
        assert row["bones"] <= 2
        assert ("time_ratio" in row) == ("error_ratio" in row) == (peer and method != "dem-bones")
    assert ("py-dem-bones is not installed" in shown) != peer
    assert (tmp_path / "out" / "decompose.png").stat().st_size > 0
    assert no_pages == ["strip.html"]


def test_exact_skinning_is_recovered(data, no_pages, tmp_path):
    request = Request(
        "quick", data, cases=("gt_lbs_strip/2",), methods=("ssdr-affine",), out=tmp_path / "out"
    )
    (row,) = decompose.run(request, SILENT).results
    assert row.figures["e"] < 0.1


def test_without_dem_bones_the_other_methods_run(data, no_pages, tmp_path, monkeypatch):
    monkeypatch.setattr(decompose.importlib.util, "find_spec", lambda name: None)
    request = Request(
        "quick", data, cases=("strip/2",), methods=("ssdr-rigid", "dem-bones"), out=tmp_path / "out"
    )
    outcome = decompose.run(request, SILENT)
    assert [r.method for r in outcome.results] == ["ssdr-rigid"]
    assert "pip install py-dem-bones" in outcome.notes[0]
    with pytest.raises(InputError, match="no method is left"):
        decompose.run(
            Request(
                "quick", data, cases=("strip/2",), methods=("dem-bones",), out=tmp_path / "out"
            ),
            SILENT,
        )


def test_dem_bones_fits_the_strip():
    pytest.importorskip("py_dem_bones")
    vertices, faces, rest = bending_strip(8)
    deformer, seconds = decompose.fit_dem_bones(
        sequence_from_arrays(vertices, faces, rest), 2, 2, {}
    )
    assert seconds > 0
    assert np.abs(deformer.deform_clip() - vertices).mean() < 0.05


@pytest.mark.parametrize("module", [decompose, two_layer])
def test_wrong_requests(data, tmp_path, module):
    request = lambda **what: Request("quick", what.pop("data", data), out=tmp_path / "out", **what)
    with pytest.raises(InputError, match="expected sequence/bones"):
        module.run(request(cases=("strip",)), SILENT)
    with pytest.raises(FileError, match=r"none\.npz: no such file"):
        module.run(request(cases=("none/3",)), SILENT)
    with pytest.raises(InputError, match="unknown method"):
        module.run(request(cases=("strip/2",), methods=("sdr",)), SILENT)
    with pytest.raises(FileError, match="none of the sequences"):
        module.run(request(data=tmp_path), SILENT)


def test_unknown_reductions_are_refused(data, tmp_path):
    with pytest.raises(InputError, match="unknown setting"):
        two_layer.run(Request("quick", data, cases=("strip/2:8-5",), out=tmp_path / "out"), SILENT)


def test_the_papers_tables_are_whole():
    assert len(two_layer.ROWS) == 8
    # Six reductions, the two of them that are also run as published, SD and its source twice.
    per_setting = {"dense-4": 11, "dense-8": 12, "8-4": 11}
    for row in two_layer.ROWS:
        for setting, count in per_setting.items():
            found = {m for r, s, m in two_layer.PUBLISHED if (r, s) == (row, setting)}
            assert len(found) == count
    assert two_layer.PUBLISHED["horse_gallop/30", "dense-4", "two_layer"] == {
        "paper_e": 3.4,
        "paper_delta_w": 2.4,
    }
    assert two_layer.PUBLISHED["samba/10", "8-4", "geometry"] == {"paper_e": 9.4}
    assert two_layer.PUBLISHED["horse_collapse/40", "dense-8", "dense"] == {"paper_e": 0.6}


def test_two_layer_writes_its_rows(data, no_pages, tmp_path):
    cases = ("strip/5", "strip/5:dense-8", "strip/5:8-4")
    outcome = two_layer.run(Request("quick", data, cases=cases, out=tmp_path / "out"), SILENT)
    rows = {(r.case, r.method): r.figures for r in outcome.results}
    for case, direct in zip(
        cases,
        (
            ("ssdr-4", "dense", "dense-paper"),
            ("ssdr-8", "dense", "dense-paper"),
            ("ssdr-4", "ssdr-8", "ssdr-8-paper"),
        ),
    ):
        assert {m for c, m in rows if c == case} == {*two_layer.REDUCTIONS, *direct}
    for (_, method), figures in rows.items():
        assert math.isfinite(figures["e"])
        assert figures["e_sphere"] >= figures["e"]
        assert math.isfinite(figures["norm_distort"])
        assert ("delta_w" in figures) == (method in two_layer.REDUCTIONS)
    assert "virtual_bones" in rows["strip/5", "two_layer"]
    assert no_pages == ["strip.html"]


@pytest.mark.slow
def test_two_layer_ablations(data, no_pages, tmp_path):
    names = two_layer.ablation_rows()[:8]
    request = Request("quick", data, cases=("strip/5:8-4",), methods=names, out=tmp_path / "out")
    outcome = two_layer.run(request, SILENT)
    assert [r.method for r in outcome.results] == list(names)
    grown = next(r for r in outcome.results if r.method == "two_layer-paper-m10")
    assert grown.figures["virtual_bones"] <= 10
    assert (tmp_path / "out" / "objective_and_error.png").stat().st_size > 1000


def test_a_cut_keeps_bones_and_weights():
    vertices, faces, rest = bending_strip(8)
    poses = sequence_from_arrays(vertices, faces, rest)
    deformer = decompose.Deformer(
        poses.mesh,
        decompose.Skeleton(("a",), [-1], np.eye(3, 4)[None]),
        skin=decompose.Skin.rigid(np.zeros(poses.vertex_count, int)),
        clips=(decompose.Clip("a", np.tile(np.eye(3, 4), (8, 1, 1, 1))),),
    )
    small, few = two_layer.cut(deformer, poses, 0.5)
    assert small.mesh.vertex_count == few.vertex_count == poses.vertex_count // 2
    assert 0 < len(small.mesh.triangles) < len(poses.mesh.triangles)
    np.testing.assert_allclose(small.deform_clip()[0], few.mesh.vertices, atol=1e-6)
