"""`bench auto`: ten budgets, each with its cost, the best cost, its share of time, and whether it
is kept."""

import pytest

from understudy import InputError
from understudy.benchmarks import Request, auto, run
from understudy.methods.auto.budget import Measured

pytest.importorskip("torch")


@pytest.mark.slow
def test_quick_rows_have_every_figure_and_keep_their_budgets(tmp_path, monkeypatch):
    monkeypatch.setitem(auto.SIZES, "quick", auto.Size(("tube",), 120, 2, 6))
    outcome = run("auto", Request("quick", out=tmp_path))
    assert len(outcome.results) == 10
    for row in outcome.results:
        assert row.case.startswith("tube/")
        assert {"cost", "best_cost", "time_share", "kept"} <= row.figures.keys()
        assert row.figures["cost"] >= 0.999 * row.figures["best_cost"] or not row.figures["kept"]
    assert sum(row.figures["kept"] for row in outcome.results) >= 7
    assert any("budgets kept" in note for note in outcome.notes)


def test_budgets_lie_within_what_a_sweep_reaches():
    swept = [Measured(f"level/{k}", 0.5**k, 100 * 2.0**k, 0.1 * 2**k) for k in range(6)]
    found = dict(auto.budgets(swept))
    assert len(found) == 10
    for budget in found.values():
        assert budget.max_error is None or 0.5**5 < budget.max_error < 1
        assert budget.max_bytes is None or 100 < budget.max_bytes < 3200
        assert budget.excess(budget.best(swept)) <= 1


def test_unknown_sources_are_refused(tmp_path):
    with pytest.raises(InputError, match="source of bench auto"):
        run("auto", Request("quick", cases=("humen",), out=tmp_path))
