"""Entry points: how other packages add methods, rigs, formats and commands without a change here.

A package declares them in its `pyproject.toml`, one table per group:

    [project.entry-points."understudy.formats"]
    alembic = "my_package.alembic:FORMAT"

Nothing is imported until a plug-in is used.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from understudy.system.errors import InputError


def plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of `group` by name, sorted; of a duplicate name, the first."""
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
        found.setdefault(entry.name, entry)
    return found


def load_plugin(entry: EntryPoint) -> Any:
    """Import and return what an entry point names; `InputError` says which package fails, and why.

    A plug-in is somebody else's code, so any exception it raises while it is imported is reported.
    """
    try:
        return entry.load()
    except Exception as problem:
        package = entry.dist.name if entry.dist is not None else "unknown package"
        raise InputError(
            f"the plug-in {entry.name!r} ({entry.value}, package {package}) cannot be loaded: "
            f"{type(problem).__name__}: {problem}; repair or uninstall that package"
        ) from problem
