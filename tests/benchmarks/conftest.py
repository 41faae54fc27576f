"""What the tests of benchmarks on mesh sequences share."""

import pytest

from understudy.benchmarks import decompose


@pytest.fixture
def no_pages(monkeypatch):
    """Reports are tested elsewhere, and drawing them takes longer than everything else here."""
    written = []
    monkeypatch.setattr(decompose, "write_report", lambda path, data: written.append(path.name))
    return written
