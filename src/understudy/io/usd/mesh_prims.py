"""One `Mesh` prim per part: polygons, UVs, normals, materials, skin weights and blend shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pxr import Gf, Sdf, UsdGeom, UsdShade, UsdSkel, Vt

from understudy.core.character import Character
from understudy.geometry.skinning import largest_first
from understudy.io.mesh_objects import MeshObject
from understudy.io.numbers import UVS
from understudy.io.usd.prim_names import identifiers, keep_name

VERTEX_PRIMVAR = "understudy:vertex"
POLYGON_PRIMVAR = "understudy:polygon"


@dataclass(frozen=True, eq=False)
class MeshWriter:
    """Writes the objects of a character as `Mesh` prims.

    stage      with the layer to write to as edit target
    character  that they are part of
    offset     (3,) subtracted from all positions
    skeleton   path of the skeleton that moves them, or None: no skin is written
    materials  `UsdShade.Material`s, in the order of the mesh's materials
    tokens     the name of each blend shape in USD
    """

    stage: Any
    character: Character
    offset: np.ndarray
    skeleton: str | None
    materials: Sequence[Any]
    tokens: Sequence[str]

    def write(self, found: MeshObject, path: str, first: bool) -> Any:
        """Write one object; return its `UsdGeom.Mesh`.

        first  whether it is the first one, which also has the blend shapes that move nothing
        """
        mesh = self.character.mesh
        prim = UsdGeom.Mesh.Define(self.stage, path)
        keep_name(prim.GetPrim(), found.name or self.character.name)
        if not found.name:
            prim.GetPrim().SetCustomDataByKey("understudy:part", False)
        points = (mesh.vertices[found.vertices] - self.offset).astype(np.float32)
        prim.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(points))
        box = np.stack([points.min(axis=0), points.max(axis=0)])
        prim.CreateExtentAttr(Vt.Vec3fArray.FromNumpy(box))
        prim.CreateFaceVertexCountsAttr(_ints(mesh.polygon_sizes[found.polygons]))
        local = np.zeros(mesh.vertex_count, np.int32)
        local[found.vertices] = np.arange(len(found.vertices))
        corners = local[mesh.polygon_vertices[found.corners]]
        prim.CreateFaceVertexIndicesAttr(_ints(corners))
        prim.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
        used = found.polygons if mesh.polygon_material is None else mesh.polygon_material
        numbers = np.unique(used[found.polygons]) if mesh.polygon_material is not None else [0]
        looks = [mesh.looks.get(mesh.materials[k]) for k in numbers if k < len(mesh.materials)]
        prim.CreateDoubleSidedAttr(any(look is not None and look.double_sided for look in looks))
        if mesh.handedness == "left":
            prim.CreateOrientationAttr(UsdGeom.Tokens.leftHanded)
        if mesh.corner_normals is not None:
            normals = np.ascontiguousarray(mesh.corner_normals[found.corners])
            prim.CreateNormalsAttr(Vt.Vec3fArray.FromNumpy(normals))
            prim.SetNormalsInterpolation(UsdGeom.Tokens.faceVarying)
        self._write_primvars(prim, found)
        self._write_subsets(prim, found, local)
        if self.skeleton is not None:
            self._write_skin(prim.GetPrim(), found)
            self._write_shapes(prim.GetPrim(), found, local, first)
        return prim

    def _write_primvars(self, prim: Any, found: MeshObject) -> None:
        """Write UVs, and where vertices and polygons are in the whole mesh."""
        mesh, primvars = self.character.mesh, UsdGeom.PrimvarsAPI(prim)
        tokens, kinds = UsdGeom.Tokens, Sdf.ValueTypeNames
        uvs = {} if mesh.corner_uvs is None else {UVS: mesh.corner_uvs}
        for name, rows in {**uvs, **mesh.corner_values}.items():
            self._write_values(primvars, name, rows[found.corners])
        if len(found.vertices) == mesh.vertex_count:
            return
        for name, where, interpolation in (
            (VERTEX_PRIMVAR, found.vertices, tokens.vertex),
            (POLYGON_PRIMVAR, found.polygons, tokens.uniform),
        ):
            primvars.CreatePrimvar(name, kinds.IntArray, interpolation).Set(_ints(where))

    def _write_values(self, primvars: Any, name: str, rows: np.ndarray) -> None:
        """Write a UV set or the first vertex colours of an object that has them."""
        place, kinds = UsdGeom.Tokens.faceVarying, Sdf.ValueTypeNames
        if not np.isfinite(rows).any():
            return
        # Polygons without are white, as if there were none.
        rows = np.where(np.isfinite(rows), rows, 1.0).astype(np.float32)
        part = lambda columns: np.ascontiguousarray(rows[:, columns])
        if name.startswith("TEXCOORD_"):
            made = primvars.CreatePrimvar(f"st{name[9:].lstrip('0')}", kinds.TexCoord2fArray, place)
            made.Set(Vt.Vec2fArray.FromNumpy(part(slice(2))))
        if name == "COLOR_0":
            made = primvars.CreatePrimvar("displayColor", kinds.Color3fArray, place)
            made.Set(Vt.Vec3fArray.FromNumpy(part(slice(3))))
            if rows.shape[1] == 4:
                made = primvars.CreatePrimvar("displayOpacity", kinds.FloatArray, place)
                made.Set(Vt.FloatArray.FromNumpy(part(3)))

    def _write_subsets(self, prim: Any, found: MeshObject, local: np.ndarray) -> None:
        """Write materials as subsets of the polygons, and other parts as subsets of the points."""
        mesh = self.character.mesh
        taken = set(self.tokens)  # blend shapes are children too
        if self.materials:
            material = mesh.polygon_material
            used = (
                np.zeros(len(found.polygons), int) if material is None else material[found.polygons]
            )
            numbers = np.unique(used).tolist()
            if len(numbers) == 1:
                UsdShade.MaterialBindingAPI.Apply(prim.GetPrim()).Bind(self.materials[numbers[0]])
                numbers = []
            for number in numbers:
                name = identifiers([mesh.materials[number]], taken)[0]
                taken.add(name)
                binding = UsdShade.MaterialBindingAPI.Apply(prim.GetPrim())
                subset = binding.CreateMaterialBindSubset(
                    name, _ints(np.flatnonzero(used == number))
                )
                UsdShade.MaterialBindingAPI.Apply(subset.GetPrim()).Bind(self.materials[number])
            if numbers:
                binding.SetMaterialBindSubsetsFamilyType(UsdGeom.Tokens.partition)
        inside = np.zeros(mesh.vertex_count, bool)
        inside[found.vertices] = True
        for name, vertices in mesh.parts.items():
            chosen = vertices[inside[vertices]]
            if name == found.name or not len(chosen):
                continue
            identifier = identifiers([name], taken)[0]
            taken.add(identifier)
            subset = UsdGeom.Subset.CreateGeomSubset(
                prim, identifier, UsdGeom.Tokens.point, _ints(local[chosen]), "part"
            )
            keep_name(subset.GetPrim(), name)

    def _write_skin(self, prim: Any, found: MeshObject) -> None:
        """Write the influences of each vertex that are not zero, the largest first."""
        skin = self.character.skin
        assert skin is not None  # there is a skeleton
        index, weight = skin.bone_index[found.vertices], skin.weight[found.vertices]
        # Dual quaternions depend on which influence comes first, so theirs keep their order.
        sort_by = -np.abs(weight) if skin.blend == "linear" else weight == 0
        index, weight = largest_first(index, weight, sort_by)
        index, width = np.where(weight != 0, index, 0), weight.shape[1]
        binding = UsdSkel.BindingAPI.Apply(prim)
        binding.CreateSkeletonRel().SetTargets([self.skeleton])
        binding.CreateGeomBindTransformAttr(Gf.Matrix4d(1))
        binding.CreateJointIndicesPrimvar(False, width).Set(_ints(index.reshape(-1)))
        weights = np.ascontiguousarray(weight.reshape(-1), np.float32)
        binding.CreateJointWeightsPrimvar(False, width).Set(Vt.FloatArray.FromNumpy(weights))
        if skin.blend == "dual_quaternion":
            binding.CreateSkinningMethodAttr(UsdSkel.Tokens.dualQuaternion)

    def _write_shapes(self, prim: Any, found: MeshObject, local: np.ndarray, first: bool) -> None:
        """Write the blend shapes that move this object."""
        inside = np.zeros(self.character.mesh.vertex_count, bool)
        inside[found.vertices] = True
        tokens, targets = [], []
        for token, shape in zip(self.tokens, self.character.shapes):
            chosen = inside[shape.vertices]
            vertices, offsets = local[shape.vertices[chosen]], shape.offsets[chosen]
            if not len(vertices):
                if len(shape.vertices) or not first:
                    continue
                # A shape needs a point: this one does not move.
                vertices, offsets = np.zeros(1, np.int32), np.zeros((1, 3), np.float32)
            path = prim.GetPath().AppendChild(token)
            written = UsdSkel.BlendShape.Define(self.stage, path)
            keep_name(written.GetPrim(), shape.name)
            written.CreateOffsetsAttr(Vt.Vec3fArray.FromNumpy(np.ascontiguousarray(offsets)))
            written.CreatePointIndicesAttr(_ints(vertices))
            tokens.append(token)
            targets.append(path)
        if tokens:
            binding = UsdSkel.BindingAPI.Apply(prim)
            binding.CreateBlendShapesAttr(tokens)
            binding.CreateBlendShapeTargetsRel().SetTargets(targets)


def _ints(values: np.ndarray) -> Any:
    """Return whole numbers as USD has them."""
    return Vt.IntArray.FromNumpy(np.ascontiguousarray(values, np.int32))
