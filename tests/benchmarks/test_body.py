"""`bench body` end to end on a sample too small to learn anything: the contract of its output, not
its figures.
"""

import json

import numpy as np
import pytest

from understudy import InputError
from understudy.cli import app as cli
from understudy.rigs.sampling import SamplePlan
from understudy_benchmarks import Request, body, run
from understudy_benchmarks.body_fits import SEEN_CLIPS, UNSEEN_CLIPS, SkeletonRig
from understudy_characters.human import HumanRig
from understudy_characters.human.retarget import clip_names

METHODS = (
    "fdda,fdda-noclamp,fdda-tight,fdda-paper-eq8,linear,lbs-4,lbs-all-ontest,"
    "rotational_regression-2-ontest,wpsd-10"
)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(
        body.SIZES, "quick", body.Size(40, {"epochs": "2", "hidden": "8,8"}, (), 40, True)
    )
    whole = HumanRig.animation

    def short(self, name):
        values, rate = whole(self, name)
        return values[::20], rate

    monkeypatch.setattr(HumanRig, "animation", short)


@pytest.mark.slow
def test_rows_files_and_json(tiny, tmp_path, capsys):
    cli.main(
        [
            "bench",
            "body",
            "--quick",
            "--methods",
            METHODS,
            "--cases",
            "human/kick",
            "--json",
            str(tmp_path / "a.json"),
            "-o",
            str(tmp_path / "out"),
        ]
    )
    content = json.loads((tmp_path / "a.json").read_text())
    assert content["benchmark"] == "body"
    assert content["machine"]["cores"] >= 1
    rows = {row["method"]: row for row in content["rows"]}
    assert set(rows) == set(METHODS.split(","))
    assert {row["case"] for row in rows.values()} == {"human/kick"}
    for row in rows.values():
        assert {"mean", "max", "p99", "seam", "mean_pct", "max_pct", "ee", "fit_s"} - set(row) <= (
            {"fit_s"} if row["method"] == "linear" else set()
        )
        assert all(
            np.isfinite(value) for key, value in row.items() if key not in ("case", "method")
        )
    assert rows["fdda"]["peak_mb"] > 50
    assert rows["lbs-4"]["influences"] <= 4
    assert (
        60 < rows["linear"]["ee"] < 140
    )  # the best single bone of the sample, measured against that of the animation
    assert {"poses.zarr", "fdda.understudy", "lbs-4.understudy", "report.html"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    assert "EE is" in capsys.readouterr().out


def test_unknown_methods_and_cases_offer_the_nearest(tmp_path):
    with pytest.raises(InputError, match="did you mean 'lbs-all'"):
        run("body", Request("quick", methods=("lbs-al",), out=tmp_path))
    with pytest.raises(InputError, match="did you mean 'human/walk'"):
        run("body", Request("quick", cases=("human/wlk",), out=tmp_path))


def test_the_skeleton_subject_moves_bones_alone():
    rig = SkeletonRig()
    values, _ = rig.animation("walk")
    rest = rig.controls.rest[rig.controls.numeric]
    np.testing.assert_array_equal(values[:, rig.controls.numeric] - rest, 0)
    drawn = SamplePlan(5).values(rig)
    np.testing.assert_array_equal(drawn[:, rig.controls.numeric] - rest, 0)
    assert np.ptp(drawn, axis=0).max() > 10


def test_clips_that_were_seen_and_unseen_ones_are_told_apart(real_data):
    known = clip_names(real_data / "bodies" / "mocap_cmu_selection.npz")
    left = [clip for clip in known if clip not in SEEN_CLIPS]
    assert tuple(left[10::15]) == UNSEEN_CLIPS


def test_no_row_interpolates_more_examples_than_the_animation_has(tiny, tmp_path):
    methods = ("wpsd-10-ontest", "wpsd-100-ontest")
    request = Request("quick", methods=methods, cases=("human/kick",), out=tmp_path)
    outcome = run("body", request)
    assert [r.method for r in outcome.results] == ["wpsd-10-ontest"]
    assert any("no row wpsd-100-ontest" in note for note in outcome.notes)
