"""One `Mesh` prim of a stage as arrays: polygons, UVs, normals, materials, subsets, blend shapes.

USD interpolates between a blend shape and its in-betweens. A `Character` has linear shapes only, so
each in-between becomes one more shape, and the weights of both are computed for each frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from pxr import Usd, UsdGeom, UsdShade, UsdSkel

from understudy.geometry.adjacency import fans
from understudy.geometry.normals import vertex_normals
from understudy.io.numbers import of_file
from understudy.io.usd.mesh_prims import POLYGON_PRIMVAR, VERTEX_PRIMVAR
from understudy.io.usd.prim_names import original_name
from understudy.system import checks
from understudy.system.errors import FileError, InputError

_UV_NAMES = ("st", "UVMap", "uv", "map1", "st0", "st1")
_UV_TYPES = ("texCoord2f[]", "texCoord2d[]", "texCoord2h[]", "float2[]", "double2[]", "half2[]")
# The shapes of several meshes are one if this is equal: skeleton, token, in-between, and the
# weights of all in-betweens, which decide how a weight is shared out.
Key = tuple[str, str, str, tuple[float, ...]]


@dataclass(frozen=True, eq=False)
class ScenePart:
    """A mesh of a stage, in its own coordinates, with counter-clockwise polygons.

    prim              the `Usd.Prim`
    points            (n,3) float64 at rest
    sizes, corners    (f,) and (c,) int32, the polygons
    normals           (c,3) float64, or None
    material          (f,) names of materials, "" where there is none
    groups            name -> (m,) int32, subsets of the points
    vertex_order      (n,) int32, where the vertices were in the mesh that was written, or None
    polygon_order     (f,) int32, where the polygons were, or None
    values            UVs and further values of the corners by name, as in `Mesh`
    """

    prim: Any
    points: np.ndarray
    sizes: np.ndarray
    corners: np.ndarray
    normals: np.ndarray | None
    material: list[str]
    groups: dict[str, np.ndarray]
    vertex_order: np.ndarray | None
    polygon_order: np.ndarray | None
    values: dict[str, np.ndarray]

    @property
    def name(self) -> str:
        """Of the part: its original name, else its prim's."""
        return original_name(self.prim)

    @property
    def is_part(self) -> bool:
        """Whether the mesh is a part of its own; False: it holds the vertices that have none."""
        return self.prim.GetCustomDataByKey("understudy:part") is not False

    @property
    def points_attribute(self) -> Any:
        """The `Usd.Attribute` of its points."""
        return UsdGeom.Mesh(self.prim).GetPointsAttr()

    def smooth_normals(self) -> np.ndarray:
        """Return normals (c,3) that follow from the positions."""
        triangles = self.corners[fans(self.sizes)]
        return vertex_normals(self.points[None], triangles)[0][self.corners]


def read_part(prim: Any) -> ScenePart | None:
    """Return the mesh of a prim; None: it has no points."""
    mesh = UsdGeom.Mesh(prim)
    points = numbers(mesh.GetPointsAttr(), 3)
    if points is None or not len(points):
        return None
    where = f"mesh {prim.GetPath()}"
    sizes = _indices(mesh.GetFaceVertexCountsAttr())
    corners = _indices(mesh.GetFaceVertexIndicesAttr())
    with of_file(where):
        if sizes.size and sizes.min() < 0:
            raise InputError("faceVertexCounts: a polygon has a negative number of corners")
        total = int(sizes.sum(dtype=np.int64))
        if total != len(corners):
            raise InputError(
                f"faceVertexCounts add up to {total} corners, faceVertexIndices has {len(corners)}"
            )
        corners = checks.index(corners, "faceVertexIndices", len(points))
    shape = (len(points), sizes, corners)
    sets = _uv_primvars(prim)
    read = lambda primvar, width, what: _on_corners(primvar, width, shape, f"{where}: {what}")
    values = {f"TEXCOORD_{n}": read(one, 2, "UVs") for n, one in enumerate(sets)}
    colours = [UsdGeom.PrimvarsAPI(prim).GetPrimvar(f"display{n}") for n in ("Color", "Opacity")]
    if colours[0] and colours[0].GetInterpolation() != "constant":  # one colour is for viewports
        given = [read(one, width, "colours") for one, width in zip(colours, (3, 1))]
        values["COLOR_0"] = np.concatenate([rows for rows in given if rows is not None], axis=1)
    normals = _normals(mesh, shape, where)
    material, groups = _materials(prim, len(sizes)), _groups(mesh, len(points), where)
    polygon_order = _order(prim, POLYGON_PRIMVAR, len(sizes))
    # Left-handed polygons are turned; polygons of one or two corners are left out.
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    step = np.arange(len(corners)) - starts
    if mesh.GetOrientationAttr().Get() == UsdGeom.Tokens.leftHanded:
        step = np.repeat(sizes, sizes) - 1 - step
    solid = sizes >= 3
    chosen = (starts + step)[np.repeat(solid, sizes)]
    pick = lambda values: None if values is None else values[chosen]
    return ScenePart(
        prim,
        points,
        sizes[solid],
        corners[chosen],
        pick(normals),
        [name for name, kept in zip(material, solid.tolist()) if kept],
        groups,
        _order(prim, VERTEX_PRIMVAR, len(points)),
        None if polygon_order is None else polygon_order[solid],
        {name: rows[chosen] for name, rows in values.items() if rows is not None},
    )


def numbers(attribute: Any, width: int, time: Any = None) -> np.ndarray | None:
    """Return an array attribute as (n,width) float64; None: it has no value.

    time  a time code; None: its default, or its first sample if it has none
    """
    value = _value(attribute) if time is None else attribute.Get(time)
    if value is None:
        return None
    array = np.asarray(value, np.float64).reshape(-1, width)
    if not np.isfinite(array).all():
        raise FileError(f"{attribute.GetPath()}: holds NaN or infinite numbers")
    return array


def _value(attribute: Any) -> Any:
    """Return the default of an attribute, or its first sample, or None."""
    value = attribute.Get()
    return attribute.Get(Usd.TimeCode.EarliestTime()) if value is None else value


def _indices(attribute: Any) -> np.ndarray:
    """Return an array attribute of whole numbers, (n,) int32; empty: it has no value."""
    value = _value(attribute)
    return np.zeros(0, np.int32) if value is None else np.array(value, np.int32).reshape(-1)


def _uv_primvars(prim: Any) -> list[Any]:
    """Return the `UsdGeom.Primvar`s of UVs: `st` first, other known names, then any."""
    found = [
        primvar
        for primvar in UsdGeom.PrimvarsAPI(prim).FindPrimvarsWithInheritance()
        if str(primvar.GetTypeName()) in _UV_TYPES and primvar.HasValue()
    ]
    rank = {name: k for k, name in enumerate(_UV_NAMES)}
    found.sort(key=lambda primvar: rank.get(primvar.GetPrimvarName(), len(rank)))
    return found


def _on_corners(
    primvar: Any, width: int, shape: tuple[int, np.ndarray, np.ndarray], where: str
) -> np.ndarray | None:
    """Return a primvar on the corners, (c,width) float64; None: there is none.

    shape  number of points, polygon sizes (f,), vertex of each corner (c,)
    """
    if primvar is None or not primvar.HasValue():
        return None
    value = primvar.ComputeFlattened()
    if value is None:
        value = primvar.ComputeFlattened(Usd.TimeCode.EarliestTime())
    if value is None:
        raise FileError(f"{where}: the indices of {primvar.GetName()} do not fit its values")
    values = np.asarray(value, np.float64).reshape(-1, width)
    return _spread(values, str(primvar.GetInterpolation()), shape, where)


def _spread(
    values: np.ndarray, interpolation: str, shape: tuple[int, np.ndarray, np.ndarray], where: str
) -> np.ndarray:
    """Return values of one interpolation on the corners; `shape` as in `_on_corners`."""
    count, sizes, corners = shape
    wanted = {"constant": 1, "uniform": len(sizes), "faceVarying": len(corners)}
    expected = wanted.get(interpolation, count)
    if len(values) != expected:
        raise FileError(f"{where}: {interpolation} needs {expected} values, got {len(values)}")
    if not np.isfinite(values).all():
        raise FileError(f"{where}: NaN or infinite numbers")
    if interpolation == "faceVarying":
        return values
    if interpolation == "constant":
        return np.repeat(values, len(corners), axis=0)
    return np.repeat(values, sizes, axis=0) if interpolation == "uniform" else values[corners]


def _normals(mesh: Any, shape: tuple[int, np.ndarray, np.ndarray], where: str) -> np.ndarray | None:
    """Return the normals on the corners; the primvar wins over the attribute, as USD has it."""
    primvar = UsdGeom.PrimvarsAPI(mesh).GetPrimvar("normals")
    found = _on_corners(primvar, 3, shape, f"{where}: normals")
    if found is not None:
        return found
    values = numbers(mesh.GetNormalsAttr(), 3)
    if values is None or not len(values):
        return None
    return _spread(values, str(mesh.GetNormalsInterpolation()), shape, f"{where}: normals")


def _materials(prim: Any, count: int) -> list[str]:
    """Return the name of the material of each of `count` polygons, "" where there is none."""
    bound = _material_of(prim)
    names = np.full(count, bound, object)
    for subset in UsdGeom.Subset.GetAllGeomSubsets(UsdGeom.Imageable(prim)):
        is_binding = subset.GetFamilyNameAttr().Get() == UsdShade.Tokens.materialBind
        name = _material_of(subset.GetPrim(), inherited=False)
        if subset.GetElementTypeAttr().Get() != UsdGeom.Tokens.face or not (is_binding or name):
            continue
        polygons = _indices(subset.GetIndicesAttr())
        polygons = polygons[(polygons >= 0) & (polygons < count)]
        names[polygons] = name or original_name(subset.GetPrim())
    return names.tolist()


def _material_of(prim: Any, inherited: bool = True) -> str:
    """Return the name of the material that is bound to a prim, "" if there is none."""
    binding = UsdShade.MaterialBindingAPI(prim)
    if inherited:
        material = binding.ComputeBoundMaterial()[0]
    else:
        material = binding.GetDirectBinding().GetMaterial()
    return original_name(material.GetPrim()) if material else ""


def _groups(mesh: Any, count: int, where: str) -> dict[str, np.ndarray]:
    """Return the subsets of the points by name."""
    result = {}
    for subset in UsdGeom.Subset.GetAllGeomSubsets(mesh):
        if subset.GetElementTypeAttr().Get() == UsdGeom.Tokens.point:
            name = original_name(subset.GetPrim())
            with of_file(where):
                chosen = _indices(subset.GetIndicesAttr())
                result[name] = checks.index(chosen, f"subset {name!r}", count)
    return result


def _order(prim: Any, name: str, count: int) -> np.ndarray | None:
    """Return a primvar with the place of each element in the mesh that was written, or None."""
    primvar = UsdGeom.PrimvarsAPI(prim).GetPrimvar(name)
    value = primvar.Get() if primvar else None
    if value is None or len(value) != count:
        return None
    return np.array(value, np.int32)


class PartShape(NamedTuple):
    """A blend shape or an in-between of a mesh: the points (m,) int32 that it moves, and (m,3)."""

    key: Key
    name: str
    points: np.ndarray
    offsets: np.ndarray


@dataclass(frozen=True, eq=False)
class PartShapes:
    """The blend shapes of one mesh.

    tokens  the shapes' names in the animation
    query   the `UsdSkel.BlendShapeQuery`
    found   the shapes and in-betweens
    subs    the number of each among the query's sub-shapes
    """

    tokens: tuple[str, ...]
    query: Any
    found: list[PartShape]
    subs: list[int]

    def weights(self, order: Sequence[str], given: np.ndarray) -> np.ndarray:
        """Return the weights (T,s) of shapes and in-betweens.

        order  the animation's names of the columns of `given`
        given  (T,A) the animation's weights
        """
        place = {token: k for k, token in enumerate(order)}
        column = np.array([place.get(token, -1) for token in self.tokens])
        own = np.where(column >= 0, given[:, column], 0.0) if given.shape[1] else None
        result = np.zeros((len(given), len(self.found)), np.float32)
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
    found = PartShapes(tuple(map(str, tokens)), query, [], [])
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
        with of_file(where):
            checks.same_count(len(offsets), len(indices), "offsets", f"shape {name!r}", "it")
            indices = checks.index(indices, f"pointIndices of shape {name!r}", point_count)
            checks.finite(offsets, f"offsets of shape {name!r}")
        key = (skeleton, token, label, tuple(sorted(knots.get(shape, []))))
        label = f"{name}:{label}" if label else name
        found.found.append(PartShape(key, label, indices, offsets))
        found.subs.append(sub)
    return found
