"""The public mesh sequences of the benchmarks, from their original downloads (`understudy data`).

`SOURCES` says where each one is published, under which terms, and which files of the download are
its frames. `convert` writes `sequences/<name>.npz` of a data folder. Positions are rounded to a
grid, as those that the tables were measured on; the digest of the result says whether it is the
same. Archives are read member by member: nothing is unpacked outside a temporary folder.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from understudy.core.poses import Poses
from understudy.io.atomic_write import atomic_write
from understudy.io.registry import ReadOptions, read_sequence
from understudy.system import checks
from understudy.system.errors import FileError, InputError
from understudy.system.progress import SILENT, Progress

_SUFFIXES = (".obj", ".ply")
_MAX_FILES = 5000
_MAX_BYTES = 8 * 2**30  # of all frames of a download together
_UNREADABLE = (
    zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, NotImplementedError, zlib.error,
    lzma.LZMAError, RuntimeError,
)  # fmt: skip
_SUMNER = "https://people.csail.mit.edu/sumner/research/deftransfer/data.html"
_SUMNER_PAPER = "Sumner & Popović 2004, Deformation Transfer for Triangle Meshes"
_SUMNER_TERMS = "free for research; cite the paper"


@dataclass(frozen=True)
class Source:
    """A public mesh sequence.

    paper     who published it
    page      where to get it; "": ask the authors, there is no lasting address
    download  what to get there, in words
    frames    pattern of the frames' file names
    rest      pattern of the file of the rest shape; "": the first frame
    count     frames and vertices
    bits      positions are multiples of 2^-bits
    digest    SHA-256 of rest shape, frames and faces, see `digest_of`
    terms     what may be done with it
    """

    name: str
    paper: str
    page: str
    download: str
    frames: str
    rest: str
    count: tuple[int, int]
    bits: int
    digest: str
    terms: str


SOURCES = {
    source.name: source
    for source in (
        Source(
            "horse_gallop", _SUMNER_PAPER, _SUMNER, "horse gallop animation",
            r"horse-gallop-\d+\.obj", r"horse-gallop-reference\.obj", (48, 8431), 17,
            "6b0c911801d261fc8ec08453b084b30b1624f156eace9aeba98693bbbed6a5cf", _SUMNER_TERMS,
        ),
        Source(
            "elephant_gallop", _SUMNER_PAPER, _SUMNER, "elephant gallop animation",
            r"elephant-gallop-\d+\.obj", r"elephant-gallop-reference\.obj", (48, 42321), 17,
            "d10e8178a82a9d58b2c16f208e38115e4aa6205f2facefb6808a19a9245f131d", _SUMNER_TERMS,
        ),
        Source(
            "horse_collapse", _SUMNER_PAPER, _SUMNER, "horse collapse animation",
            r"horse-collap\w*-\d+\.obj", "", (53, 8431), 17,
            "1b8a264ac9885ae2bf810b84c0ac3431cfed4eb3ea01643418869e3eb86570ca", _SUMNER_TERMS,
        ),
        Source(
            "horse_poses", _SUMNER_PAPER, _SUMNER, "horse poses", r"horse-\d+\.obj",
            r"horse-reference\.obj", (10, 8431), 17,
            "59921b005681db9579f07a03676c109d22de4ea237b47ab0a13b3f8a3ab4a135", _SUMNER_TERMS,
        ),
        Source(
            "cat_poses", _SUMNER_PAPER, _SUMNER, "cat poses", r"cat-\d+\.obj",
            r"cat-reference\.obj", (9, 7207), 17,
            "4e0041dcede2f601e07d975a9a95b9927bce7bf89c04c31918d9c37f64c541c2", _SUMNER_TERMS,
        ),
        Source(
            "samba", "Vlasic et al. 2008, Articulated Mesh Animation from Multi-view Silhouettes",
            "https://people.csail.mit.edu/drdaniel/mesh_animation/", "meshes of samba",
            r"mesh_?\d+\.obj", "", (175, 9971), 18,
            "35abf55dadad7ffefb0a5ed4829a011e10205a53952aa8e5025960a894f3d440",
            "free for research; cite the paper",
        ),
        Source(
            "cow_elastic", "Briceño et al. 2003, Geometry Videos", "", "the cow", r".*\.(obj|ply)",
            "", (204, 2904), 17,
            "5798097df1ab65a58d4cb49ad6989547d4839513ac6c22ae16086f0992db6823", "cite the paper",
        ),
        Source(
            "chicken", "chickenCrossing, Microsoft", "", "the chicken, 400 frames",
            r".*\.(obj|ply)", "", (400, 3030), 17,
            "89d9d410e24093bbc08488568421c56d459fb970593d6b73680f337c40e3aee8",
            "solely for comparison of geometry compression techniques",
        ),
    )
}  # fmt: skip


def convert(source: Source, download: Path, folder: Path, progress: Progress = SILENT) -> list[str]:
    """Write `sequences/<name>.npz` of a data folder; return lines that say what was found.

    download  an archive (.zip, .tar, .tgz, .tar.gz), or a folder with the files in it
    """
    with _mesh_files(download) as files:
        frames = _chosen(files, source.frames, source.rest)
        rest = _chosen(files, source.rest, "") if source.rest else []
        if not frames or (source.rest and len(rest) != 1):
            raise FileError(
                f"{download}: expected the files of {source.download} ({source.frames}"
                + (f" and one {source.rest}" if source.rest else "")
                + f"), found {len(frames)} frames and {len(rest)} rest shapes among "
                f"{len(files)} mesh files"
            )
        poses = read_sequence(frames, ReadOptions(rest=rest[0] if rest else None), progress)
        poses = replace(poses, name=source.name)
        frame_count, vertex_count = source.count
        if (poses.pose_count, poses.vertex_count) != source.count:
            raise InputError(
                f"{download}: {source.name} has {frame_count} frames of {vertex_count} vertices, "
                f"but here are {poses.pose_count} of {poses.vertex_count}"
            )
        arrays = _rounded(poses, source.bits)
    found = digest_of(arrays)
    out = folder / "sequences" / f"{source.name}.npz"
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(out) as part, part.open("wb") as file:
        np.savez_compressed(
            file, vertices=arrays["vertices"], faces=arrays["faces"], rest=arrays["rest"]
        )
    lines = [f"{out}: {frame_count} frames of {vertex_count} vertices"]
    if found == source.digest:
        return [*lines, f"Digest {found}: the arrays that the tables were measured on"]
    return [
        *lines,
        f"Digest {found} differs from {source.digest}, that of the arrays which the tables were "
        f"measured on. The figures may differ in their last digits, or the download has changed",
    ]


def check(folder: Path) -> Iterator[str]:
    """Yield a line about each sequence in a data folder: same, different, or missing."""
    for source in SOURCES.values():
        file = folder / "sequences" / f"{source.name}.npz"
        if not file.is_file():
            yield f"{source.name}: missing"
            continue
        poses = read_sequence(file)
        arrays = _rounded(poses, source.bits)
        same = digest_of(arrays) == source.digest
        yield f"{source.name}: " + ("same digest" if same else "another digest")


def digest_of(arrays: dict[str, np.ndarray]) -> str:
    """Return the SHA-256 of `rest` and `vertices` (float32) and `faces` (int32).

    It does not depend on the order of the faces, nor on the corner that a face starts with.
    """
    faces = arrays["faces"].astype(np.int64)
    first = faces.argmin(axis=1)[:, None]
    faces = np.take_along_axis(faces, (first + np.arange(faces.shape[1])) % faces.shape[1], axis=1)
    faces = faces[np.lexsort(faces.T[::-1])]
    digest = hashlib.sha256()
    for array in (
        arrays["rest"].astype("<f4"), arrays["vertices"].astype("<f4"), faces.astype("<i4"),
    ):  # fmt: skip
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _rounded(poses: Poses, bits: int) -> dict[str, np.ndarray]:
    """Return rest, vertices and triangles of a sequence, positions in multiples of 2^-bits."""
    grid = 2.0**bits
    on_grid = lambda values: (np.round(values.astype(np.float64) * grid) / grid).astype(np.float32)
    return {
        "rest": on_grid(poses.mesh.vertices),
        "vertices": on_grid(poses.read_poses(0, poses.pose_count)),
        "faces": poses.mesh.triangles.astype(np.int32),
    }


def _chosen(files: list[Path], wanted: str, unwanted: str) -> list[Path]:
    """Return the files whose names match a pattern and not another one, in their order."""
    matches = lambda pattern, file: pattern and re.fullmatch(pattern, file.name, re.IGNORECASE)
    return [file for file in files if matches(wanted, file) and not matches(unwanted, file)]


@contextmanager
def _mesh_files(download: Path) -> Iterator[list[Path]]:
    """Yield the mesh files of a folder or an archive; those of an archive exist only meanwhile."""
    if download.is_dir():
        inside = (path for path in download.rglob("*") if path.is_file())
        yield sorted(path for path in inside if path.suffix.lower() in _SUFFIXES)
        return
    if not download.is_file():
        raise FileError(f"{download}: no such file or folder; expected an archive or a folder")
    with tempfile.TemporaryDirectory() as temporary:
        yield sorted(_unpacked(download, Path(temporary)))


def _unpacked(archive: Path, folder: Path) -> Iterator[Path]:
    """Copy the mesh files of an archive into a folder, whatever folders they were in."""
    seen: set[str] = set()
    total = 0
    try:
        for name, size, member in _members(archive):
            total += size
            base = PurePosixPath(name.replace("\\", "/")).name
            if len(seen) >= _MAX_FILES or total > _MAX_BYTES:
                raise FileError(
                    f"{archive}: more than {_MAX_FILES} mesh files or {_MAX_BYTES >> 30} GiB of "
                    f"them; unpack the sequence and give its folder"
                )
            if base in seen:
                raise FileError(
                    f"{archive}: {base} occurs twice; unpack one sequence and give its folder"
                )
            seen.add(base)
            with member as stream, (folder / base).open("wb") as out:
                shutil.copyfileobj(_Limited(stream, size), out)
            yield folder / base
    except _UNREADABLE as problem:
        raise FileError(f"{archive}: cannot be read as an archive ({problem})") from None


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Yield name, size and an open stream of every mesh file of an archive."""
    is_mesh = lambda name: PurePosixPath(name).suffix.lower() in _SUFFIXES
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir() and is_mesh(info.filename):
                    yield info.filename, info.file_size, packed.open(info)
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as packed:
            for member in packed:
                stream = packed.extractfile(member) if member.isfile() else None
                if stream is not None and is_mesh(member.name):
                    yield member.name, member.size, stream
    else:
        raise FileError(f"{archive}: expected a .zip, .tar, .tgz or .tar.gz file, or a folder")


class _Limited:
    """A stream that ends after the size that its archive states."""

    def __init__(self, stream: IO[bytes], size: int):
        self._stream, self._left = stream, size

    def read(self, count: int = -1) -> bytes:
        data = self._stream.read(self._left if count < 0 else min(count, self._left))
        self._left -= len(data)
        return data


def source_of(name: str) -> Source:
    """Return a source by its name."""
    return SOURCES[checks.one_of(name, "sequence", SOURCES)]
