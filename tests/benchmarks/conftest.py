"""Fixtures of the tests of benchmarks on mesh sequences."""

import pytest

from understudy_benchmarks import sequence_cases


@pytest.fixture
def no_pages(monkeypatch):
    """The names of the reports, which are not drawn: that is slow and tested elsewhere."""
    written = []
    record = lambda path, data: written.append(path.name)
    monkeypatch.setattr(sequence_cases, "write_report", record)
    return written
