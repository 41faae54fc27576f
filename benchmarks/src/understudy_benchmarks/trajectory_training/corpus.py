"""Rigged, animated characters to train on, from a data folder.

A character is a file `corpus/<kind>_<family>_<name>.npz` of the data folder. The kind is animal,
human or robot. Its arrays are `rest`, `faces`, `weight_index`, `weight_value`, `inverse_bind` and,
per animation, `anim_NN` (F,J,3,4), the world transforms of the joints. `up` is y or z; without
it, y is up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from understudy.core.mesh import Mesh
from understudy.core.poses import Poses
from understudy.core.skin import Skin
from understudy.geometry.skinning import weight_matrix
from understudy.geometry.transforms import compose
from understudy.io.npz import UNREADABLE
from understudy.system import checks
from understudy.system.errors import FileError, InputError

# Families that no shipped network was trained on; `bench temporal` tests on them. `khr` is left out
# for its licence too (CC-BY; all others are CC0).
HELD_OUT = ("qfarm", "qplat", "q_human", "qmech", "khr")
_MIN_WEIGHT = 1e-3  # smaller weights move nothing visibly
# Bones whose merging changes the vertices by less than this share of the root-sum-square motion
# count as one.
_SAME_MOTION = 3e-4


@dataclass(frozen=True, eq=False)
class Character:
    """One character in one of its animations.

    weights     (V,B) float32 of the bones that move vertices
    transforms  (F,B,3,4) world_from_rest of these bones
    joints      (B,3) their joints at rest, or None: unknown
    depth       (B,) number of their ancestors, or None: unknown
    """

    name: str
    kind: str
    family: str
    mesh: Mesh
    weights: np.ndarray
    transforms: np.ndarray
    joints: np.ndarray | None = None
    depth: np.ndarray | None = None

    @property
    def bones(self) -> int:
        """The number of bones that move vertices."""
        return self.weights.shape[1]

    @property
    def homogeneous_rest(self) -> np.ndarray:
        """(V,4) float64 rest positions [v, 1]."""
        rest = self.mesh.vertices.astype(np.float64)
        return np.column_stack([rest, np.ones(self.mesh.vertex_count)])

    def vertices(self) -> np.ndarray:
        """Return the skinned vertices (F,V,3) float32."""
        rest = self.homogeneous_rest
        design = np.einsum("vb,vj->vbj", self.weights, rest).reshape(len(rest), -1)
        columns = self.transforms.transpose(1, 3, 0, 2).reshape(design.shape[1], -1)
        vertices = (design @ columns).reshape(len(rest), -1, 3).transpose(1, 0, 2)
        return vertices.astype(np.float32)

    def poses(self) -> Poses:
        """Return the animation as poses without bones."""
        return Poses(self.mesh, self.vertices(), name=self.name)

    def with_merged_bones(self) -> Character:
        """Return the character with bones that move alike merged.

        The joint of merged bones is that of the one nearest to the root.
        """
        weights, transforms = self.weights.astype(np.float64), self.transforms
        joints = np.zeros((self.bones, 3)) if self.joints is None else self.joints.copy()
        depth = np.zeros(self.bones) if self.depth is None else self.depth.copy()
        rest = self.homogeneous_rest
        vertices = self.vertices().astype(np.float64)
        limit = (_SAME_MOTION**2) * float(((vertices - vertices.mean(axis=0)) ** 2).sum())
        while weights.shape[1] > 1:
            cost = _merge_costs(rest, weights, transforms)
            merged, into = np.unravel_index(np.argmin(cost), cost.shape)
            if cost[merged, into] > limit:
                break
            weights[:, into] += weights[:, merged]
            if depth[merged] < depth[into]:
                joints[into], depth[into] = joints[merged], depth[merged]
            weights = np.delete(weights, merged, axis=1)
            transforms = np.delete(transforms, merged, axis=1)
            joints, depth = np.delete(joints, merged, axis=0), np.delete(depth, merged)
        return replace(
            self,
            weights=weights.astype(np.float32),
            transforms=transforms,
            joints=None if self.joints is None else joints,
            depth=None if self.depth is None else depth,
        )


def _merge_costs(rest: np.ndarray, weights: np.ndarray, transforms: np.ndarray) -> np.ndarray:
    """Return the squared error (B,B) of replacing bone b by bone c.

    It is the sum over i and f of w_ib^2 |(T_fb - T_fc) v~_i|^2.
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
    """Return the files of all characters in a data folder."""
    files = sorted((folder / "corpus").glob("*.npz"))
    if not files:
        raise FileError(
            f"{folder / 'corpus'}: holds no characters (.npz); point --data or UNDERSTUDY_DATA at "
            f"the folder above corpus/"
        )
    return files


def family_of(file: Path) -> tuple[str, str]:
    """Return the kind and family in the name of a character's file.

    Humans and animals of the pack `q` are different families.

    >>> family_of(Path("human_qwoman_anim_Witch.npz")), family_of(Path("human_q_Knight.npz"))
    (('human', 'qwoman'), ('human', 'q_human'))
    """
    kind, _, remaining = file.stem.partition("_")
    family = remaining.partition("_")[0]
    checks.one_of(
        kind, f"kind of character in the name of {file.name}", ("animal", "human", "robot")
    )
    return kind, "q_human" if (kind, family) == ("human", "q") else family


def read_characters(file: Path, family: tuple[str, str] | None = None) -> Iterator[Character]:
    """Yield a character in each of its animations.

    family  its kind and family; None: as the name of the file says
    """
    kind, family_name = family or family_of(file)
    try:
        with np.load(file, allow_pickle=False) as data:
            rest, faces, index, value = (
                data[name] for name in ("rest", "faces", "weight_index", "weight_value")
            )
            bind = data["inverse_bind"].astype(np.float64)
            up = str(data["up"]).upper() if "up" in data.files else "Y"
            parents = data["parents"] if "parents" in data.files else np.full(len(bind), -1)
            names = sorted(
                name for name in data.files if name.startswith("anim_") and name != "anim_names"
            )
            animations = {name: data[name].astype(np.float64) for name in names}
    except UNREADABLE as problem:
        raise FileError(f"{file}: not a rigged character ({problem})") from None
    if not animations:
        raise InputError(f"{file}: has no animation; expected arrays anim_00, anim_01, ...")
    skin = Skin(index, value)
    weights = weight_matrix(skin.bone_index, skin.weight, len(bind)).toarray()
    weights[weights < _MIN_WEIGHT] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    used = np.flatnonzero(weights.any(axis=0))
    mesh = Mesh.from_faces(rest, faces, up_axis=up)
    for name, joints in animations.items():
        yield Character(
            f"{file.stem}/{int(name[5:])}",
            kind,
            family_name,
            mesh,
            np.ascontiguousarray(weights[:, used]),
            compose(joints[:, used], bind[used, :3]),
            np.linalg.inv(bind[used])[:, :3, 3],
            _depths(parents)[used],
        )


def _depths(parents: np.ndarray) -> np.ndarray:
    """Return the number of ancestors (J,) of joints with parents (J,), -1 for a root."""
    depth, above = np.zeros(len(parents), np.int64), np.array(parents, np.int64)
    for _ in range(len(parents)):  # as many as the longest chain can have
        known = above >= 0
        if not known.any():
            break
        depth[known] += 1
        above[known] = parents[above[known]]
    return depth
