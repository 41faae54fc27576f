"""The folder of a `learn` job: its files, what the job is, and which steps are finished.

`job.json` holds the facts of the job (source, options) and one entry for each finished step, with
the size and hash of what it wrote. The same command continues; another job in the same folder is
refused, and a file that was cut or changed is made again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.core.noun import fingerprint
from understudy.io.files import file_hash, files_of, write_json
from understudy.system.errors import FileError, InputError

_STATE = "job.json"
CONTENT = "content"  # the fact that has hashes of the source
_SAMPLE = "sample"  # that of the poses of a rig


class JobFolder:
    """A folder whose steps run once.

    path       the folder
    name       of the character; its files are called after it
    facts      JSON values that define the job: two jobs with the same facts have the same results.
               `content` has hashes of the source, by what they are of
    overwrite  begin anew
    """

    def __init__(self, path: Path, name: str, facts: Mapping[str, Any], overwrite: bool = False):
        self.path, self.name, self.is_anew = Path(path), name, overwrite
        state = self.path / _STATE
        self._facts: dict[str, Any] = {}
        self._done: dict[str, Any] = {}
        if state.exists() and not overwrite:
            self._facts, self._done = self._read(state)
        make_folder(self.path)
        known = [key for key in self._facts if key != _SAMPLE]  # in order: the first one is named
        self._settle({**dict.fromkeys(known), **facts})

    def settle_sample(self, content: Mapping[str, str]) -> None:
        """Add hashes of the poses that a rig gave, or raise if they are not those of before."""
        self._settle({_SAMPLE: content})

    def _settle(self, facts: Mapping[str, Any]) -> None:
        before = dict(self._facts)
        for key, wanted in json.loads(json.dumps(facts)).items():
            was = before.get(key)
            if before and was != wanted and (key != _SAMPLE or key in before):
                raise InputError(
                    f"{self.path} holds another job: {_difference(key, was, wanted)}. Use another "
                    "folder, or --overwrite to start anew"
                )
            self._facts[key] = wanted
        self._save()

    def file(self, suffix: str) -> Path:
        """The character's file of some kind: `hero.glb`."""
        return self.path / f"{self.name}{suffix}"

    def inside(self, name: str) -> JobFolder:
        """A folder in this one, for a part of the job with steps of its own."""
        facts = {key: fact for key, fact in self._facts.items() if key != _SAMPLE}
        return JobFolder(self.path / name, self.name, facts, self.is_anew)

    def step(
        self, name: str, outputs: Sequence[Path], work: Callable[[], Mapping[str, Any] | None]
    ) -> Mapping[str, Any]:
        """Run `work` unless this step is finished and its outputs are whole; return its facts.

        `work` returns JSON values to keep, or None; the duration is added as `seconds`. Where it
        decides which files it writes, it returns their names as `files`, in place of `outputs`.
        """
        before = self._done.get(name)
        if before is not None and before.get("outputs") == self._state_of(before, outputs):
            return before
        started = time.perf_counter()
        facts = dict(work() or {})
        facts = {"seconds": round(time.perf_counter() - started, 3), **facts}
        self._done[name] = {**facts, "outputs": self._state_of(facts, outputs)}
        self._save()
        return self._done[name]

    def _state_of(self, facts: Mapping[str, Any], outputs: Sequence[Path]) -> dict[str, Any]:
        """Size and hash of what a step wrote, by name; a pose store checks its files itself."""
        named = facts.get("files")
        found: dict[str, Any] = {}
        for output in outputs if named is None else [self.path / file for file in named]:
            files = files_of(output)
            digest = fingerprint([output.is_dir() or file_hash(file) for file in files])
            found[output.name] = [sum(file.stat().st_size for file in files), digest]
        return found

    def _read(self, state: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        """The facts of the job in the folder, and its finished steps."""
        try:
            content = json.loads(state.read_text(encoding="utf-8"))
            before, done = content["job"], content["done"]
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise FileError(
                f"{state}: not the record of a learn job ({problem}); use another folder, or "
                "--overwrite"
            ) from problem
        if not done and [found.name for found in self.path.iterdir()] == [_STATE]:
            return {}, {}  # it ended before its first step, as with a wrong option
        return dict(before), dict(done)

    def _save(self) -> None:
        write_json(self.path / _STATE, {"job": self._facts, "done": self._done})


def _difference(key: str, was: Any, wanted: Any) -> str:
    """What differs between two values of a fact, in words."""
    if key in (CONTENT, _SAMPLE) and isinstance(was, dict) and isinstance(wanted, dict):
        what = "the source" if key == CONTENT else "what the rig does"
        names = [name for name in {**was, **wanted} if was.get(name) != wanted.get(name)]
        return f"{what} has changed since ({', '.join(names)})"
    return f"{key} was {was!r} and is now {wanted!r}"


def make_folder(folder: Path) -> None:
    """Make the folder of a job, or say why that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileError(f"{folder}: the folder cannot be made: {problem.strerror}") from problem
