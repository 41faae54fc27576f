"""What the readers through Blender share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.errors import (
    FileError,
    InputError,
    MissingDependencyError,
    UnderstudyError,
)
from understudy.core.progress import Progress
from understudy.io.blender.launch import Answer, run_script


def ask_about_file(
    path: Path, script: Path, request: dict[str, Any], seconds: float, progress: Progress
) -> Answer:
    """Return what Blender finds in a file; a Blender that crashes or hangs is a `FileError`.

    script   what runs in Blender
    request  for the script
    seconds  after which Blender is ended
    """
    try:
        return run_script(script, request, None, seconds, progress)
    except InputError as problem:  # the script's own words
        raise FileError(f"{path}: {problem}") from problem
    except MissingDependencyError:
        raise
    except UnderstudyError as problem:
        raise FileError(
            f"{path}: Blender, which reads this file in a process of its own, crashed or did not "
            f"end; the file is damaged. Export it again ({problem})"
        ) from problem


def parts_of(answer: Answer) -> dict[str, np.ndarray]:
    """Return the objects of an answer as parts: names and their vertices."""
    names = [name for name, _ in answer.values["objects"]]
    ends = np.cumsum([0, *(count for _, count in answer.values["objects"])])
    return {name: np.arange(a, b) for name, a, b in zip(names, ends, ends[1:])}
