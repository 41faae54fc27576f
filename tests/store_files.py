"""The bytes of a pose store, for tests that compare two."""

from pathlib import Path


def contents(path: Path) -> dict[str, bytes]:
    """File below `path` -> its bytes."""
    return {
        str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()
    }
