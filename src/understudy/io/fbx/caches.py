"""The point caches that an FBX file refers to, found beside it and nowhere else."""

from __future__ import annotations

from pathlib import Path, PureWindowsPath

from understudy.core.errors import FileError
from understudy.io.fbx.scene import FbxScene, Part
from understudy.io.vertex_cache import VertexCache
from understudy.io.vertex_caches import (
    CACHE_SUFFIXES,
    MAYA_SUFFIXES,
    read_maya_cache,
    read_vertex_cache,
)


def cached_parts(scene: FbxScene, parts: list[Part], path: Path) -> dict[int, VertexCache]:
    """Return the point cache of each part that has one, by the number of the part."""
    found: dict[int, VertexCache] = {}
    for entry in scene.header["caches"]:
        for number, part in enumerate(parts):
            if part.mesh != entry["mesh"] or number in found:
                continue
            file = find_beside(path, entry["relative"], entry["absolute"])
            if file.suffix.lower() in MAYA_SUFFIXES:
                found[number] = read_maya_cache(file, entry["channel"] or None)
            else:
                found[number] = read_vertex_cache(file)
    return found


def find_beside(path: Path, *names: str) -> Path:
    """Return the cache that `path` refers to, in the folder of `path` or a folder below it.

    names  as the file writes them, with slashes of any kind; absolute paths count by their name
    """
    folder = path.parent.resolve()
    tried: list[Path] = []
    for name in names:
        given = PureWindowsPath(name.replace("/", "\\"))
        if not given.name or given.suffix.lower() not in CACHE_SUFFIXES:
            continue
        if not given.drive and not given.root:
            tried.append(folder.joinpath(*given.parts))
        for sub in (f"{path.stem}_fpc", f"{path.stem}.fpc", ""):
            tried.append(folder / sub / given.name)
    for candidate in tried:
        inside = candidate.resolve()
        if inside.is_relative_to(folder) and inside.is_file():
            return inside
    raise FileError(
        f"{path}: its point cache {names[0]!r} is missing; put it beside the file, in the folder "
        f"{path.stem}_fpc, or leave that object out"
    )
