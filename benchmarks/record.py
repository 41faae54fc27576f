"""Run a benchmark without the command line, on a machine that has little more than torch.

    PYTHONPATH=src:benchmarks/src python benchmarks/record.py face \\
        --methods differential-paper,local-paper --cases face/random --poses 9800 \\
        --seeds 3 --jobs 6 --json face-gpu.json

It needs torch, NumPy, SciPy and safetensors, neither typer nor zarr nor the compiled modules. Rows
of methods that the benchmarks add need them installed (`pip install --no-deps ./benchmarks`). The
options are those of `understudy bench`. The results of runs that need a GPU are kept in
`benchmarks/results/*-gpu.json`.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from understudy.system.progress import Progress, Task
from understudy_benchmarks import NAMES, Request, run

_EVERY_S = 15.0  # between lines of one task


class LogProgress(Progress):
    """Lines of text with the time and the thread, for several fits at a time and for log files."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @contextmanager
    def task(self, label: str, total: float) -> Iterator[Task]:
        """Print when the work starts and ends, and how far it is."""
        self.line(label)
        task = _LogTask(self, label, total)
        yield task
        self.line(f"{label}: done")

    def line(self, text: str) -> None:
        """Print one line."""
        passed = time.monotonic() - self._started
        print(f"{passed:6.0f} s {threading.current_thread().name}: {text}", flush=True)


class _LogTask(Task):
    def __init__(self, log: LogProgress, label: str, total: float):
        self._log, self._label, self._total = log, label, total
        self._done, self._note, self._printed = 0.0, "", time.monotonic()

    def advance(self, steps: float = 1) -> None:
        self._done += steps
        if time.monotonic() - self._printed > _EVERY_S:
            self._printed = time.monotonic()
            self._log.line(f"{self._label}: {self._done:.0f} / {self._total:.0f} {self._note}")

    def note(self, text: str) -> None:
        self._note = text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=NAMES)
    for option in ("methods", "cases"):
        parser.add_argument(f"--{option}", default="")
    parser.add_argument("--size", default="default")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    for option in ("seed", "seeds", "jobs", "poses"):
        parser.add_argument(f"--{option}", type=int)
    given = vars(parser.parse_args())
    names = {
        option: tuple(part for part in given[option].split(",") if part)
        for option in ("methods", "cases")
    }
    numbers = {
        option: given[option]
        for option in ("seed", "seeds", "jobs", "poses")
        if given[option] is not None
    }
    out = given["out"] or Path("out/bench") / given["name"]
    plain = {option: given[option] for option in ("data", "device", "ablations")}
    options = dict(text.split("=", 1) for text in given["set"])
    request = Request(given["size"], out=out, options=options, **plain, **names, **numbers)
    started = time.perf_counter()
    outcome = run(given["name"], request, LogProgress())
    content = outcome.as_json(given["name"])
    given["json"].write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for row in content["rows"]:
        figures = {name: round(row[name], 4) for name in ("mean", "max", "ee") if name in row}
        print(row["case"], row["method"], figures)
    print("\n".join(outcome.notes))
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
