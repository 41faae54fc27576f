"""`Mesh`: the surface at rest, with all that exporters need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.core.noun import Noun, read_only
from understudy.geometry.adjacency import fans, polygon_edges
from understudy.system import checks
from understudy.system.errors import InputError

if TYPE_CHECKING:
    from understudy.core.materials import Material

UNITS = ("m", "cm", "mm", "in", "ft", "unitless")
UP_AXES = ("Y", "Z")
HANDEDNESS = ("right", "left")
_POLYGONS = ("polygon_sizes", "polygon_vertices")
_LOOKS = ("corner_uvs", "corner_values", "materials", "polygon_material", "looks")
_KINDS = {"COLOR_": "vertex colours"}


@dataclass(frozen=True, eq=False, repr=False)
class Mesh(Noun):
    """A polygon mesh at rest.

    vertices          (V,3) float32, in `unit`
    polygon_sizes     (F,) int32, the corners of each polygon (3, 4, ...)
    polygon_vertices  (N,) int32, the vertex of each corner, polygon after polygon
    corner_uvs        (N,2) float32 or None
    corner_normals    (N,3) float32 or None
    materials         names
    polygon_material  (F,) int32, indices into `materials`, or None: one material
    parts             name -> (n,) int32, vertices (body, eyes, teeth, ...)
    unit              one of `UNITS`
    up_axis           "Y", "Z" or "unknown"
    handedness        "right" or "left"
    looks             name of a material -> what it looks like; a name without is a name only
    corner_values     further values of the corners, (N,n) float32: "TEXCOORD_1" (a second UV set),
                      "COLOR_0", "TANGENT" (x, y, z and the sign of the bitangent) and "_ANYTHING",
                      as glTF calls them; NaN where a polygon has none

    >>> square = Mesh(np.eye(4, 3), polygon_sizes=[4], polygon_vertices=[0, 1, 2, 3])
    >>> square.triangles.tolist()
    [[0, 1, 2], [0, 2, 3]]
    """

    vertices: np.ndarray
    polygon_sizes: np.ndarray
    polygon_vertices: np.ndarray
    corner_uvs: np.ndarray | None = None
    corner_normals: np.ndarray | None = None
    materials: tuple[str, ...] = ()
    polygon_material: np.ndarray | None = None
    parts: Mapping[str, np.ndarray] = field(default_factory=dict)
    unit: str = "unitless"
    up_axis: str = "Y"
    handedness: str = "right"
    looks: Mapping[str, Material] = field(default_factory=dict)
    corner_values: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self):
        put = self._keep
        put("vertices", checks.array(self.vertices, "mesh vertices", (None, 3)))
        if not len(self.vertices):
            raise InputError("mesh vertices: the mesh is empty; there is nothing to deform")
        sizes = checks.index(self.polygon_sizes, "polygon_sizes", 2**31)
        if sizes.size and sizes.min() < 3:
            raise InputError(
                f"polygon_sizes: polygon {int(sizes.argmin())} has {int(sizes.min())} corners, "
                f"expected at least 3"
            )
        put("polygon_sizes", sizes)
        corners = int(sizes.sum())
        count = len(self.vertices)
        at = checks.index(self.polygon_vertices, "polygon_vertices", count, (corners,))
        put("polygon_vertices", at)
        for name, width in (("corner_uvs", 2), ("corner_normals", 3)):
            if getattr(self, name) is not None:
                put(name, checks.array(getattr(self, name), name, (corners, width)))
        put("materials", checks.names(self.materials, "materials"))
        if self.polygon_material is not None:
            most, shape = max(1, len(self.materials)), (len(sizes),)
            material = checks.index(self.polygon_material, "polygon_material", most, shape)
            put("polygon_material", material)
        parts = dict(self.parts).items()
        put("parts", {str(k): checks.index(v, f"part {k!r}", count) for k, v in parts})
        put("looks", {name: self.looks[name] for name in self.materials if name in self.looks})
        values = dict(self.corner_values).items()
        put("corner_values", {k: checks.array_of(v, k, (corners, None)) for k, v in values})
        checks.one_of(self.unit, "unit", UNITS)
        checks.one_of(self.up_axis, "up axis", (*UP_AXES, "unknown"))
        checks.one_of(self.handedness, "handedness", HANDEDNESS)

    @staticmethod
    def from_faces(vertices: Any, faces: Any, **rest: Any) -> Mesh:
        """Return a mesh whose polygons all have the same number of corners.

        vertices  (V,3)
        faces     (F,3) or (F,4), vertex indices
        rest      other fields of the mesh
        """
        faces = np.asarray(faces)
        if faces.ndim != 2:
            raise InputError(f"faces: expected shape (F, corners), got {faces.shape}")
        return Mesh(
            vertices,
            polygon_sizes=np.full(len(faces), faces.shape[1]),
            polygon_vertices=faces.reshape(-1),
            **rest,
        )

    def dressed(self, source: Mesh) -> Mesh:
        """Return the mesh with the materials that `source` has by the same names.

        With the same polygons, UVs and further values of the corners are those of `source` too.
        """
        looks = {**self.looks, **source.looks}
        same = [np.array_equal(getattr(self, n), getattr(source, n)) for n in _POLYGONS]
        if not all(same):
            return replace(self, looks=looks)
        names = _LOOKS if source.materials else ("corner_uvs", "corner_values")
        given = {name: getattr(source, name) for name in names}
        return replace(self, **{n: v for n, v in given.items() if v is not None})

    def dress(self) -> dict[str, list[str]]:
        """Return the names of what no deformation needs, by kind; empty kinds are left out."""
        looks = self.looks.values()
        images = {i.name or "without a name": None for made in looks for i in made.images()}
        extensions = {name: None for made in looks for name in made.extensions}
        kind = lambda n: "UV sets" if n[:9] == "TEXCOORD_" else _KINDS.get(n[:6], "attributes")
        found = {"materials": list(self.looks), "images": list(images)}
        found["extensions of materials"] = list(extensions)
        for name in self.corner_values:
            found.setdefault(kind(name), []).append(name)
        return {what: names for what, names in found.items() if names}

    @property
    def vertex_count(self) -> int:
        """V."""
        return len(self.vertices)

    @property
    def up(self) -> str:
        """The axis to take for up: `up_axis`, or "Y" where that is unknown."""
        return "Y" if self.up_axis == "unknown" else self.up_axis

    @cached_property
    def height(self) -> float:
        """Extent along `up`, in `unit`; the longest side if that extent is zero."""
        extent = np.ptp(self.vertices, axis=0)
        up = float(extent["XYZ".index(self.up)])
        return up if up > 0 else float(extent.max()) or 1.0

    @property
    def size_label(self) -> str:
        """What reports call `height`: "height", or "extent along Y" where up is unknown."""
        return "extent along Y" if self.up_axis == "unknown" else "height"

    @cached_property
    def triangles(self) -> np.ndarray:
        """The polygons as triangles, (M,3) int32: a fan from each polygon's first corner."""
        return read_only(self.polygon_vertices[fans(self.polygon_sizes)].astype(np.int32))

    @cached_property
    def edges(self) -> np.ndarray:
        """The edges of the polygons, (E,2) int32, each once, its lower vertex first."""
        return read_only(polygon_edges(self.polygon_sizes, self.polygon_vertices))
