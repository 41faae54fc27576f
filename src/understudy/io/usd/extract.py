"""Read one USD file and write its character as arrays: the program that `read_usd` runs.

It takes a request as JSON on its standard input. What is wrong with the file goes to a report.

A layer can refer to any file or address, and composing a stage opens them all. So each layer is
opened alone first; only files in the folder of the file or below may be named.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pxr import Sdf, Tf, Usd

from understudy.io.budget import Budget
from understudy.io.format import ReadOptions
from understudy.io.nouns import packed
from understudy.io.usd.reading import SUFFIXES, seconds_for
from understudy.io.usd.scene_clips import read_stage
from understudy.system.errors import FileError, UnderstudyError

_MOST_LAYERS = 2000
# Bytes of address space beside the budget: the 700 MB of USD itself, of which an eighth is memory,
# and room: with less, its library crashes where it would say what is wrong.
_LIBRARIES = 1050 << 20


def run(request: dict[str, Any]) -> int:
    """Read a file, write the result or a report; return the exit code.

    request  path of the file, names of clips and meshes, frame rate, paths of result and report
    """
    path = Path(request["path"])
    size = path.stat().st_size
    budget = Budget("", size)
    memory = budget.limit + _LIBRARIES
    _set_limits(memory, seconds_for(size))
    try:
        stage = Usd.Stage.Open(open_checked(path), Usd.Stage.LoadAll)
        wanted = ReadOptions(
            frame_rate=request["frame_rate"],
            clips=tuple(request["clips"]),
            meshes=tuple(request["meshes"]),
        )
        character = read_stage(stage, path.stem, wanted, budget)
        with open(request["result"], "wb") as file:
            np.savez(file, **packed(character))  # type: ignore[arg-type]
    except UnderstudyError as problem:
        return _report(request, str(problem))
    except Tf.ErrorException as problem:
        return _report(request, f"cannot be read as USD: {_first_error(problem, path)}"[:500])
    except UnicodeError:
        return _report(request, "cannot be read as USD: it has text that is not UTF-8")
    except (TypeError, IndexError) as problem:  # USD gives what a file says, whatever its schema
        said = f"cannot be read as USD: a value is not of the type of its name: {problem}"
        return _report(request, said[:500])
    except MemoryError:
        return _report(request, f"needs more than {memory >> 20:,} MB of memory to be read")
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


def _set_limits(memory: int, seconds: int) -> None:
    """Limit memory and processor time of this process, where the system can."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def open_checked(path: Path) -> Any:
    """Return the root layer of a file, after checking all layers that it would compose.

    path  absolute, without symbolic links

    `FileError` says which layer names a file that may not be opened, or that is missing.
    """
    root = Sdf.Layer.FindOrOpen(str(path))
    if root is None:
        raise FileError("not a USD file")
    folder = path.parent
    waiting = [root]
    seen = {root.identifier}
    while waiting:
        layer = waiting.pop()
        for asset in _named_layers(layer):
            identifier = _allowed(layer, asset, folder)
            if identifier is None or identifier in seen:
                continue
            seen.add(identifier)
            if len(seen) > _MOST_LAYERS:
                raise FileError(f"refers to more than {_MOST_LAYERS} layers")
            found = Sdf.Layer.FindOrOpen(identifier)
            if found is None:
                raise FileError(f"refers to {asset}, which cannot be read as USD")
            waiting.append(found)
    return root


def _allowed(layer: Any, asset: str, folder: Path) -> str | None:
    """Return the identifier of a layer that `layer` names by `asset`; None: it is not opened now.

    It must be a relative path that stays in `folder`, or in the package that `layer` is part of.
    """
    refused = FileError(
        f"refers to {asset[:200]!r}; only layers in its own folder are opened. Flatten it first "
        "(usdcat --flatten), or put that file beside it"
    )
    bare = asset.split(":SDF_FORMAT_ARGS:")[0]
    if not bare:
        return None
    outer = bare.split("[")[0]
    strange = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", outer) or "`" in outer or "\\" in outer
    if strange or os.path.isabs(outer) or Path(outer).suffix.lower() not in SUFFIXES:
        raise refused
    identifier = str(Sdf.ComputeAssetPathRelativeToLayer(layer, bare))
    if "[" in layer.identifier or layer.identifier.lower().endswith(".usdz"):
        # Inside a package: names are members of the archive, and none can be outside it.
        package = layer.identifier.split("[")[0]
        if ".." in Path(outer).parts or not identifier.startswith(package):
            raise refused
        return identifier
    real = Path(os.path.realpath(Path(layer.realPath).parent / outer))
    if not real.is_relative_to(folder):
        raise refused
    if "#" in outer:  # template of value clips, which are opened one by one
        return None
    if not real.is_file():
        raise FileError(f"refers to {asset[:200]!r}, which does not exist")
    return identifier


def _named_layers(layer: Any) -> Iterator[str]:
    """Give the asset paths that composing `layer` opens: sublayers, references, payloads, clips."""
    yield from layer.GetCompositionAssetDependencies()
    found: list[str] = []

    def visit(path: Any) -> None:
        spec = layer.GetPrimAtPath(path) if path.IsPrimPath() else None
        if spec is not None and spec.HasInfo("clips"):
            found.extend(_assets(dict(spec.GetInfo("clips"))))

    layer.Traverse(Sdf.Path.absoluteRootPath, visit)
    yield from found


def _assets(value: Any) -> Iterator[str]:
    """Give the file names in a dictionary of value clips."""
    if isinstance(value, dict):
        for key, entry in value.items():
            if key == "templateAssetPath" and isinstance(entry, str):
                yield entry
            else:
                yield from _assets(entry)
    elif isinstance(value, Sdf.AssetPath):
        yield value.path
    elif isinstance(value, Sdf.AssetPathArray):
        yield from (asset.path for asset in value)


if __name__ == "__main__":
    sys.exit(run(json.loads(sys.stdin.buffer.read())))
