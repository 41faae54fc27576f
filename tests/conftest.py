"""Shared fixtures, and the one rule about real data: tests that need it skip with a reason where it
is absent.
"""

import signal
import sys
from pathlib import Path

import pytest

from understudy_benchmarks.real_data import data_folder

sys.path.insert(0, str(Path(__file__).parent))

# A test run in the background of a shell is started with Ctrl-C ignored, and every process it
# starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = data_folder()
    if not (folder / "MANIFEST.md").exists():
        pytest.skip("real data is not here; point UNDERSTUDY_DATA at it")
    return folder
