"""`understudy farm-job`: a sampling job for a render farm, as an Open Job Description template.

The template has one task for each chunk and a step that checks the finished store. Options of
`sample` are passed on as they are, so they are declared there alone. Files that the options name
are copied into the folder of the job.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.memory import with_memory
from understudy.cli.options import RIG_HELP, Out
from understudy.cli.sample import STORE_SUFFIX, load_asked, sample
from understudy.cli.threads import with_threads
from understudy.core.errors import FileError, InputError
from understudy.core.terminal_progress import TerminalProgress
from understudy.io.atomic_write import atomic_write
from understudy.rigs.blender.options import BlenderOptions, is_blend
from understudy.rigs.chunk_sampling import need_blocks
from understudy.rigs.parallel_sampling import SamplingJob
from understudy.rigs.sampling import SamplePlan, read_modes

SPECIFICATION = "jobtemplate-2023-09"
TEMPLATE, VALUES = "template.json", "parameter_values.json"
MOST_CHUNKS = 40  # by default
_FILES = ("ranges", "modes")  # options of `sample` that name a file


def farm_job(
    context: typer.Context,
    rig: Annotated[str, typer.Argument(help=RIG_HELP)],
    out: Out,
    chunks: Annotated[
        int | None,
        typer.Option(min=1, help="Tasks of the job. Default: one per block, at most 40."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Pose store to fill. Default: in the folder of the job."),
    ] = None,
    command: Annotated[
        str, typer.Option(help="How the machines of the farm call understudy.")
    ] = "understudy",
) -> None:
    """Write a sampling job for a render farm: an Open Job Description template.

    All options of `sample` are taken too, such as --count, --seed, --ranges and --mesh.
    """
    store = out / f"{_stem(rig)}{STORE_SUFFIX}" if store is None else store
    given = _sample_options(rig, store, context.args)
    job = _job(rig, given)
    blocks = -(-len(job.values) // job.block)
    count = min(blocks, MOST_CHUNKS) if chunks is None else chunks
    need_blocks(job, count)
    _make_folder(out)
    written = FarmJob(rig, store, count, command, _words(context.args, given, out), _files(given))
    _write_json(out / TEMPLATE, written.template())
    _write_json(out / VALUES, {"parameterValues": written.values()})
    example = " ".join(["understudy", *written.sample_words(f"1/{count}", out.absolute())])
    print(
        f"{out / TEMPLATE}: {len(job.values)} poses of {rig} in {count} chunks of about "
        f"{-(-len(job.values) // count)} poses.\n"
        f"Deadline Cloud: deadline bundle submit {out}\n"
        f"Open Job Description on this machine: {written.openjd_command(out)}\n"
        f"OpenCue, Tractor, Flamenco and others call the chunk command, 1/{count} to "
        f"{count}/{count}; see docs/farm.md:\n  {example}"
    )


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
        files = [
            word for name, file in self.files.items() for word in (f"--{name}", str(folder / file))
        ]
        path = self.rig_file
        rig = self.rig if path is None else f"{path[0].absolute()}{path[1]}"
        words = ["sample", rig, "-o", str(self.store.absolute()), "--chunk", chunk]
        return [shlex.quote(word) for word in [*words, *files, *self.words]]

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
            "name": f"understudy sample {_stem(self.rig)}"[:128],
            "parameterDefinitions": self._parameters(),
            "steps": steps,
        }

    def _parameters(self) -> list[dict[str, Any]]:
        rig: dict[str, Any] = {"name": "Rig", "type": "STRING", "default": self.rig}
        if self.rig_file is not None:
            rig = {"name": "Rig", "type": "PATH", "objectType": "FILE", "dataFlow": "IN"}
        store = {
            "name": "Store",
            "type": "PATH",
            "objectType": "DIRECTORY",
            "dataFlow": "INOUT",
            "description": "Pose store, on a disk that all machines share.",
        }
        files = [
            {
                "name": name.capitalize(),
                "type": "PATH",
                "objectType": "FILE",
                "dataFlow": "IN",
                "default": file,
            }
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
        files = [
            word
            for name in self.files
            for word in (f"--{name}", f"{{{{Param.{name.capitalize()}}}}}")
        ]
        words = ["sample", f"{{{{Param.Rig}}}}{rest}", "-o", "{{Param.Store}}", *more, *files]
        return {
            "actions": {
                "onRun": {"command": "{{Param.Command}}", "args": [*words, *self.words]},
            }
        }


def _stem(rig: str) -> str:
    """What the job and its store are called.

    >>> _stem("rigs/hero.blend?mesh=Body"), _stem("lid.py:Lid"), _stem("human")
    ('hero', 'Lid', 'human')
    """
    if is_blend(rig):
        return Path(rig.partition("?")[0]).stem
    return rig.rpartition(":")[2]


def _sample_options(rig: str, store: Path, words: Sequence[str]) -> dict[str, Any]:
    """The options of `sample` in `words`, read and checked by its own parser."""
    app = typer.Typer()
    app.command(name="sample")(with_memory(with_threads(sample)))
    command = typer.main.get_command(app)
    context = command.make_context("understudy farm-job", [rig, "-o", str(store), *words])
    for name in ("chunk", "overwrite"):
        if context.params.get(name):
            raise InputError(f"--{name}: a farm job takes all options of `sample` but this one")
    return dict(context.params)


def _job(rig: str, given: Mapping[str, Any]) -> SamplingJob:
    """The job that the chunks will run; this reads the rig, so a wrong one is noticed here."""
    asked = BlenderOptions(
        tuple(given["meshes"]),
        tuple(given["patterns"]),
        given["trust_scripts"],
        given["ignore_drivers"],
        given["modifiers"],
    )
    loaded = load_asked(rig, asked, TerminalProgress())
    modes = {} if given["modes"] is None else read_modes(given["modes"], loaded.controls)
    plan = SamplePlan(given["count"], given["seed"], modes)
    return SamplingJob.of(lambda: loaded, plan, given["ranges"], given["block"])


def _files(given: Mapping[str, Any]) -> dict[str, str]:
    return {name: f"{name}.toml" for name in _FILES if given[name] is not None}


def _words(words: Sequence[str], given: Mapping[str, Any], out: Path) -> tuple[str, ...]:
    """The options without those that name a file; the files are copied to the folder `out`."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
            continue
        name = word.partition("=")[0].removeprefix("--")
        if word.startswith("--") and name in _FILES:
            skip = "=" not in word
            continue
        if "{{" in word:
            raise InputError(f"{word!r}: a farm job cannot pass on two braces; rename it")
        kept.append(word)
    for name, file in _files(given).items():
        _make_folder(out)
        try:
            shutil.copyfile(given[name], out / file)
        except OSError as problem:
            raise FileError(f"{given[name]}: cannot be copied to {out / file}: {problem}") from None
    return tuple(kept)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileError(f"{folder}: the folder cannot be made: {problem.strerror}") from problem


def _write_json(file: Path, content: Mapping[str, Any]) -> None:
    with atomic_write(file) as draft:
        draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
