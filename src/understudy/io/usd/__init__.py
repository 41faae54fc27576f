"""USD: characters read from and written to .usd, .usda, .usdc and .usdz files."""

from pathlib import Path

from understudy.core.character import Character
from understudy.io.usd.reading import SUFFIXES, read_usd


def write_usd(character: Character, path: str | Path) -> None:
    """Write `character` to a `.usd`, `.usda`, `.usdc` or `.usdz` file, whole or not at all.

    Clips go to a second file, `NAME.anim.usdc`, unless the file is a `.usdz`.
    """
    from understudy.io.usd.writing import write  # needs usd-core

    write(character, Path(path))


__all__ = ["SUFFIXES", "read_usd", "write_usd"]
