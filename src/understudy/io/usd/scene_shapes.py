"""Blend shapes of a stage, with in-betweens as shapes of their own.

USD interpolates between a shape and its in-betweens. A `Character` has linear shapes only, so each
in-between becomes one more shape, and the weights of both are computed for each frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pxr import UsdSkel

from understudy.core import checks
from understudy.core.errors import FileError, InputError
from understudy.io.usd.prim_names import original_name

# The shapes of several meshes are one if this is equal: skeleton, token, in-between, and the
# weights of all in-betweens, which decide how a weight is shared out.
Key = tuple[str, str, str, tuple[float, ...]]


@dataclass(frozen=True, eq=False)
class PartShapes:
    """The blend shapes of one mesh.

    tokens   the shapes' names in the animation
    query    the `UsdSkel.BlendShapeQuery`
    subs     number of each shape and in-between among the query's sub-shapes
    keys     of each of these
    names    of each of these
    points   (m,) int32 for each: the points that move
    offsets  (m,3) float64 for each
    """

    tokens: tuple[str, ...]
    query: Any
    subs: list[int]
    keys: list[Key]
    names: list[str]
    points: list[np.ndarray]
    offsets: list[np.ndarray]

    def weights(self, order: Sequence[str], given: np.ndarray) -> np.ndarray:
        """Return the weights (T,s) of shapes and in-betweens.

        order  the animation's names of the columns of `given`
        given  (T,A) the animation's weights
        """
        place = {token: k for k, token in enumerate(order)}
        column = np.array([place.get(token, -1) for token in self.tokens])
        own = np.where(column >= 0, given[:, column], 0.0) if given.shape[1] else None
        result = np.zeros((len(given), len(self.keys)), np.float32)
        if own is None:
            return result
        for frame, values in enumerate(own):
            weights, _, shapes = self.query.ComputeSubShapeWeights(values.tolist())
            every = np.zeros(self.query.GetNumSubShapes(), np.float32)
            every[np.array(shapes, int)] = np.array(weights)
            result[frame] = every[self.subs]
        return result


def read_shapes(prim: Any, skinning: Any, skeleton: str, point_count: int) -> PartShapes | None:
    """Return the blend shapes of a mesh; None: it has none.

    skinning  its `UsdSkel.SkinningQuery`
    skeleton  path of the skeleton whose animation has the weights
    """
    tokens = skinning.GetBlendShapeOrder() if skinning.HasBlendShapes() else None
    if not tokens:
        return None
    where = f"mesh {prim.GetPath()}"
    query = UsdSkel.BlendShapeQuery(UsdSkel.BindingAPI(prim))
    if query.GetNumBlendShapes() != len(tokens):
        raise FileError(
            f"{where}: has {len(tokens)} names of blend shapes and {query.GetNumBlendShapes()} "
            "blend shapes; one of them is missing"
        )
    of_shape, of_sub = query.ComputeBlendShapePointIndices(), query.ComputeSubShapePointOffsets()
    knots: dict[int, list[float]] = {}
    for sub in range(query.GetNumSubShapes()):
        between = query.GetInbetween(sub)
        if between:
            knots.setdefault(query.GetBlendShapeIndex(sub), []).append(float(between.GetWeight()))
    found = PartShapes(tuple(map(str, tokens)), query, [], [], [], [], [])
    for sub in range(query.GetNumSubShapes()):
        shape = query.GetBlendShapeIndex(sub)
        token, between = str(tokens[shape]), query.GetInbetween(sub)
        if not between and not len(of_sub[sub]):  # the rest shape, which USD counts too
            continue
        label = str(between.GetAttr().GetName()).split(":")[-1] if between else ""
        kept = original_name(query.GetBlendShape(shape).GetPrim())
        made_here = query.GetBlendShape(shape).GetPrim().HasCustomDataKey("understudy")
        name = kept if made_here else token.split("/")[-1].split(":")[-1]
        indices = np.array(of_shape[shape], np.int64).reshape(-1)
        offsets = np.asarray(of_sub[sub], np.float64).reshape(-1, 3)
        if not len(indices):  # all points, in order
            indices = np.arange(len(offsets))
        try:
            checks.same_count(len(offsets), len(indices), "offsets", f"shape {name!r}", "it")
            indices = checks.index(indices, f"pointIndices of shape {name!r}", point_count)
            checks.finite(offsets, f"offsets of shape {name!r}")
        except InputError as problem:
            raise FileError(f"{where}: {problem}") from problem
        found.subs.append(sub)
        found.keys.append((skeleton, token, label, tuple(sorted(knots.get(shape, [])))))
        found.names.append(f"{name}:{label}" if label else name)
        found.points.append(indices)
        found.offsets.append(offsets)
    return found
