"""Shared fixtures, and the one rule about real data: tests that need it skip with a reason where it is absent."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def data_folder() -> Path:
    """The folder of real sequences, bodies and mocap: UNDERSTUDY_DATA, else ../shared/data beside the checkout."""
    given = os.environ.get("UNDERSTUDY_DATA")
    return Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = data_folder()
    if not (folder / "MANIFEST.md").exists():
        pytest.skip("real data is not here; point UNDERSTUDY_DATA at it")
    return folder
