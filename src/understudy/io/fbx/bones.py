"""The skeleton and the skin of an FBX scene, for all its objects together.

Maya shows a skinned object moved by its own node as well, against its place when it was bound:
node_to_world(t) @ inverse(node_to_world at binding) acts after the skin. Other programs ignore the
node of a skinned object. Files of Maya are read as Maya shows them.

Rows of weights are scaled to sum to one: exporters of Maya leave out weights below 0.001, and Maya
shows its own files so.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from understudy.core.poses import distinct_names
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.skinning import float32_influences, sparse_to_influences
from understudy.geometry.transforms import apply, compose, inverse
from understudy.io.fbx.scene import FbxScene, Part

_SAME = 1e-6  # two rest transforms of a bone are one, up to this fraction of their size
_FLAT = 1e-11  # transforms of less volume are not inverted
_NO_WEIGHT = 1e-12
_MISSING = 1e-6
_BONE = 8000  # bytes
_MOST_ALIKE = 16  # bones of one node that are compared with a new one


@dataclass(frozen=True, eq=False)
class _Carrier:
    """The node of an object, which moves it after its skin: node_to_world @ node_from_rest."""

    node: int
    node_from_rest: np.ndarray


@dataclass(frozen=True, eq=False)
class _Bone:
    """A bone: world_from_bone = carrier @ node_to_world @ adjust, in the bind pose `rest`."""

    node: int
    rest: np.ndarray
    adjust: np.ndarray
    carrier: _Carrier | None = None

    def same(self, other: _Bone) -> bool:
        """Return whether two bones have one rest transform and one motion."""
        near = lambda a, b: np.abs(a - b).max() <= _SAME * max(1.0, np.abs(a).max())
        return (
            self.node == other.node
            and self.carrier is other.carrier
            and near(self.rest, other.rest)
            and near(self.adjust, other.adjust)
        )


class Bones:
    """The bones that move some objects of a scene.

    rest_from_geometry  (3,4) of each part: its place in the bind pose
    mixed_blend         (V,) share of dual quaternion skinning; None: one blend for all vertices
    """

    def __init__(self, scene: FbxScene, parts: list[Part]):
        self._scene, self._parts = scene, parts
        self._skin_nodes = {int(n) for part in parts if part.skin for n in part.skin.nodes}
        self._skinned = self._nearest(self._skin_nodes)
        self._bones: list[_Bone] = []
        self._of_node: dict[int, list[int]] = {}
        self.notes: list[str] = []
        self.rest_from_geometry = [self._place(part) for part in parts]
        starts = np.cumsum([0, *(part.vertex_count for part in parts)])
        found = [self._weights(p, place) for p, place in zip(parts, self.rest_from_geometry)]
        rows = np.concatenate([vertex + start for (vertex, _, _), start in zip(found, starts)])
        columns = np.concatenate([bone for _, bone, _ in found])
        values = np.concatenate([weight for _, _, weight in found])
        order = self._add_hierarchy()
        shape = (int(starts[-1]), len(self._bones))
        matrix = sp.csr_matrix((values, (rows, order[columns])), shape)
        width = int(np.diff(matrix.indptr).max(initial=1))
        scene.budget.take(40 * shape[0] * width, "skin weights")
        self._index, self._weight = float32_influences(*sparse_to_influences(matrix))
        share = [
            np.zeros(p.vertex_count) if p.skin is None else p.skin.dual_quaternion for p in parts
        ]
        self._choose_blend(np.concatenate(share))

    def skeleton(self) -> Skeleton:
        """Return the bones, parents first."""
        names = distinct_names([self._scene.header["nodes"][b.node] or "node" for b in self._bones])
        return Skeleton(tuple(names), self._parents(), np.array([b.rest for b in self._bones]))

    def skin(self) -> Skin:
        """Return the weights of all vertices."""
        return Skin(self._index, self._weight, self.blend)

    def motion(self, node_to_world: np.ndarray) -> np.ndarray:
        """Return world_from_bone (F,B,3,4) of nodes (F,N,3,4)."""
        nodes = [bone.node for bone in self._bones]
        self._scene.budget.take(192 * len(node_to_world) * len(nodes), "bone motion")
        moved = compose(node_to_world[:, nodes], np.array([bone.adjust for bone in self._bones]))
        for number, bone in enumerate(self._bones):
            if bone.carrier is not None:
                carried = compose(node_to_world[:, bone.carrier.node], bone.carrier.node_from_rest)
                moved[:, number] = compose(carried, moved[:, number])
        return moved

    def _place(self, part: Part) -> np.ndarray:
        """Return rest_from_geometry of a part."""
        scene = self._scene
        if part.skin is not None and len(part.skin.nodes):
            # By the cluster of the greatest weight: others may have been bound at another time.
            total = np.bincount(part.skin.cluster, part.skin.weight, len(part.skin.nodes))
            best = int(np.argmax(total))
            place = compose(part.skin.bind_to_world[best], part.skin.node_from_geometry[best])
        else:
            place = compose(self._still(part.node), scene.geometry_to_node[part.node])
        return place if _volume(place) > _FLAT else np.eye(3, 4)

    def _still(self, node: int) -> np.ndarray:
        """Return node_to_world (3,4) in the bind pose if the node hangs on a skin's bone."""
        scene, above = self._scene, self._skinned[node]
        if above < 0:
            return scene.node_to_world[node]
        if np.isfinite(scene.bind_to_world[node]).all():
            return scene.bind_to_world[node]
        bound = scene.bind_to_world[above]
        if not np.isfinite(bound).all() or _volume(scene.node_to_world[above]) <= _FLAT:
            return scene.node_to_world[node]
        return compose(
            bound, compose(inverse(scene.node_to_world[above]), scene.node_to_world[node])
        )

    def _weights(self, part: Part, place: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return vertex, bone and weight (n,) of every influence on a part; weights sum to one."""
        vertex, bone, weight = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        if part.skin is not None and len(part.skin.cluster):
            skin = part.skin
            shape = (part.vertex_count, len(skin.nodes))
            rows = sp.csr_matrix((skin.weight, (skin.vertex, skin.cluster)), shape)
            rows = rows.tocoo()
            carrier = self._carrier(part, place)
            used, which = np.unique(rows.col, return_inverse=True)
            made = [
                self._bone(int(skin.nodes[k]), place, skin.node_from_geometry[k], carrier)
                for k in used
            ]
            vertex, bone, weight = rows.row, np.array(made)[which], rows.data
        total = np.bincount(vertex, weight, part.vertex_count)
        short = int(((total > _NO_WEIGHT) & (total < 1 - _MISSING)).sum())
        if short and self._scene.from_maya:
            self.notes.append(
                f"{part.name}: the file lacks up to {1 - total[total > _NO_WEIGHT].min():.2g} of "
                f"the weight of {short} vertices (Maya leaves out weights below 0.001); the rest "
                "is scaled up, as Maya does when it opens the file"
            )
        loose = np.flatnonzero(total <= _NO_WEIGHT)
        if loose.size:
            own = self._bone(part.node, place, self._scene.geometry_to_node[part.node])
            keep = total[vertex] > _NO_WEIGHT
            vertex = np.concatenate([vertex[keep], loose])
            bone = np.concatenate([bone[keep], np.full(len(loose), own)])
            weight = np.concatenate([weight[keep], np.ones(len(loose))])
            total[loose] = 1.0
        return vertex, bone, weight / total[vertex]

    def _carrier(self, part: Part, place: np.ndarray) -> _Carrier | None:
        """Return what moves a skinned part beside its bones; None: nothing, or not visibly."""
        scene = self._scene
        geometry = scene.geometry_to_node[part.node]
        if not scene.from_maya or _volume(geometry) <= _FLAT:
            return None
        node_from_rest = compose(geometry, inverse(place))
        size = max(1.0, np.abs(place).max(), np.abs(apply(place, part.vertices)).max())
        for take in scene.takes or [scene.still()]:
            moved = compose(take.node_to_world[:, part.node], node_from_rest)
            if np.abs(moved - np.eye(3, 4)).max() > _SAME * size:
                return _Carrier(part.node, node_from_rest)
        return None

    def _bone(
        self,
        node: int,
        place: np.ndarray,
        node_from_geometry: np.ndarray,
        carrier: _Carrier | None = None,
    ) -> int:
        """Return the bone that moves a geometry point p to node_to_world @ node_from_geometry p."""
        self._scene.budget.take(_BONE, "bones")
        bone = _Bone(node, np.eye(3, 4), compose(node_from_geometry, inverse(place)), carrier)
        if _volume(node_from_geometry) > _FLAT:
            rest = compose(place, inverse(node_from_geometry))
            if _volume(rest) > _FLAT:
                bone = _Bone(node, rest, np.eye(3, 4), carrier)
        known = self._of_node.setdefault(node, [])
        for number in known[-_MOST_ALIKE:]:
            if self._bones[number].same(bone):
                return number
        known.append(len(self._bones))
        self._bones.append(bone)
        return known[-1]

    def _add_hierarchy(self) -> np.ndarray:
        """Add the bones that move nothing themselves; return the new place of each old bone."""
        scene, parents = self._scene, self._scene.node_parent
        used = {bone.node for bone in self._bones}
        wanted: set[int] = set()
        if self._skin_nodes:
            wanted = set(np.flatnonzero(scene.arrays["node_is_bone"]).tolist())
        seen = used | wanted
        for node in used:
            above = int(parents[node])
            while above > 0 and above not in seen:
                seen.add(above)
                if scene.moves[above]:
                    wanted.add(above)
                above = int(parents[above])
        old = self._bones
        carrier = next((bone.carrier for bone in old if bone.carrier is not None), None)
        added = [
            _Bone(node, self._rest_of(node), np.eye(3, 4), carrier)
            for node in sorted(wanted - used)
        ]
        # Nodes are numbered parents first.
        together = [*old, *added]
        order = np.argsort([bone.node for bone in together], kind="stable")
        self._bones = [together[i] for i in order]
        place = np.empty(len(together), np.int64)
        place[order] = np.arange(len(together))
        return place[: len(old)]

    def _rest_of(self, node: int) -> np.ndarray:
        """Return the rest transform of a bone that no skin uses."""
        bound = self._scene.bind_to_world[node]
        rest = bound if np.isfinite(bound).all() else self._still(node)
        return rest if _volume(rest) > _FLAT else np.eye(3, 4)

    def _parents(self) -> np.ndarray:
        """Return the parent of each bone, (B,): the first bone of its nearest ancestor."""
        first: dict[int, int] = {}
        for number, bone in enumerate(self._bones):
            first.setdefault(bone.node, number)
        nearest = [-1, *self._nearest(first)]  # after what is above the root
        above = [nearest[self._scene.node_parent[bone.node] + 1] for bone in self._bones]
        return np.array([first.get(node, -1) for node in above], np.int32)

    def _nearest(self, nodes: Collection[int]) -> list[int]:
        """Return which of some nodes is nearest at or above each node, (N,); -1: none."""
        found: list[int] = []
        for node, above in enumerate(self._scene.node_parent.tolist()):  # parents come first
            found.append(node if node in nodes else found[above] if above >= 0 else -1)
        return found

    def _choose_blend(self, share: np.ndarray) -> None:
        """Set the blend of the skin: share (V,) of dual quaternion skinning."""
        # One bone alone moves a vertex in the same way with both blends.
        free = (self._weight != 0).sum(axis=1) <= 1
        linear = bool((free | (share < 1e-6)).all())
        dual = bool((free | (share > 1 - 1e-6)).all())
        self.blend = "dual_quaternion" if dual and not linear else "linear"
        self.mixed_blend = None if linear or dual else np.where(free, 0.0, share)


def _volume(transform: np.ndarray) -> float:
    return float(abs(np.linalg.det(transform[:, :3])))
