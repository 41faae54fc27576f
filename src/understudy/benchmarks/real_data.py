"""Where real sequences, bodies and motion lie. They are never part of the package."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder(given: str | Path | None = None) -> Path:
    """The folder named by the caller, else by UNDERSTUDY_DATA, else ../shared/data; whether it is
    there is for the caller to ask.
    """
    chosen = given or os.environ.get("UNDERSTUDY_DATA")
    return Path(chosen) if chosen else Path("../shared/data")
