import numpy as np
import pytest

from understudy import InputError
from understudy.system import checks


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: checks.array([[1, 2]], "points", (None, 3)),
            r"points: expected shape \(any, 3\), got \(1, 2\)",
        ),
        (
            lambda: checks.array(5.0, "points", (None,)),
            "points: expected shape .* got a single value 5.0",
        ),
        (
            lambda: checks.array(["a"], "points", (1,)),
            "points: cannot be read as an array of float32",
        ),
        (
            lambda: checks.array([[0, np.nan], [0, 0]], "points", (2, 2)),
            r"points: 1 of 4 numbers are NaN or infinite, the first at index \(0, 1\)",
        ),
        (lambda: checks.array([np.inf], "points", (1,)), "NaN or infinite"),
        (lambda: checks.index([0, 3], "bones", 3), r"bones: index 3 is outside 0\.\.2"),
        (lambda: checks.index([-1], "bones", 3), "index -1 is outside"),
        (lambda: checks.index([0.5], "bones", 3), "expected whole numbers, got float64"),
        (
            lambda: checks.one_of("fda", "method", ["fdda", "lbs"]),
            r"unknown method 'fda'; did you mean 'fdda'\? \(known: fdda, lbs\)",
        ),
        (lambda: checks.one_of("zzz", "method", ["fdda"]), r"unknown method 'zzz' \(known: fdda\)"),
        (
            lambda: checks.between(-1, "tau", 0, 2),
            "tau: expected a number at least 0 and at most 2, got -1",
        ),
        (lambda: checks.between(0, "rate", above=0), "rate: expected a number above 0, got 0"),
        (lambda: checks.between(float("nan"), "tau", 0), "tau: expected"),
        (lambda: checks.names(["a", "a"], "bones"), "duplicate name 'a'"),
        (lambda: checks.names(["a", ""], "bones"), "name number 1 is empty"),
        (lambda: checks.names(["a"], "bones", 2), "expected 2 names, got 1"),
        (
            lambda: checks.same_count(2, 3, "vertices", "the skin", "the mesh"),
            "the skin has 2 vertices, the mesh has 3",
        ),
    ],
)
def test_each_check_names_what_was_wrong(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_checks_return_what_they_checked():
    assert checks.array([[1, 2, 3]], "points", (None, 3)).dtype == np.float32
    assert checks.index(np.array([], np.int64), "none", 0).tolist() == []
    assert checks.index(np.array([2], np.uint8), "one", 3).dtype == np.int32
    assert checks.between(0.5, "share", 0, 1) == 0.5
