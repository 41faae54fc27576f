"""The folder of real sequences, bodies and motion. They are never part of the package."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder(given: str | Path | None = None) -> Path:
    """The folder of real data; it may not exist.

    given  named by the caller; None: the environment variable UNDERSTUDY_DATA, else ../shared/data
    """
    chosen = given or os.environ.get("UNDERSTUDY_DATA")
    return Path(chosen) if chosen else Path("../shared/data")
