"""Methods by name. A method's name is its file, its registry key, its `--method` and its row in a report.

Nothing is imported until a method is asked for, so that listing them needs neither torch nor time.
"""

from __future__ import annotations

import importlib

from understudy import checks
from understudy.methods.base import Method

# name -> class in understudy.methods.<name>; the one line to add for a new method.
_METHODS = {
    "fdda": "Fdda",
    "differential": "Differential",
    "local": "Local",
    "pca_regression": "PcaRegression",
    "lbs": "Lbs",
    "geometry": "Geometry",
    "k_largest": "KLargest",
    "poisson": "Poisson",
    "smooth": "Smooth",
    "ssdr": "Ssdr",
    "temporal": "Temporal",
    "fesam": "Fesam",
    "two_layer": "TwoLayer",
}


def method_names() -> tuple[str, ...]:
    """Every registered method."""
    return tuple(_METHODS)


def method_type(name: str) -> type[Method]:
    """The method's class; an unknown name is an error that offers the nearest one."""
    checks.one_of(name, "method", _METHODS)
    return getattr(importlib.import_module(f"understudy.methods.{name}"), _METHODS[name])
