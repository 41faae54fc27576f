"""Files that an FBX file refers to: they are looked for beside it, and nowhere else."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path, PureWindowsPath


def find_beside(path: Path, suffixes: Collection[str], *names: str) -> Path | None:
    """Return the file that `path` refers to, in the folder of `path` or below it; None: missing.

    suffixes  that it may have
    names     as the file writes them, with slashes of any kind; absolute paths count by their name
    """
    folder = path.parent.resolve()
    tried: list[Path] = []
    for name in names:
        given = PureWindowsPath(name.replace("/", "\\"))
        if not given.name or given.suffix.lower() not in suffixes:
            continue
        if not given.drive and not given.root:
            tried.append(folder.joinpath(*given.parts))
        for sub in (f"{path.stem}_fpc", f"{path.stem}.fpc", f"{path.stem}.fbm", "textures", ""):
            tried.append(folder / sub / given.name)
    for candidate in tried:
        with suppress(OSError, ValueError):  # no file can have such a name
            inside = candidate.resolve()
            if inside.is_relative_to(folder) and inside.is_file():
                return inside
    return None
