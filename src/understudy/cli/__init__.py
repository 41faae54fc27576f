"""The command line: `main` runs it, or says what to install where its packages are missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_PACKAGES = ("typer", "rich", "scipy", "threadpoolctl")  # of the extra `cli`


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `understudy` with `arguments`; None: those of the process."""
    try:
        # Optional dependencies: the base install, which only plays files, has none of them.
        from understudy.cli import app
    except ImportError as problem:
        # Rooms that need SciPy say so themselves; the cause names the package.
        cause = problem.__cause__ if isinstance(problem.__cause__, ImportError) else problem
        missing = (cause.name or "").partition(".")[0]
        if missing not in _PACKAGES:
            raise
        print(
            f"understudy: the command line needs the package {missing}: "
            "pip install 'understudy[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    app.main(arguments)


__all__ = ["main"]
