"""What networks read, in an ONNX graph: bones in their parents' frames, controls, and bounds.

A runtime spends about a microsecond on each node, so the algebra of bones is written with few:
selections and sums of entries are products with small constant matrices. `understudy.core.bounds`
has the equations of the bounds of coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from understudy.core.bounds import LARGEST_FEATURE, Bounds
from understudy.core.deformer import Deformer
from understudy.core.networks import NetStack
from understudy.io.onnx.graph import Graph

_TINY = 1e-20
_MOST = np.finfo(np.float32).max
# Of a bone's determinant, as a share of that at rest: below, it counts as flat.
_LEAST_DETERMINANT = 1e-9


class Readings:
    """The numbers that networks read, before they are clamped.

    rows      name of (T,R,12): bones in their parents' frames; "" if no network reads bones
    flat      name of (T,N): the same and then the controls; made when it is needed
    """

    def __init__(self, graph: Graph, deformer: Deformer):
        self._graph = graph
        columns = deformer.features.columns.astype(np.int64)
        bones = 0 if deformer.skeleton is None else deformer.skeleton.bone_count
        read = np.unique(columns[columns < 12 * bones] // 12)
        place = np.zeros(12 * bones, np.int64)
        place[12 * read[:, None] + np.arange(12)] = np.arange(12 * len(read)).reshape(-1, 12)
        is_bone = columns < 12 * bones
        # The place of each feature among the numbers that are read.
        self._place = np.where(is_bone, 0, 12 * len(read) + columns - 12 * bones)
        self._place[is_bone] = place[columns[is_bone]]
        self._reads_controls = not is_bone.all()
        self._low, self._high = _finite_range(deformer)
        self._count = len(read)
        self.rows = _parent_from_bone(graph, deformer, read) if len(read) else ""
        self._flat = ""
        self._clamped_rows = ""

    def of_nets(self, stack: NetStack) -> str:
        """Add the clamped inputs of a stack of networks, (G,T,I); padding is zero."""
        graph, inputs = self._graph, stack.inputs
        used = inputs < len(self._low)
        at = np.where(used, np.append(self._place, 0)[inputs], 0)
        blocks, bounds = self._whole_bones(at, used), self._bounds_of_rows()
        if blocks is not None and bounds is not None:
            # Bones are clamped once, not for each network; weights of padding are zero.
            if not self._clamped_rows:
                self._clamped_rows = _held(graph, self.rows, *bounds)
            picked = graph.gather(self._clamped_rows, blocks.reshape(-1), 1)
            return graph.transpose(graph.reshape(picked, [-1, *inputs.shape]), 1, 0, 2)
        if blocks is not None:
            picked = graph.gather(self.rows, blocks.reshape(-1), 1)
        else:
            picked = graph.gather(self.flat, at.reshape(-1), 1)
        picked = graph.reshape(picked, [-1, *inputs.shape])
        # Padding is held between zero and zero.
        low, high = (
            np.where(used, np.append(bound, 0)[inputs], 0) for bound in (self._low, self._high)
        )
        return graph.transpose(_held(graph, picked, low, high), 1, 0, 2)

    def of_features(self) -> str:
        """Add the features (T,X), not clamped."""
        return self._graph.gather(self.flat, self._place, 1)

    def _bounds_of_rows(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the clamp of each number of `rows`, (R,12) each; None: a number has several."""
        is_bone = self._place < 12 * self._count
        place = self._place[is_bone]
        if len(np.unique(place)) < len(place):
            return None
        low, high = (np.full(12 * self._count, bound, np.float32) for bound in (-_MOST, _MOST))
        low[place], high[place] = self._low[is_bone], self._high[is_bone]
        return low.reshape(-1, 12), high.reshape(-1, 12)

    @property
    def flat(self) -> str:
        """All numbers that are read, (T,N)."""
        if not self._flat:
            parts = []
            if self.rows:
                parts.append(self._graph.reshape(self.rows, [-1, 12 * self._count]))
            if self._reads_controls:
                parts.append("controls")
            self._flat = self._graph.concat(parts, 1)
        return self._flat

    def _whole_bones(self, at: np.ndarray, used: np.ndarray) -> np.ndarray | None:
        """Return the bones (G,I/12) that networks read, if each reads whole bones; else None.

        at    (G,I) place of each input
        used  (G,I) False: padding
        """
        groups, width = at.shape
        if not self.rows or width % 12:
            return None
        at, used = at.reshape(groups, -1, 12), used.reshape(groups, -1, 12)
        first = at[:, :, :1]
        whole = (at == first + np.arange(12)).all(axis=2) & (first[:, :, 0] % 12 == 0)
        whole &= used.all(axis=2) & (first[:, :, 0] < 12 * self._count)
        if not (whole | ~used.any(axis=2)).all():
            return None
        return np.where(whole, first[:, :, 0] // 12, 0)


def _held(graph: Graph, values: str, low: np.ndarray, high: np.ndarray) -> str:
    """Add values held between two arrays of their shape; a bound that is nowhere reached is left
    out.
    """
    if (low > -_MOST).any():
        values = graph.op("Max", values, graph.constant(low))
    if (high < _MOST).any():
        values = graph.op("Min", values, graph.constant(high))
    return values


def _finite_range(deformer: Deformer) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of the features, (X,) each, with the largest numbers for infinity."""
    features = deformer.features
    return np.clip(features.low, -_MOST, _MOST), np.clip(features.high, -_MOST, _MOST)


def clamped(graph: Graph, deformer: Deformer, picked: str) -> str:
    """Add features (T,X) clamped to their range."""
    low, high = map(graph.constant, _finite_range(deformer))
    return graph.op("Min", graph.op("Max", picked, low), high)


def inputs_from(graph: Graph, features: str) -> Callable[[NetStack], str]:
    """Return a function that adds what a stack of networks reads, (G,T,I), of features (T,X)."""
    # Padding of narrow networks reads an extra feature, which is zero.
    padded = graph.op("Pad", features, graph.constant([0, 0, 0, 1], np.int64))

    def of_nets(stack: NetStack) -> str:
        picked = graph.gather(padded, stack.inputs.reshape(-1), 1)
        return graph.transpose(graph.reshape(picked, [-1, *stack.inputs.shape]), 1, 0, 2)

    return of_nets


def _parent_from_bone(graph: Graph, deformer: Deformer, bones: np.ndarray) -> str:
    """Add some bones (R,) in their parents' frames, (T,R,12); a root stays in the world.

    With A the linear part and t the shift of the parent, C the cofactors of A, and B the bone:

        A^-1 (B - t) = C^T (B - t) / det A,    det A = (sum over i, j of A_ij C_ij) / 3

    All sums of products are written as a product of two selections, then a sum of its entries by a
    constant matrix.
    """
    skeleton, _ = deformer.need_skin()
    parents = skeleton.frames[bones]
    pairs = np.stack([np.maximum(parents, 0), bones], axis=1)
    both = graph.gather("world_from_bone", pairs.reshape(-1), 1)
    if (parents < 0).any():  # the parent of a root is the identity
        keep = np.ones((len(bones), 2, 1, 1))
        keep[parents < 0, 0] = 0
        both = graph.op("Mul", both, graph.constant(keep.reshape(-1, 1, 1)))
        start = (1 - keep) * np.eye(3, 4)
        both = graph.op("Add", both, graph.constant(start.reshape(-1, 3, 4)))
    tables = _product_tables()
    both = graph.reshape(both, [-1, 24])
    selections = graph.constant(np.concatenate(tables.selections, axis=1))
    selected = graph.op("MatMul", both, selections)
    left, right, factors = graph.split(selected, [t.shape[1] for t in tables.selections], 1)
    cofactors = graph.op("MatMul", graph.op("Mul", left, right), graph.constant(tables.cofactors))
    # The sums, and a number that keeps a determinant of zero from being divided by.
    nonzero = np.append(np.zeros(12), _TINY)
    products = graph.op("Mul", cofactors, factors)
    sums = graph.op("Gemm", products, graph.constant(tables.sums), graph.constant(nonzero))
    moved, determinant = graph.split(sums, [12, 1], 1)
    if np.isinf(deformer.features.low).any() or np.isinf(deformer.features.high).any():
        # No clamp follows, so 1 / det A is held below 1 / least.
        size = np.abs(np.linalg.det(skeleton.world_from_bone[np.maximum(parents, 0), :, :3]))
        least = graph.constant([float(_LEAST_DETERMINANT * size.min()) ** 2])
        held = graph.op("Max", graph.square(determinant), least)
        relative = graph.op("Mul", moved, graph.op("Div", determinant, held))
    else:
        relative = graph.op("Div", moved, determinant)
    return graph.reshape(relative, [-1, len(bones), 12])


class _Tables(NamedTuple):
    """Constant matrices of `_parent_from_bone`.

    selections  of the entries of parent and bone, (3,4) row by row: the factors of the 18 products
                in the cofactors, (24,18) each; then what cofactors are multiplied by, (24,45): B -
                t for the 36 products in C^T (B - t), and the entries of A for those in det A
    cofactors   (18,45), the cofactors as factors of these products
    sums        (45,13), the sums of these products: 12 entries, and det A
    """

    selections: list[np.ndarray]
    cofactors: np.ndarray
    sums: np.ndarray


def _product_tables() -> _Tables:
    """Return the constant matrices."""
    left, right, factors = (np.zeros((24, n)) for n in (18, 18, 72))
    cofactors, sums = np.zeros((18, 72)), np.zeros((72, 13))
    for row, column in np.ndindex(3, 3):
        r, c = [(row + 1) % 3, (row + 2) % 3], [(column + 1) % 3, (column + 2) % 3]
        n = 2 * (3 * row + column)
        left[4 * r[0] + c[0], n] = right[4 * r[1] + c[1], n] = 1
        left[4 * r[0] + c[1], n + 1] = right[4 * r[1] + c[0], n + 1] = 1
        first = 4 * (3 * row + column)
        for out in range(4):
            # Entry (column, out) of C^T (B - t) has the term C[row, column] (B - t)[row, out].
            cofactors[[n, n + 1], first + out] = 1, -1
            factors[12 + 4 * row + out, first + out] = 1
            sums[first + out, 4 * column + out] = 1
        factors[4 * row + 3, first + 3] = -1
        cofactors[[n, n + 1], 36 + first] = 1, -1
        factors[4 * row + column, 36 + first] = 1
        sums[36 + first, 12] = 1 / 3
    used = factors.any(axis=0)
    return _Tables([left, right, factors[:, used]], cofactors[:, used], sums[used])


def add_bounds(graph: Graph, bounds: Bounds | None, coefficients: str, readings: str) -> str:
    """Add coefficients (T,N) clamped and faded; without bounds, return them as they are.

    readings  name of the features (T,X) before they are clamped
    """
    if bounds is None:
        return coefficients
    held = graph.op("Max", coefficients, graph.constant(bounds.low))
    held = graph.op("Min", held, graph.constant(bounds.high))
    if not bounds.unit_count or not len(bounds.units):
        return held
    return graph.op("Mul", held, _fades(graph, bounds, readings))


def _fades(graph: Graph, bounds: Bounds, readings: str) -> str:
    """Add the fade of every coefficient, (T,N)."""
    units, _, width = bounds.centres.shape
    limit, last = np.float32(LARGEST_FEATURE), graph.constant([2], np.int64)
    near = graph.op("Max", readings, graph.constant([-limit]))
    near = graph.op("Min", near, graph.constant([limit]))
    picked = graph.gather(near, bounds.features.reshape(-1), 1)
    picked = graph.reshape(picked, [-1, units, 1, width])
    off = graph.square(graph.op("Sub", picked, graph.constant(bounds.centres)))
    off = graph.op("Mul", off, graph.constant(bounds.scale[:, None]))
    distance = graph.op("ReduceMin", graph.sum(off, 3), last, keepdims=0)
    end = bounds.fade_end**2
    s = graph.op("Sub", graph.constant([end]), distance)
    s = graph.op("Mul", s, graph.constant([1 / (end - 1)]))
    s = graph.op("Min", graph.op("Max", s, graph.constant([0.0])), graph.constant([1.0]))
    slope = graph.op("Sub", graph.constant([3.0]), graph.op("Add", s, s))
    fade = graph.op("Mul", graph.square(s), slope)
    groups, most = bounds.units.shape
    of_groups = graph.gather(fade, bounds.units.reshape(-1), 1)
    of_groups = graph.reshape(of_groups, [-1, groups, most])
    of_groups = graph.op("ReduceMin", of_groups, last, keepdims=0)
    group = bounds.group
    if (group < 0).any():
        # One more group, which never fades.
        ones = graph.constant(1.0)
        of_groups = graph.op("Pad", of_groups, graph.constant([0, 0, 0, 1], np.int64), ones)
        group = np.where(group < 0, groups, group)
    return graph.gather(of_groups, group, 1)
