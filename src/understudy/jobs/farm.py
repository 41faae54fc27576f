"""A sampling job for a render farm, as an Open Job Description template.

The template has one task for each chunk and a step that checks the finished store.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.jobs.folder import make_folder
from understudy.rigs.blender.options import is_blend
from understudy.system.errors import FileError, InputError

SPECIFICATION = "jobtemplate-2023-09"
TEMPLATE, VALUES = "template.json", "parameter_values.json"
_FILES = ("ranges", "modes")  # options of `sample` that name a file


@dataclass(frozen=True)
class FarmJob:
    """A sampling job as a template.

    rig      as `sample` takes it
    store    the pose store
    chunks   number of tasks
    command  how a machine of the farm calls understudy
    words    options of `sample`, where those that name a file are left out
    files    name of an option of `sample` -> file in the folder of the job
    """

    rig: str
    store: Path
    chunks: int
    command: str
    words: tuple[str, ...]
    files: Mapping[str, str]

    @property
    def rig_file(self) -> tuple[Path, str] | None:
        """The rig's file, if it is one, and what follows it: options, or a class."""
        if is_blend(self.rig):
            path, mark, rest = self.rig.partition("?")
            return Path(path), mark + rest
        where, colon, name = self.rig.rpartition(":")
        return (Path(where), colon + name) if where.endswith(".py") else None

    def values(self) -> list[dict[str, str]]:
        """The parameters that only this job knows, as a job bundle of Deadline Cloud has them."""
        rig = self.rig if self.rig_file is None else str(self.rig_file[0].absolute())
        return [
            {"name": "Rig", "value": rig},
            {"name": "Store", "value": str(self.store.absolute())},
        ]

    def openjd_command(self, folder: Path) -> str:
        """The command that runs the whole job by the command line of Open Job Description."""
        values = [f"{value['name']}={value['value']}" for value in self.values()]
        words = ["openjd", "run", str(folder / TEMPLATE), "--step", "Check", "--run-dependencies"]
        return shlex.join([*words, *(word for value in values for word in ("-p", value))])

    def sample_words(self, chunk: str, folder: Path) -> list[str]:
        """The words of the chunk command, for schedulers that take a command line."""
        path = self.rig_file
        rig = self.rig if path is None else f"{path[0].absolute()}{path[1]}"
        files = {name: str(folder / file) for name, file in self.files.items()}
        words = self._words(rig, str(self.store.absolute()), files, "--chunk", chunk)
        return [shlex.quote(word) for word in words]

    def _words(self, rig: str, store: str, files: Mapping[str, str], *more: str) -> list[str]:
        """The words of a command that samples into `store`."""
        named = [word for name, file in files.items() for word in (f"--{name}", file)]
        return ["sample", rig, "-o", store, *more, *named, *self.words]

    def template(self) -> dict[str, Any]:
        """The job template; paths are parameters, so a farm can map them to its machines."""
        steps = [
            {
                "name": "Sample",
                "description": "One chunk of the poses; chunks may run in any order and again.",
                "parameterSpace": {
                    "taskParameterDefinitions": [
                        {"name": "Chunk", "type": "INT", "range": f"1-{self.chunks}"}
                    ]
                },
                "script": self._script("--chunk", f"{{{{Task.Param.Chunk}}}}/{self.chunks}"),
            },
            {
                "name": "Check",
                "description": "Checks that the store is complete.",
                "dependencies": [{"dependsOn": "Sample"}],
                "script": self._script(),
            },
        ]
        return {
            "specificationVersion": SPECIFICATION,
            "name": f"understudy sample {stem_of(self.rig)}"[:128],
            "parameterDefinitions": self._parameters(),
            "steps": steps,
        }

    def _parameters(self) -> list[dict[str, Any]]:
        rig: dict[str, Any] = {"name": "Rig", "type": "STRING", "default": self.rig}
        if self.rig_file is not None:
            rig = _path("Rig", "FILE", "IN")
        shared = "Pose store, on a disk that all machines share."
        store = _path("Store", "DIRECTORY", "INOUT", description=shared)
        files = [
            _path(name.capitalize(), "FILE", "IN", default=file)
            for name, file in self.files.items()
        ]
        command = {
            "name": "Command",
            "type": "STRING",
            "default": self.command,
            "description": "How a machine of the farm calls understudy.",
        }
        return [rig, store, *files, command]

    def _script(self, *more: str) -> dict[str, Any]:
        rest = "" if self.rig_file is None else self.rig_file[1]
        files = {name: f"{{{{Param.{name.capitalize()}}}}}" for name in self.files}
        words = self._words(f"{{{{Param.Rig}}}}{rest}", "{{Param.Store}}", files, *more)
        run = {"command": "{{Param.Command}}", "args": words}
        return {"actions": {"onRun": run}}


def _path(name: str, kind: str, flow: str, **more: str) -> dict[str, str]:
    """The definition of a parameter that is a path, which a farm may map."""
    return {"name": name, "type": "PATH", "objectType": kind, "dataFlow": flow, **more}


def stem_of(rig: str) -> str:
    """What the job and its store are called.

    >>> stem_of("rigs/hero.blend?mesh=Body"), stem_of("lid.py:Lid"), stem_of("human")
    ('hero', 'Lid', 'human')
    """
    if is_blend(rig):
        return Path(rig.partition("?")[0]).stem
    return rig.rpartition(":")[2]


def files_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Option of `sample` that names a file -> what the file is called in the folder of the job."""
    return {name: f"{name}.toml" for name in _FILES if given[name] is not None}


def words_for_farm(words: Sequence[str], given: Mapping[str, Any], out: Path) -> tuple[str, ...]:
    """The options without those that name a file; the files are copied to the folder `out`."""
    kept: list[str] = []
    left = iter(words)
    for word in left:
        name = word.partition("=")[0].removeprefix("--")
        if word.startswith("--") and name in _FILES:
            if "=" not in word:
                next(left, None)
            continue
        if "{{" in word:
            raise InputError(f"{word!r}: a farm job cannot pass on two braces; rename it")
        kept.append(word)
    for name, file in files_of(given).items():
        make_folder(out)
        try:
            shutil.copyfile(given[name], out / file)
        except OSError as problem:
            raise FileError(f"{given[name]}: cannot be copied to {out / file}: {problem}") from None
    return tuple(kept)
