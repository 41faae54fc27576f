"""The golden fits come out as recorded: equal bytes on the machine of the record, else close."""

import json

import pytest
from golden.cases import CASES, Sources
from golden.results import FILE, differences, machine, result

RECORD = json.loads(FILE.read_text(encoding="utf-8"))
HOW = "if that is meant, run `python -m golden.record` in tests/ and say so in the commit"


@pytest.fixture(scope="module")
def sources():
    return Sources()


@pytest.fixture(scope="module")
def hashes(request):
    """Whether this is the machine of the record."""
    here, recorded = machine(), RECORD["machine"]
    if here == recorded:
        return True
    other = ", ".join(f"{name} {recorded[name]}" for name in here if here[name] != recorded[name])
    request.config.get_terminal_writer().line(
        f"hashes of golden fits were not compared: they were recorded with {other}"
    )
    return False


def test_every_case_is_recorded():
    assert list(RECORD["cases"]) == list(CASES), "run `python -m golden.record` in tests/"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_result_is_as_recorded(name, sources, hashes):
    changed = differences(result(name, sources), RECORD["cases"][name], hashes)
    assert not changed, f"{changed}; {HOW}"
