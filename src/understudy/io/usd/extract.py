"""Read one USD file and write its character as arrays: the program that `read_usd` runs.

It takes a request as JSON on its standard input. What is wrong with the file goes to a report.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
from pxr import Tf, Usd

from understudy.core.errors import UnderstudyError
from understudy.io.usd.character_arrays import character_arrays
from understudy.io.usd.layers import open_checked
from understudy.io.usd.reading import Limits, limits_for
from understudy.io.usd.scene import Request
from understudy.io.usd.scene_clips import read_stage


def run(request: dict[str, Any]) -> int:
    """Read a file, write the result or a report; return the exit code.

    request  path of the file, names of clips and meshes, frame rate, paths of result and report
    """
    path = Path(request["path"])
    limits = limits_for(path.stat().st_size)
    _set_limits(limits)
    try:
        stage = Usd.Stage.Open(open_checked(path), Usd.Stage.LoadAll)
        wanted = Request(
            tuple(request["clips"]),
            tuple(request["meshes"]),
            request["frame_rate"],
            limits.array_bytes,
        )
        character = read_stage(stage, path.stem, wanted)
        with open(request["result"], "wb") as file:
            np.savez(file, **character_arrays(character))  # type: ignore[arg-type]
    except UnderstudyError as problem:
        return _report(request, str(problem))
    except Tf.ErrorException as problem:
        return _report(request, f"cannot be read as USD: {_first_error(problem, path)}"[:500])
    except UnicodeError:
        return _report(request, "cannot be read as USD: it has text that is not UTF-8")
    except MemoryError:
        return _report(
            request, f"needs more than {limits.memory_bytes >> 20:,} MB of memory to be read"
        )
    return 0


def _first_error(problem: Exception, path: Path) -> str:
    """Return what USD says is wrong."""
    try:
        text = str(problem)
    except UnicodeError:  # it quotes the file
        return "it is damaged"
    # "Error in 'function' at line N in file F : 'what is wrong'", once or several times
    found = re.search(r" : '(.+?)'?\s*$", text, re.MULTILINE)
    return found[1].replace(str(path), path.name) if found else "it is damaged"


def _report(request: dict[str, Any], text: str) -> int:
    """Write what is wrong with the file; return the exit code."""
    Path(request["report"]).write_text(json.dumps(text), encoding="utf-8")
    return 1


def _set_limits(limits: Limits) -> None:
    """Limit memory and processor time of this process, where the system can."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
        resource.setrlimit(resource.RLIMIT_CPU, (limits.seconds, limits.seconds + 1))


if __name__ == "__main__":
    sys.exit(run(json.loads(sys.stdin.buffer.read())))
