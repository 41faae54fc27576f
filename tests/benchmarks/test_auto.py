"""`bench auto`: ten budgets, each with its cost, the best cost, its share of time, and whether it
is kept."""

from dataclasses import replace

import numpy as np
import pytest

from understudy import InputError, Poses
from understudy.methods.auto.budget import Measured
from understudy.rigs import load_rig
from understudy.rigs.sampling import gaussian
from understudy_benchmarks import Request, auto, run
from understudy_benchmarks.auto_sweep import sweep_of

pytest.importorskip("torch")


@pytest.mark.slow
def test_quick_rows_have_every_figure_and_keep_their_budgets(tmp_path, monkeypatch):
    monkeypatch.setitem(auto.SIZES, "quick", auto.Size(("tube",), 120, 2, 6))
    outcome = run("auto", Request("quick", out=tmp_path))
    assert len(outcome.results) == 10
    for row in outcome.results:
        assert row.case.startswith("tube/")
        assert {"cost", "best_cost", "time_share", "kept"} <= row.figures.keys()
        assert 0 < row.figures["time_share"] < 1
    assert sum(row.figures["kept"] for row in outcome.results) >= 7
    ratios = [row.figures["cost_ratio"] for row in outcome.results]
    assert np.median(ratios) <= 2  # two sizes, trained for six epochs
    assert np.mean([row.figures["time_share"] for row in outcome.results]) <= 0.5
    assert any("budgets kept" in note for note in outcome.notes)


def test_budgets_lie_within_what_a_sweep_reaches():
    swept = [Measured(f"level/{k}", 0.5**k, 100 * 2.0**k, 0.1 * 2**k) for k in range(6)]
    found = dict(auto.budgets(swept))
    assert len(found) == 10
    for budget in found.values():
        assert budget.max_error is None or 0.5**5 < budget.max_error < 1
        assert budget.max_bytes is None or 100 < budget.max_bytes < 3200
        assert budget.excess(budget.best(swept)) <= 1


def test_a_sweep_has_every_axis():
    rig = load_rig("tube")
    poses = rig.evaluate(gaussian(rig.controls, 50, seed=0))
    bare = Poses(poses.mesh, poses.vertices)
    driven = replace(poses, skeleton=None, world_from_bone=None)
    for source, methods in (
        (poses, {"lbs", "two_layer", "corrected_skin", "fdda", "differential"}),
        (driven, {"differential", "corrected_skin"}),
        (bare, {"ssdr", "two_layer"}),
    ):
        swept = sweep_of(source, 0, 5, None)
        assert len({one.name for one in swept}) == len(swept)
        assert {one.method for one in swept} == methods
        assert len(sweep_of(source, 0, 5, 2)) < len(swept)
    networks = [one.options for one in sweep_of(poses, 0, 5, None) if "networks" in one.options]
    for name in ("hidden", "basis_error"):
        assert len({options[name] for options in networks}) >= 4
    assert {"fitted", "blended"} <= {options.get("skin") for options in networks}
    bones = [one.options["bones"] for one in sweep_of(bare, 0, 5, None)]
    assert len(set(bones)) >= 7


def test_unknown_sources_are_refused(tmp_path):
    with pytest.raises(InputError, match="source of bench auto"):
        run("auto", Request("quick", cases=("humen",), out=tmp_path))
