"""The cases of `bench temporal`: sequences, decimated sequences and corpus characters.

horse_gallop                 a sequence of the data folder
horse_gallop:20              the same with 20 % of its vertices
corpus/animal_qfarm_Pig/2    animation 2 of a rigged character of the corpus
bodies/rig_mesh2motion_human/33
                             the same of the folder `bodies`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import dijkstra

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.geometry.adjacency import adjacency_matrix
from understudy.io.registry import read_sequence
from understudy.system import checks
from understudy.system.errors import FileError, InputError
from understudy_benchmarks import Request
from understudy_benchmarks.real_data import data_folder
from understudy_benchmarks.trajectory_training.corpus import (
    HELD_OUT,
    corpus_files,
    family_of,
    read_characters,
)

SEQUENCES = ("horse_gallop", "elephant_gallop", "samba")
_KINDS = {"horse_gallop": "animals", "elephant_gallop": "animals", "samba": "humans"}
SIZES = {
    "quick": ("horse_gallop:20",),
    "default": (*SEQUENCES, "horse_gallop:50", "horse_gallop:20", "corpus"),
    "full": (
        *SEQUENCES,
        *(f"{name}:{share}" for name in SEQUENCES for share in (50, 20)),
        "corpus-all",
    ),
}
# Folders of characters; kind and family, where the names of the files do not say them.
_CHARACTERS: dict[str, tuple[str, str] | None] = {"corpus": None, "bodies": ("human", "bodies")}
_PER_FAMILY = 2  # characters of a family in the default size


@dataclass(frozen=True, eq=False)
class Case:
    """Poses to fit.

    true_bones   number of bones that made them and move apart in them; None: unknown
    true_joints  (n,3) the joints of these bones at rest; None: unknown
    """

    name: str
    poses: Poses
    true_bones: int | None = None
    true_joints: np.ndarray | None = None

    @property
    def sequence(self) -> str:
        """The name without the share of vertices."""
        return self.name.partition(":")[0]

    @property
    def kind(self) -> str:
        """What it shows, which decides the network of the paper: animals, humans, or auto."""
        if self.name.startswith("corpus/"):
            kind = self.name.removeprefix("corpus/").partition("_")[0]
            return {"animal": "animals", "human": "humans"}.get(kind, "auto")
        return _KINDS.get(self.sequence, "auto")

    @property
    def is_decimated(self) -> bool:
        return ":" in self.name


def find_cases(request: Request) -> tuple[list[str], list[str]]:
    """Return the names of the cases for which there is data, and a note about missing ones."""
    folder = data_folder(request.data)
    if request.cases:
        return list(request.cases), []
    names, missing = [], []
    for name in SIZES[request.size]:
        if name.startswith("corpus"):
            try:
                names += list(_held_out(folder, None if name == "corpus-all" else _PER_FAMILY))
            except FileError:
                missing.append("corpus")
        elif (folder / "sequences" / f"{name.partition(':')[0]}.npz").is_file():
            names.append(name)
        else:
            missing.append(name)
    if not names:
        raise FileError(
            f"{folder}: holds none of the sequences of this benchmark; point --data or "
            f"UNDERSTUDY_DATA at the real data"
        )
    return names, [f"No data for {', '.join(missing)} in {folder}: left out."] if missing else []


def _held_out(folder: Path, per_family: int | None) -> Iterator[str]:
    """Yield the middle animation of characters that the networks were not trained on.

    per_family  largest number of characters of a family; None: all
    """
    count: dict[str, int] = {}
    for file in corpus_files(folder):
        family = family_of(file)[1]
        count[family] = count.get(family, 0) + 1
        if family in HELD_OUT and (per_family is None or count[family] <= per_family):
            animations = len(list(read_characters(file)))
            yield f"corpus/{file.stem}/{animations // 2}"


def read_case(name: str, folder: Path) -> Case:
    """Return a case by its name; `folder` is the data folder."""
    room, _, rest = name.partition("/")
    if room in _CHARACTERS:
        stem, _, number = rest.rpartition("/")
        file = folder / room / f"{stem}.npz"
        if not stem or not number.isdigit():
            raise InputError(
                f"case {name!r}: expected corpus/character/animation, for example "
                f"corpus/animal_qfarm_Pig/2"
            )
        if not file.is_file():
            raise FileError(
                f"{file}: no such file; the case {name!r} needs it. Point --data or "
                f"UNDERSTUDY_DATA at the folder above {room}/"
            )
        characters = list(read_characters(file, _CHARACTERS[room]))
        checks.between(int(number), f"animation of {stem}", 0, len(characters) - 1)
        character = characters[int(number)]
        merged = character.with_merged_bones()
        return Case(name, character.poses(), merged.bones, merged.joints)
    sequence, _, share = name.partition(":")
    file = folder / "sequences" / f"{sequence}.npz"
    if share and (not share.isdigit() or not 1 <= int(share) <= 100):
        raise InputError(
            f"case {name!r}: expected sequence:percent of its vertices, for example horse_gallop:20"
        )
    if not file.is_file():
        raise FileError(
            f"{file}: no such file; the case {name!r} needs it. Point --data or UNDERSTUDY_DATA at "
            f"the folder above sequences/"
        )
    poses = read_sequence(file)
    return Case(name, decimated(poses, int(share) / 100) if share else poses)


def decimated(poses: Poses, share: float, seed: int = 0) -> Poses:
    """Return the sequence with a random share of its vertices.

    Every other vertex is merged into the nearest remaining one along the edges.
    """
    mesh = poses.mesh
    kept = np.sort(
        np.random.default_rng(seed).permutation(mesh.vertex_count)[
            : max(1, round(share * mesh.vertex_count))
        ]
    )
    length = (
        np.linalg.norm(mesh.vertices[mesh.edges[:, 0]] - mesh.vertices[mesh.edges[:, 1]], axis=1)
        + 1e-12
    )
    graph = adjacency_matrix(mesh.edges, mesh.vertex_count, length)
    nearest = dijkstra(
        graph, directed=False, indices=kept, min_only=True, return_predecessors=True
    )[2]
    number = np.full(mesh.vertex_count, -1)
    number[kept] = np.arange(len(kept))
    corners = number[np.where(nearest < 0, kept[0], nearest)][mesh.triangles]
    whole = (
        (corners[:, 0] != corners[:, 1])
        & (corners[:, 1] != corners[:, 2])
        & (corners[:, 2] != corners[:, 0])
    )
    small = Mesh.from_faces(
        mesh.vertices[kept], np.unique(corners[whole], axis=0), unit=mesh.unit, up_axis=mesh.up_axis
    )
    return replace(poses, mesh=small, vertices=poses.read_vertices(kept))
