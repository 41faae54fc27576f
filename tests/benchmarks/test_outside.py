"""`bench outside`: poses that leave the training range, beside the skin alone."""

import numpy as np
import pytest

from understudy.rigs import load_rig
from understudy.system.errors import InputError
from understudy_benchmarks import Request, run
from understudy_benchmarks.outside import LIMIT
from understudy_benchmarks.outside_poses import KINDS, outside_values


@pytest.mark.parametrize("name", ["tube", "human", "face"])
def test_poses_leave_the_range_and_stay_within_the_limits(name):
    rig = load_rig(name)
    spec, found = rig.controls, outside_values(rig, 20)
    assert tuple(found) == KINDS
    for kind, values in found.items():
        assert (spec.check(values) == values).all()
        outside = ((values < spec.low) | (values > spec.high)).any(axis=1)
        assert not outside.any() if kind == "inside" else outside.mean() > 0.7
    turns = np.array([unit == "deg" for unit in spec.units])
    assert (found["rotations-alone"][:, ~turns] == spec.rest[~turns]).all()


@pytest.mark.slow
def test_rows(tmp_path):
    pytest.importorskip("torch")
    request = Request("quick", out=tmp_path, methods=("fdda", "corrected_skin"))
    outcome = run("outside", request)
    assert len(outcome.results) == 2 * len(KINDS)
    for row in outcome.results:
        figures = row.figures
        assert figures["skin_ratio"] == pytest.approx(figures["mean"] / figures["skin_mean"])
        assert figures["skin_ratio"] < LIMIT
    assert any("x its skin" in note for note in outcome.notes)


def test_wrong_names():
    with pytest.raises(InputError, match="method of bench outside"):
        run("outside", Request(methods=("lbs",)))
    with pytest.raises(InputError, match="case of bench outside"):
        run("outside", Request(cases=("tube/nowhere",)))
