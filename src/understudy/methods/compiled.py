"""The compiled parts of solvers, which an installation without a C++ compiler lacks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from understudy.system.errors import MissingDependencyError


def compiled_part(name: str) -> Any:
    """Return the compiled module of a method, by its name below `understudy.methods`."""
    try:
        return import_module(f"understudy.methods.{name}")
    except ImportError as problem:
        raise MissingDependencyError(
            "mesh sequences and two_layer need the compiled part of understudy, which this "
            "installation lacks; install understudy again where a C++ compiler is available"
        ) from problem
