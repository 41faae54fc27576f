"""Rigged, animated characters to learn from: those of a data folder, and those our own code makes.

A character of a data folder is a .npz under `corpus/`, named `<kind>_<family>_<name>.npz` (kinds:
animal, human, robot), with `rest, faces, weight_index, weight_value, inverse_bind` and one
`anim_NN` (F,J,3,4) per animation, the joints' world transforms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.core import checks
from understudy.core.errors import FileError, InputError
from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skin import Skin
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import compose
from understudy.io.numbers import UNREADABLE

# Whole families that no shipped network has seen, so that `bench temporal` can say how well unseen
# ones fare; and those that may not be passed on (Khronos' are CC-BY, the others CC0).
HELD_OUT = ("qfarm", "qplat", "q_human", "qmech", "khr")
_NOTHING = 1e-3  # a weight below this moves nothing anyone sees
# of the character's root-sum-square motion: a bone that adds no more than this does what another
# does
_SAME = 3e-4


@dataclass(frozen=True, eq=False)
class Character:
    """One character in one of its animations.

    weights     (V,B) float32 of the bones that move vertices
    transforms  (F,B,3,4) world_from_rest of the same bones
    """

    name: str
    kind: str
    family: str
    mesh: Mesh
    weights: np.ndarray
    transforms: np.ndarray

    @property
    def bones(self) -> int:
        """How many bones move vertices: the number to find."""
        return self.weights.shape[1]

    def poses(self) -> Poses:
        rest = np.column_stack(
            [self.mesh.vertices.astype(np.float64), np.ones(self.mesh.vertex_count)]
        )
        design = np.einsum("vb,vj->vbj", self.weights, rest).reshape(len(rest), -1)
        columns = self.transforms.transpose(1, 3, 0, 2).reshape(design.shape[1], -1)
        vertices = (design @ columns).reshape(len(rest), -1, 3).transpose(1, 0, 2)
        return Poses(self.mesh, vertices.astype(np.float32), name=self.name)

    def apart(self) -> Character:
        """The same with one bone for all that move alike: no network could tell those apart."""
        weights, transforms = self.weights.astype(np.float64), self.transforms
        rest = np.column_stack(
            [self.mesh.vertices.astype(np.float64), np.ones(self.mesh.vertex_count)]
        )
        vertices = self.poses().vertices.astype(np.float64)
        enough = (_SAME**2) * float(((vertices - vertices.mean(axis=0)) ** 2).sum())
        while weights.shape[1] > 1:
            cost = _replacing(rest, weights, transforms)
            gone, instead = np.unravel_index(np.argmin(cost), cost.shape)
            if cost[gone, instead] > enough:
                break
            weights[:, instead] += weights[:, gone]
            weights, transforms = (
                np.delete(weights, gone, axis=1),
                np.delete(transforms, gone, axis=1),
            )
        return Character(
            self.name, self.kind, self.family, self.mesh, weights.astype(np.float32), transforms
        )


def _replacing(rest: np.ndarray, weights: np.ndarray, transforms: np.ndarray) -> np.ndarray:
    """(B,B): the squared error of putting the second bone in the first one's place, sum over i, f
    of w_ib^2 |(T_fb - T_fc) v~_i|^2.
    """
    moments = np.einsum("vb,vi,vj->bij", weights**2, rest, rest, optimize=True)
    flat = transforms.transpose(1, 3, 0, 2).reshape(transforms.shape[1], 4, -1)
    gram = np.einsum("bir,cjr->bcij", flat, flat, optimize=True)
    own = gram[np.arange(len(flat)), np.arange(len(flat))]
    between = own[:, None] - gram - gram.transpose(0, 1, 3, 2) + own[None, :]
    cost = np.einsum("bij,bcij->bc", moments, 0.5 * (between + between.transpose(0, 1, 3, 2)))
    np.fill_diagonal(cost, np.inf)
    return cost


def corpus_files(folder: Path) -> list[Path]:
    """The characters of a data folder."""
    files = sorted((folder / "corpus").glob("*.npz"))
    if not files:
        raise FileError(
            f"{folder / 'corpus'}: holds no characters (.npz); point --data or UNDERSTUDY_DATA at "
            f"the folder above corpus/"
        )
    return files


def family_of(file: Path) -> tuple[str, str]:
    """Kind and family by the file's name; humans and animals of the pack `q` are different
    families.

    >>> family_of(Path("human_qwoman_anim_Witch.npz")), family_of(Path("human_q_Knight.npz"))
    (('human', 'qwoman'), ('human', 'q_human'))
    """
    kind, _, rest = file.stem.partition("_")
    family = rest.partition("_")[0]
    checks.one_of(
        kind, f"kind of character in the name of {file.name}", ("animal", "human", "robot")
    )
    return kind, "q_human" if (kind, family) == ("human", "q") else family


def read_characters(file: Path, most: int | None = None) -> Iterator[Character]:
    """A character's animations, one after the other, at most so many."""
    kind, family = family_of(file)
    try:
        with np.load(file, allow_pickle=False) as data:
            rest, faces, index, value = (
                data[name] for name in ("rest", "faces", "weight_index", "weight_value")
            )
            bind = data["inverse_bind"].astype(np.float64)
            names = sorted(
                name for name in data.files if name.startswith("anim_") and name != "anim_names"
            )
            animations = {name: data[name].astype(np.float64) for name in names[:most]}
    except UNREADABLE as problem:
        raise FileError(f"{file}: not a rigged character ({problem})") from None
    if not names:
        raise InputError(f"{file}: has no animation")
    skin = Skin(index, value)
    weights = weight_matrix(skin.bone_index, skin.weight, len(bind)).toarray()
    weights[weights < _NOTHING] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    used = np.flatnonzero(weights.any(axis=0))
    mesh = Mesh.from_faces(rest, faces)
    for name, joints in animations.items():
        transforms = compose(joints[:, used], bind[used, :3])
        yield Character(
            f"{file.stem}/{int(name[5:])}",
            kind,
            family,
            mesh,
            np.ascontiguousarray(weights[:, used]),
            transforms,
        )
