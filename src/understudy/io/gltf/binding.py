"""Bones of a glTF file: which nodes move vertices, and where vertices are at rest.

glTF places a skinned vertex v by `global(joint) @ inverse_bind @ v`. Its own space, in which v is
stored, is free: it may be in centimetres or lie on its back. A `Character` has its rest shape in
the space of the world, so each skin gets a matrix A (`placement`) with

    rest vertex     = A @ v
    rest of a joint = A @ inverse(inverse_bind)

so that `world_from_bone @ inverse(rest) @ (A @ v)` is the same as above. A mesh without a skin
follows its node, or the nearest node above it that moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.poses import unique
from understudy.geometry.normals import unit
from understudy.geometry.transforms import apply, compose, inverse
from understudy.io.gltf.accessors import Accessors
from understudy.io.gltf.document import Entry
from understudy.io.gltf.scene import Scene
from understudy.system.errors import FileError

IDENTITY = np.eye(3, 4)
_JOINT = 8000  # bytes
_MOST_ALIKE = 16  # bones of one node that are compared with a new one


@dataclass(frozen=True)
class Bone:
    """One bone: a node, seen from one frame.

    node   index
    rest   (3,4) world_from_bone in the bind pose
    frame  (3,4) world_from_bone = global(node) @ frame
    """

    node: int
    rest: np.ndarray
    frame: np.ndarray


class Bones:
    """The bones found so far.

    moving  the nodes that an animation moves
    """

    def __init__(self, scene: Scene, moving: set[int]):
        self.scene = scene
        self.moving = moving
        self.bones: list[Bone] = []
        self._of_node: dict[int, list[int]] = {}
        self._carriers: dict[int, tuple[int, np.ndarray]] | None = None

    def add_skin(
        self, skin: Entry, accessors: Accessors, placement: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the bone of each joint of a skin, (J,), and the matrix A.

        placement  the matrix A, where the file says it; None: it is chosen
        """
        count = len(self.scene.entries)
        joints = skin.integers("joints", below=count)
        accessors.budget.take(len(joints) * _JOINT, "joints")
        if not joints:
            raise FileError(f"{skin.where}: has no joints")
        if len(set(joints)) != len(joints):
            raise FileError(f"{skin.where}.joints: a joint is listed twice")
        binds = np.tile(IDENTITY, (len(joints), 1, 1))
        if skin.has("inverseBindMatrices"):
            matrices = accessors.floats(skin, "inverseBindMatrices", "MAT4")
            if len(matrices) < len(joints):
                raise FileError(
                    f"{skin.where}: {len(joints)} joints, but {len(matrices)} inverseBindMatrices"
                )
            binds = matrices[: len(joints)].reshape(-1, 4, 4).transpose(0, 2, 1)[:, :3]
        if np.abs(binds).max() > 1e30:
            raise FileError(f"{skin.where}: inverseBindMatrices have numbers beyond 1e30")
        if placement is None:
            placement = self._placement(joints, binds)
        return self._joints(joints, binds, placement), placement

    def add_node(self, node: int) -> tuple[int, np.ndarray]:
        """Return the bone that a mesh without skin follows, and its placement (3,4).

        All skins must have been added before.
        """
        if self._carriers is None:
            self._carriers = self._find_carriers()
        carrier, relative = self._carriers.get(node, (node, IDENTITY))
        bone = self._rigid(carrier)
        found = self.bones[bone]
        return bone, compose(compose(found.rest, inverse(found.frame)), relative)

    def parents(self) -> np.ndarray:
        """Return the parent of each bone, (B,): the bone of the nearest node above; -1: none."""
        nearest = [-1] * len(self.scene.entries)
        for node in self.scene.order:
            above = self.scene.parents[node]
            if above >= 0:
                nearest[node] = (
                    self._of_node[above][0] if above in self._of_node else nearest[above]
                )
        return np.array([nearest[bone.node] for bone in self.bones], np.int64)

    def order(self) -> list[int]:
        """Return the bones with parents first, otherwise in the order in which they were found."""
        parents = self.parents()
        result: list[int] = []
        done: set[int] = set()
        for bone in range(len(self.bones)):
            chain = []
            while bone >= 0 and bone not in done:
                chain.append(bone)
                done.add(bone)
                bone = int(parents[bone])
            result.extend(reversed(chain))
        return result

    def names(self) -> list[str]:
        """Return a name for each bone: that of its node, made distinct."""
        taken: dict[str, int] = {}
        named = lambda bone: self.scene.name(bone.node) or f"node_{bone.node}"
        return [unique(named(bone), taken) for bone in self.bones]

    def _find_carriers(self) -> dict[int, tuple[int, np.ndarray]]:
        """Return, for each node at or below one that moves or is a joint, the nearest such node and
        the transform (3,4) from one to the other, which is constant.
        """
        result: dict[int, tuple[int, np.ndarray]] = {}
        for node in self.scene.order:
            above = self.scene.parents[node]
            if node in self.moving or node in self._of_node:
                result[node] = (node, IDENTITY)
            elif above in result:
                carrier, relative = result[above]
                result[node] = (carrier, compose(relative, self.scene.locals[node]))
        return result

    def _joints(self, nodes: list[int], binds: np.ndarray, placement: np.ndarray) -> np.ndarray:
        """Return the bones (J,) of joints with these inverse bind matrices (J,3,4)."""
        regular = _is_regular(binds)[:, None, None]
        rest = compose(placement, inverse(np.where(regular, binds, IDENTITY)))
        frame = _normaliser(rest)
        # A matrix that flattens its vertices has no rest transform; any frame in which it does the
        # same will do.
        rest = np.where(regular, compose(rest, frame), placement)
        frame = np.where(regular, frame, binds)
        return np.array([self._add(Bone(*joint)) for joint in zip(nodes, rest, frame)])

    def _rigid(self, node: int) -> int:
        """Return a bone of a node that has no joint's bind pose to respect."""
        for known in self._of_node.get(node, ())[:_MOST_ALIKE]:
            if _is_regular(self.bones[known].frame):
                return known
        rest = self.scene.globals[node]
        if not _is_regular(rest):  # hidden by a scale of zero
            rest = np.concatenate([np.eye(3), rest[:, 3:]], axis=1)
        frame = _normaliser(rest)
        return self._add(Bone(node, compose(rest, frame), frame))

    def _add(self, bone: Bone) -> int:
        """Return the number of a bone, which is a new one unless an equal one is known."""
        for known in self._of_node.setdefault(bone.node, [])[-_MOST_ALIKE:]:
            other = self.bones[known]
            if _near(other.rest, bone.rest) and _near(other.frame, bone.frame):
                return known
        self.bones.append(bone)
        self._of_node[bone.node].append(len(self.bones) - 1)
        return len(self.bones) - 1

    def _placement(self, joints: list[int], binds: np.ndarray) -> np.ndarray:
        """Return the matrix A of a skin, so that its rest shape stands in the world.

        1. Where a joint has a bone from another skin, A is such that both agree on its rest.
        2. If the file shows the bind pose, A is what all joints say: global @ inverse_bind.
        3. Else the joints are posed. A is the space above the root joint, or the world, if that
           has the right scale; otherwise it is what the root joint says.
        """
        for joint, bind in zip(joints, binds):
            for known in self._of_node.get(joint, ())[:_MOST_ALIKE]:
                bone = self.bones[known]
                found = compose(compose(bone.rest, inverse(bone.frame)), bind)
                if _is_regular(bone.frame) and _is_regular(found):
                    return _snapped(found)
        inside = set(joints)
        root = next((k for k, j in enumerate(joints) if self.scene.parents[j] not in inside), 0)
        shown = compose(self.scene.globals[joints], binds)
        if not _is_regular(shown[root]):
            return IDENTITY
        if all(_near(matrix, shown[root], 1e-3) for matrix in shown):
            return _snapped(shown[root])
        above = self.scene.parents[joints[root]]
        candidates = [self.scene.globals[above]] if above >= 0 else []
        for candidate in (*candidates, IDENTITY):
            if _is_regular(candidate) and _is_rigid(compose(shown[root], inverse(candidate))):
                return _snapped(candidate)
        return _snapped(shown[root])


def placed(placement: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return positions (n,3) moved by `placement` (3,4); exactly the same if that is nothing."""
    return positions if np.array_equal(placement, IDENTITY) else apply(placement, positions)


def placed_normals(placement: np.ndarray, normals: np.ndarray) -> np.ndarray:
    """Return unit normals (...,3) of a surface that `placement` (3,4) moves."""
    linear = placement[:, :3]
    if np.array_equal(linear, np.eye(3)):
        return normals
    columns = [np.cross(linear[:, (k + 1) % 3], linear[:, (k + 2) % 3]) for k in range(3)]
    cofactor = np.stack(columns, axis=1)  # the inverse transpose, times the determinant
    turned = normals @ (cofactor * (-1.0 if np.linalg.det(linear) < 0 else 1.0)).T
    return unit(turned)


def _is_regular(matrices: np.ndarray) -> np.ndarray:
    """Return whether transforms (...,3,4) can be inverted without great loss."""
    sizes = np.linalg.svd(matrices[..., :3], compute_uv=False)
    largest = sizes[..., 0]
    return (largest > 1e-12) & (largest < 1e12) & (sizes[..., 2] > 1e-6 * largest)


def _is_rigid(matrix: np.ndarray) -> bool:
    """Return whether a transform (3,4) keeps lengths within one percent."""
    sizes = np.linalg.svd(matrix[:, :3], compute_uv=False)
    return bool(np.abs(sizes - 1).max() < 0.01)


def _normaliser(matrices: np.ndarray) -> np.ndarray:
    """Return uniform scales (...,3,4) that bring very large or small frames to size one."""
    size = np.cbrt(np.abs(np.linalg.det(matrices[..., :3])))
    scale = np.where((size > 1e-3) & (size < 1e3), 1.0, 1.0 / size)
    return IDENTITY * scale[..., None, None]


def _near(a: np.ndarray, b: np.ndarray, tolerance: float = 1e-6) -> bool:
    """Return whether two transforms (3,4) are the same up to rounding."""
    return bool(np.abs(a - b).max() <= tolerance * max(1.0, float(np.abs(b).max())))


def _snapped(matrix: np.ndarray) -> np.ndarray:
    """Return `matrix` (3,4), or exactly the identity if it is that up to rounding."""
    return IDENTITY if _near(matrix, IDENTITY, 1e-6) else matrix
