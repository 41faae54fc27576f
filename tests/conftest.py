"""Shared fixtures, and the one rule about real data: tests that need it skip with a reason where it is absent."""

import sys
from pathlib import Path

import pytest

from understudy.real_data import data_folder

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = data_folder()
    if not (folder / "MANIFEST.md").exists():
        pytest.skip("real data is not here; point UNDERSTUDY_DATA at it")
    return folder
