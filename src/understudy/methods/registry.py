"""Methods by name. A method's name is its file, its registry key, its `--method` and its row in a
report.

Nothing is imported until a method is asked for, so that listing them needs neither torch nor time.
"""

from __future__ import annotations

import importlib

from understudy.core import checks
from understudy.methods.base import Method

# name -> module below understudy.methods, and its class; the one line to add for a new method.
_METHODS = {
    "fdda": "fdda:Fdda",
    "differential": "differential.differential:Differential",
    "local": "differential.local:Local",
    "pca_regression": "differential.pca_regression:PcaRegression",
    "lbs": "lbs:Lbs",
    "geometry": "sparse_skinning.geometry:Geometry",
    "k_largest": "sparse_skinning.k_largest:KLargest",
    "poisson": "sparse_skinning.poisson:Poisson",
    "smooth": "sparse_skinning.smooth:Smooth",
    "ssdr": "decomposition.ssdr:Ssdr",
    "temporal": "decomposition.temporal:Temporal",
    "fesam": "decomposition.fesam:Fesam",
    "two_layer": "sparse_skinning.two_layer:TwoLayer",
}


def method_names() -> tuple[str, ...]:
    """Every registered method."""
    return tuple(_METHODS)


def method_type(name: str) -> type[Method]:
    """The method's class; an unknown name is an error that offers the nearest one."""
    checks.one_of(name, "method", _METHODS)
    module, _, kind = _METHODS[name].partition(":")
    return getattr(importlib.import_module(f"understudy.methods.{module}"), kind)
