"""The node hierarchy of a glTF file."""

from __future__ import annotations

import numpy as np

from understudy.geometry.bone_motion import parents_first
from understudy.geometry.transforms import compose
from understudy.io.budget import Budget
from understudy.io.gltf.document import Entry
from understudy.io.trs import NEARLY_UNIT, PATHS, compose_trs
from understudy.system.errors import FileError

_NODE = 8000  # bytes


class Scene:
    """The nodes: parents, order, and transforms as they are without animation.

    entries   the N nodes
    parents   (N,) int, -1 for a root
    order     every node after its parent
    locals    (N,3,4) float64: each node in its parent
    globals   (N,3,4) float64
    """

    def __init__(self, root: Entry, budget: Budget):
        self.entries = root.entries("nodes")
        budget.take(len(self.entries) * _NODE, "nodes")
        self.parents = self._parents(root.where)
        self.order = self._order(root.where)
        self.locals = self._locals(root.where)
        self.globals = self.locals.copy()
        for node in self.order:
            if self.parents[node] >= 0:
                self.globals[node] = compose(self.globals[self.parents[node]], self.locals[node])
        if not np.isfinite(self.globals).all():
            raise FileError(f"{root.where}: the transforms of its nodes overflow")
        self.shown = self._shown(root)

    def name(self, node: int) -> str:
        """Return the name of a node, which may be empty."""
        return self.entries[node].text("name").strip()

    def _parents(self, where: str) -> list[int]:
        count = len(self.entries)
        parents = [-1] * count
        for node, entry in enumerate(self.entries):
            for child in entry.integers("children", below=count):
                if parents[child] >= 0 or child == node:
                    raise FileError(f"{where}: nodes[{child}] has more than one parent, or itself")
                parents[child] = node
        return parents

    def _order(self, where: str) -> list[int]:
        """Return the nodes, parents first; a cycle is an error."""
        order = parents_first(np.array(self.parents, np.int64)).tolist()
        if len(order) != len(self.entries):
            cyclic = min(set(range(len(self.entries))) - set(order))
            raise FileError(f"{where}: nodes[{cyclic}] is its own ancestor (a cycle of children)")
        return order

    def _locals(self, where: str) -> np.ndarray:
        translation = np.zeros((len(self.entries), 3))
        rotation = np.tile([0.0, 0.0, 0.0, 1.0], (len(self.entries), 1))
        scale = np.ones((len(self.entries), 3))
        matrices = {}
        for node, entry in enumerate(self.entries):
            matrix = entry.numbers("matrix", 16)
            if matrix is not None:
                matrices[node] = matrix.reshape(4, 4).T[:3]
                continue
            trs = (translation, rotation, scale)
            for array, key in zip(trs, PATHS):
                values = entry.numbers(key, array.shape[1])
                if values is not None:
                    array[node] = values
            length = float(np.linalg.norm(rotation[node]))
            if not 1e-6 < length < 1e6:
                raise entry.wrong("rotation", "expected a quaternion of length one")
            if abs(length - 1) > NEARLY_UNIT:
                rotation[node] /= length
        result = compose_trs(translation, rotation, scale)
        for node, matrix in matrices.items():
            result[node] = matrix
        if np.abs(result).max(initial=0.0) > 1e30:
            raise FileError(f"{where}: nodes: a transform has numbers beyond 1e30")
        return result

    def _shown(self, root: Entry) -> list[int]:
        """Return the nodes of the scene that the file shows, or all without scenes; in order."""
        scenes = root.entries("scenes")
        if not scenes:
            return list(range(len(self.entries)))
        scene = scenes[root.integer("scene", 0, below=len(scenes))]
        starts = scene.integers("nodes", below=len(self.entries))
        inside = np.zeros(len(self.entries), bool)
        inside[starts] = True
        for node in self.order:
            parent = self.parents[node]
            inside[node] |= parent >= 0 and bool(inside[parent])
        return np.flatnonzero(inside).tolist()
