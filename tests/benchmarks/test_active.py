"""`bench active`: poses around failures beside random ones."""

import pytest

from understudy.core.errors import InputError
from understudy_benchmarks import Request, run
from understudy_benchmarks.active import equal_count


def test_equal_counts():
    counts, errors = [100, 200, 400], [8.0, 4.0, 2.0]
    for count, error in zip(counts, errors):
        assert equal_count(counts, errors, error) == pytest.approx(count)
    assert equal_count(counts, errors, 1.0) == pytest.approx(800)
    assert equal_count(counts, errors, 16.0) == pytest.approx(50)


@pytest.mark.slow
def test_rows(tmp_path):
    pytest.importorskip("torch")
    outcome = run("active", Request("quick", out=tmp_path))
    methods = [row.method for row in outcome.results]
    assert methods[:4] == ["random-60", "random-120", "random-240", "active"]
    for row in outcome.results:
        assert row.figures["mean"] > 0
        if row.method == "active":
            assert row.figures["poses"] == 120
            assert 0 < row.figures["poses_ratio"] < 5


def test_wrong_names():
    with pytest.raises(InputError, match="method of bench active"):
        run("active", Request(methods=("lbs",)))
    with pytest.raises(InputError, match="case of bench active"):
        run("active", Request(cases=("nobody",)))
