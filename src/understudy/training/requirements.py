"""The optional dependency of the methods that train networks."""

from __future__ import annotations

from understudy.system.errors import MissingDependencyError


def need_torch(method: str) -> None:
    """Raise an error that says what to install if torch cannot be imported."""
    try:
        import torch  # noqa: F401 (optional dependency)
    except ImportError as problem:
        raise MissingDependencyError(
            f"{method} trains networks and needs torch: pip install 'understudy[fit]'"
        ) from problem
