"""`bench face` end to end on samples too small to learn anything: the contract of its output, not
its figures.
"""

import json

import numpy as np
import pytest

from understudy import InputError
from understudy.cli import app as cli
from understudy.rigs import load_rig
from understudy_benchmarks import Request, face, face_ablations, run
from understudy_benchmarks.face_data import read_blenrig, split_rows
from understudy_characters.face import FaceRig

TINY = {"epochs": "1", "hidden": "8", "regions": "3", "input_poses": "1", "input_error": "0.05"}


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(
        face.SIZES,
        "quick",
        face._Size(
            60, 60, 0.05, TINY, {"anchor_epochs": "1", "anchor_hidden": "8", "anchors": "0.005"}
        ),
    )
    monkeypatch.setitem(face_ablations.POSES, "quick", 40)
    whole = FaceRig.animation

    def short(self, name):
        values, rate = whole(self, name)
        return values[::60], rate

    monkeypatch.setattr(FaceRig, "animation", short)


@pytest.mark.slow
def test_rows_files_and_json(tiny, tmp_path, capsys):
    cli.main(
        [
            "bench",
            "face",
            "--quick",
            "--cases",
            "face/speech",
            "--json",
            str(tmp_path / "a.json"),
            "-o",
            str(tmp_path / "out"),
        ]
    )
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["benchmark"] == "face"
    rows = {row["method"]: row for row in content["rows"]}
    assert set(rows) >= {"differential", "local", "pca_regression", "lbs-4", "kpsa"}
    assert {row["case"] for row in rows.values()} == {"face/speech"}
    for row in rows.values():
        assert {"mean", "max", "p99", "mean_pct", "max_pct", "fit_s"} <= set(row)
        assert all(
            np.isfinite(value) for key, value in row.items() if key not in ("case", "method")
        )
    assert {"bytes", "ms", "mse_differential", "mse_anchors"} <= set(rows["differential"])
    assert (tmp_path / "out" / "face_speech_differential_worst.png").stat().st_size > 10_000
    assert "differential / lbs-4" in capsys.readouterr().out


def test_real_faces_are_read_split_and_measured(tiny, real_data, tmp_path):
    outcome = run(
        "face",
        Request(
            "quick",
            cases=("blenrig", "facecap"),
            methods=("pca_regression", "lbs-4"),
            data=real_data,
            out=tmp_path,
        ),
    )
    rows = {(r.case, r.method): r.figures for r in outcome.results}
    assert set(rows) == {("facecap", "pca_regression"), ("blenrig", "pca_regression")}, "no bones"
    assert rows["facecap", "pca_regression"]["mean_pct"] < 0.5
    assert read_blenrig(real_data / "faces" / "rig_blenrig_face.npz").pose_count == 2500


def test_the_split_is_eighty_to_twenty_and_follows_the_seed():
    learn, test = split_rows(2500, 3)
    assert (len(learn), len(test)) == (2000, 500)
    assert not set(learn) & set(test)
    assert (split_rows(2500, 3)[0] == learn).all()
    assert (split_rows(2500, 4)[0] != learn).any()


@pytest.mark.slow
def test_several_seeds_are_averaged_and_each_is_written(tiny, tmp_path):
    request = Request(
        "quick", cases=("face/random",), methods=("local", "lbs-4"), out=tmp_path, seeds=2, jobs=2
    )
    rows = {r.method: r.figures for r in run("face", request).results}
    assert rows["local"]["seeds"] == 2
    assert "seeds" not in rows["lbs-4"]
    each = [
        json.loads((tmp_path / f"face-local-seed{seed}.json").read_text())[0] for seed in (0, 1)
    ]
    assert rows["local"]["mean"] == np.mean([row["mean"] for row in each])
    assert each[0]["mean"] != each[1]["mean"]


def test_missing_data_is_said(tiny, tmp_path):
    outcome = run("face", Request("quick", cases=("blenrig",), data=tmp_path, out=tmp_path))
    assert not outcome.results
    assert any("blenrig is left out" in note for note in outcome.notes)


def test_ablations_name_every_variant_and_their_anchors_lie_on_every_piece():
    mesh = load_rig("face").mesh
    subject = face.Subject("face", type("Sample", (), {"mesh": mesh})(), None, {})
    names = [name for name, _, _ in face_ablations._variants(subject)]
    assert {
        "layers-1",
        "layers-5",
        "anchors-5",
        "single",
        "scalp",
        "random",
        "hand",
        "data-25",
        "pcs-5",
        "alone-errors",
        "alone-random-3",
    } <= set(names)
    for anchors in (face_ablations.hand_made_anchors(mesh), face_ablations.scalp_anchors(mesh)):
        assert 70 < len(anchors) < 120
        assert all(np.isin(part, anchors).any() for part in mesh.parts.values())


@pytest.mark.slow
def test_ablations_run(tiny, monkeypatch, tmp_path):
    only = [("base", 1.0, {}), ("data-50", 0.5, {"anchor_nets": "single"})]
    monkeypatch.setattr(face_ablations, "_variants", lambda subject: only)
    request = Request(
        "quick", cases=("face/speech",), methods=("lbs-4",), out=tmp_path, ablations=True
    )
    rows = [r.method for r in run("face", request).results]
    assert rows == ["lbs-4", *["differential-base"] * 3, *["differential-data-50"] * 3]


def test_unknown_methods_and_cases_offer_the_nearest(tmp_path):
    with pytest.raises(InputError, match="did you mean 'pca_regression'"):
        run("face", Request("quick", methods=("pca_regresion",), out=tmp_path))
    with pytest.raises(InputError, match="did you mean 'face/speech'"):
        run("face", Request("quick", cases=("face/spech",), out=tmp_path))
