"""The plot that the report of a body has beside those of every report."""

import numpy as np

from understudy.evaluation.report import write_report
from understudy.evaluation.result import CaseResult, ReportData
from understudy.rigs import load_rig
from understudy_benchmarks.influence_plot import with_influences


def test_a_case_with_a_curve_has_one_more_plot(tmp_path):
    rows = [CaseResult(case, "fdda", {"mean": 0.1}) for case in ("walk", "kick")]
    data = ReportData("tube", load_rig("tube").mesh, rows)
    curve = np.array([1, 2, 4]), np.array([0.3, 0.1, 0.05])
    file = write_report(tmp_path / "r.html", with_influences(data, {"walk": curve}))
    assert file.read_text(encoding="utf-8").count("influences per vertex</text>") == 1
