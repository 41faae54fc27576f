"""The folder of a `learn` job: its files, what the job is, and which steps are finished.

`job.json` holds the facts of the job (source, options) and one entry for each finished step. The
same command continues; another job in the same folder is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.io.files import write_json
from understudy.system.errors import FileError, InputError

_STATE = "job.json"


class JobFolder:
    """A folder whose steps run once.

    path   the folder
    name   of the character; its files are called after it
    facts  JSON values that define the job: two jobs with the same facts have the same results
    """

    def __init__(self, path: Path, name: str, facts: Mapping[str, Any], overwrite: bool = False):
        self.path, self.name, self._overwrite = Path(path), name, overwrite
        self._facts = json.loads(json.dumps(facts))
        state = self.path / _STATE
        self._done: dict[str, Any] = {}
        if state.exists() and not overwrite:
            self._done = self._read(state)
        make_folder(self.path)
        self._save()

    def file(self, suffix: str) -> Path:
        """The character's file of some kind: `hero.glb`."""
        return self.path / f"{self.name}{suffix}"

    def inside(self, name: str) -> JobFolder:
        """A folder in this one, for a part of the job with steps of its own."""
        return JobFolder(self.path / name, self.name, self._facts, self._overwrite)

    def step(
        self, name: str, outputs: Sequence[Path], work: Callable[[], Mapping[str, Any] | None]
    ) -> Mapping[str, Any]:
        """Run `work` unless this step is finished and its outputs are there; return its facts.

        `work` returns JSON values to keep, or None; the duration is added as `seconds`. Where it
        decides which files it writes, it returns their names as `files`, in place of `outputs`.
        """
        if name in self._done:
            named = self._done[name].get("files")
            written = outputs if named is None else [self.path / file for file in named]
            if all(output.exists() for output in written):
                return self._done[name]
        started = time.perf_counter()
        facts = dict(work() or {})
        self._done[name] = {"seconds": round(time.perf_counter() - started, 3), **facts}
        self._save()
        return self._done[name]

    def _read(self, state: Path) -> dict[str, Any]:
        """The finished steps in the folder, if they belong to this job."""
        try:
            content = json.loads(state.read_text(encoding="utf-8"))
            before, done = content["job"], content["done"]
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise FileError(
                f"{state}: not the record of a learn job ({problem}); use another folder, or "
                "--overwrite"
            ) from problem
        if not done and [found.name for found in self.path.iterdir()] == [_STATE]:
            return {}  # a job that ended before its first step, such as one with a wrong option
        for key in dict.fromkeys([*before, *self._facts]):
            was, wanted = before.get(key), self._facts.get(key)
            if was != wanted:
                raise InputError(
                    f"{self.path} holds another job: {key} was {was!r} and is now {wanted!r}. Use "
                    "another folder, or --overwrite to start anew"
                )
        return dict(done)

    def _save(self) -> None:
        write_json(self.path / _STATE, {"job": self._facts, "done": self._done})


def make_folder(folder: Path) -> None:
    """Make the folder of a job, or say why that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileError(f"{folder}: the folder cannot be made: {problem.strerror}") from problem
