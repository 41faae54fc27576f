"""Several seeds of one row, and samples without a pose store."""

import numpy as np

from understudy.evaluation.result import CaseResult
from understudy.rigs.sampling import SamplePlan, gaussian
from understudy.rigs.tube import TubeRig
from understudy.system.progress import SILENT
from understudy_benchmarks.samples import SIGMA_EQUATION_8, sampled_in_memory
from understudy_benchmarks.seeds import at_once, averaged


def test_the_row_of_several_seeds_is_their_average_with_its_spread():
    rows = [CaseResult("walk", "fdda", {"mean": m, "fit_s": 2 * m}) for m in (1.0, 2.0, 6.0)]
    row = averaged(rows)
    assert row.figures["mean"] == 3.0
    assert np.isclose(row.figures["mean_sd"], np.std([1, 2, 6], ddof=1))
    assert row.figures["seeds"] == 3
    assert "fit_s_sd" not in row.figures
    assert averaged(rows[:1]) is rows[0]


def test_work_done_at_once_comes_back_in_order():
    work = [lambda k=k: k * k for k in range(7)]
    assert at_once(work, 1) == at_once(work, 3) == [k * k for k in range(7)]


def test_a_sample_in_memory_is_the_plan_evaluated():
    plan = SamplePlan(300, seed=3, sigma=SIGMA_EQUATION_8)
    rig = TubeRig()
    poses = sampled_in_memory(TubeRig, plan, SILENT, processes=1)
    true = rig.evaluate(plan.values(rig))
    np.testing.assert_array_equal(poses.vertices, true.vertices)
    np.testing.assert_array_equal(poses.world_from_bone, true.world_from_bone)


def test_equation_8_is_nearly_uniform_and_the_text_is_not():
    spec = TubeRig().controls
    share = {}
    for sigma in (1 / 3, SIGMA_EQUATION_8):
        values = (gaussian(spec, 4000, 0, sigma) - spec.low) / (spec.high - spec.low)
        assert values.min() >= 0
        assert values.max() <= 1
        share[sigma] = np.mean(np.abs(values - 0.5) > 0.4)  # 0.2 of a uniform distribution
    assert share[1 / 3] < 0.13
    assert 0.18 < share[SIGMA_EQUATION_8] < 0.21
