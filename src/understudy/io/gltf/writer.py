"""Writes a `Character` as a `.glb` file that any engine plays.

- One mesh node per part, one primitive per material; a vertex is split only where UVs or normals
  differ, and at the border of parts and materials.
- One skin with all bones, 4 influences or 8 (a second set of attributes). Bones hang below one node
  with the name of the character, which glTF requires to be common to all of them.
- Blend shapes are morph targets, as sparse arrays where these are smaller.
- Every clip is an animation that starts at zero seconds, with one linear key per frame; what does
  not change has one key.
- Positions are converted to metres and Y up (`conventions`). Far from the origin, positions are
  stored relative to the middle of the mesh, which 32 bits resolve.
- What glTF has no field for is in `extras` (`own_extras`), and the vertices' numbers in the
  attribute `_VERTEX`, so that `read_gltf` returns the same character.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.character import Character, CharacterClip
from understudy.core.coordinates import Conversion
from understudy.core.materials import Material
from understudy.core.poses import unique
from understudy.geometry.skinning import sparse_to_influences, weight_matrix
from understudy.geometry.transforms import inverse
from understudy.io.gltf.glb_file import INDICES, VERTICES, GlbFile
from understudy.io.gltf.joint_motion import (
    JointMotion,
    clip_world,
    joint_motion,
    refuse_shear,
    rigid_rest,
)
from understudy.io.gltf.looks import LooksWriter
from understudy.io.gltf.own_extras import KEY, OwnExtras, polygon_runs
from understudy.io.gltf.split_vertices import (
    MeshNode,
    Primitive,
    corner_normals,
    mesh_nodes,
    morph_normals,
)
from understudy.io.gltf.surfaces import POINTS, VERTEX_ATTRIBUTE
from understudy.io.trs import PATHS
from understudy.system.errors import InputError

MAX_INFLUENCES = 8
# Whole numbers up to this are exact in 32-bit floats, which custom attributes must be.
MAX_VERTICES = 2**24
# A mesh further away than this many times its size is stored about its own middle.
_FAR = 8.0
_PLAIN = Material(metallic=0.0, roughness=0.8)
Channel = tuple[int, str, np.ndarray]  # node, property and keys


def write_glb(character: Character, path: str | Path, has_morph_normals: bool = True) -> None:
    """Write `character` as a `.glb`, whole or not at all.

    has_morph_normals  whether blend shapes change the shading too; about twice their size
    """
    if Path(path).suffix.lower() == ".gltf":
        raise InputError(f"{path}: characters are written as one binary file; name it .glb")
    _Writer(character, has_morph_normals).file().save(path)


@dataclass(frozen=True)
class _Motion:
    """The bones in glTF's coordinates.

    rest         (B,3,4) world_from_bone at rest
    rest_joints  the same, relative to parents
    clips        the motion of each clip, relative to parents
    """

    rest: np.ndarray
    rest_joints: list[JointMotion]
    clips: list[list[JointMotion]]


class _Writer:
    """Writes one character."""

    def __init__(self, character: Character, has_morph_normals: bool):
        mesh = character.mesh
        _check(character)
        self.character = character
        self.glb = GlbFile()
        self.conversion = Conversion.mesh_to_gltf(mesh)
        positions = self.conversion.points(mesh.vertices.astype(np.float64))
        low, high = positions.min(axis=0), positions.max(axis=0)
        self.size = float(np.linalg.norm(high - low)) or 1.0
        middle = ((low + high) / 2).astype(np.float32).astype(np.float64)
        is_far = np.abs(middle).max() > _FAR * self.size
        self.origin = middle if is_far else np.zeros(3)
        self.positions = (positions - self.origin).astype(np.float32) + np.float32(0)
        taken = dict.fromkeys(mesh.parts, 1)
        self.rest_name = unique(character.name or "mesh", taken)
        self.nodes, self.primitive_of_polygon = mesh_nodes(mesh, self.rest_name)
        # Where each shape is listed among the morph targets of each part.
        self.targets = [self._targets_of(number, node) for number, node in enumerate(self.nodes)]
        has_normals = has_morph_normals and bool(character.shapes)
        self.normal_changes = self._normal_changes() if has_normals else {}

    def file(self) -> GlbFile:
        """Return the file."""
        character, glb = self.character, self.glb
        scene: list[int] = []
        joints: list[int] = []
        motion, skin, influences = None, None, None
        if character.skeleton is not None:
            motion = self._motion()
            joints = self._joint_nodes(motion.rest_joints)
            roots = [joints[b] for b in character.skeleton.roots.tolist()]
            scene.append(glb.add("nodes", {"name": character.name, "children": roots}))
            skin = self._skin(joints, motion.rest)
            influences = _influences(character)
        slots = self._materials()
        parts = [
            self._mesh_node(node, shapes, slots, influences, skin)
            for node, shapes in zip(self.nodes, self.targets)
        ]
        for number, clip in enumerate(character.clips):
            channels = [] if motion is None else _bone_channels(joints, motion, number)
            channels += self._weight_channels(parts, clip)
            # Nothing may be able to move, but the clip has a name and a length.
            still = (parts[0], "translation", self.origin[None])
            glb.add("animations", self._animation(clip, channels or [still]))
        glb.add("scenes", {"nodes": [*scene, *parts]})
        glb.fields["scene"] = 0
        glb.fields["extras"] = self._extras().json()
        return glb

    def _normal_changes(self) -> dict[int, np.ndarray]:
        """Return the changes of the normals by all blend shapes, (S,n,3), by id of primitive."""
        primitives = [primitive for node in self.nodes for primitive in node.primitives]
        corners = np.concatenate([primitive.corners for primitive in primitives])
        mesh = self.character.mesh
        changes = morph_normals(self.character, corner_normals(mesh), corners)
        ends = np.cumsum([len(primitive.corners) for primitive in primitives])
        parts = np.split(changes, ends[:-1], axis=1)
        return {id(primitive): part for primitive, part in zip(primitives, parts)}

    def _motion(self) -> _Motion:
        """Return the bones in glTF's coordinates, relative to their parents.

        If they shear, bones with rest transforms without scale are tried: skinning depends on the
        change since the rest pose alone.
        """
        skeleton, clips = self.character.skeleton, self.character.clips
        assert skeleton is not None
        old = skeleton.world_from_bone
        errors = []
        for rest in (old, rigid_rest(old)):
            worlds = [rest[None]]
            worlds += [
                clip.world_from_bone if rest is old else clip_world(clip, old, rest)
                for clip in clips
            ]
            found, sheared = [], []
            for name, world in zip(("", *(clip.name for clip in clips)), worlds):
                converted = self.conversion.bones(world)
                moved, shear = joint_motion(skeleton.parents, converted, self.size, name)
                found.append(moved)
                sheared += [] if shear is None else [shear]
            if not sheared:
                return _Motion(self.conversion.bones(rest), found[0], found[1:])
            errors.append(max(sheared, key=lambda error: error.amount))
        raise refuse_shear(min(errors, key=lambda error: error.amount), skeleton.names)

    def _joint_nodes(self, rest: list[JointMotion]) -> list[int]:
        """Return the nodes of the bones, posed at rest."""
        skeleton = self.character.skeleton
        assert skeleton is not None
        result = []
        for name, pose in zip(skeleton.names, rest):
            entry: dict[str, Any] = {"name": name}
            for key, values, nothing in zip(PATHS, pose, ([0, 0, 0], [0, 0, 0, 1], [1, 1, 1])):
                if values[0].tolist() != nothing:
                    entry[key] = values[0].tolist()
            result.append(self.glb.add("nodes", entry))
        for bone, parent in enumerate(skeleton.parents.tolist()):
            if parent >= 0:
                above = self.glb.lists["nodes"][result[parent]]
                above.setdefault("children", []).append(result[bone])
        return result

    def _skin(self, joints: list[int], rest: np.ndarray) -> int:
        """Return the skin of bones whose rest transforms are (B,3,4)."""
        about_origin = rest.copy()
        about_origin[:, :, 3] -= self.origin
        matrices = np.zeros((len(joints), 4, 4), np.float32)
        matrices[:, :3] = inverse(about_origin)
        matrices[:, 3, 3] = 1
        columns = np.ascontiguousarray(matrices.transpose(0, 2, 1)).reshape(-1, 16) + np.float32(0)
        entry = {"joints": joints, "inverseBindMatrices": self.glb.accessor(columns)}
        return self.glb.add("skins", entry)

    def _materials(self) -> dict[int, int]:
        """Return the material of the file for each material of the mesh that has polygons.

        A mesh without materials gets one: the default of glTF is a mirror, which looks black.
        """
        used = sorted({p.material for node in self.nodes for p in node.primitives})
        mesh, writer = self.character.mesh, LooksWriter(self.glb)
        names = mesh.materials or ("default",)
        look = lambda name: mesh.looks.get(name, _PLAIN)
        return {slot: writer.add(names[slot], look(names[slot])) for slot in used}

    def _targets_of(self, number: int, node: MeshNode) -> list[int]:
        """Return the blend shapes that move a part; the first part also gets those that move
        nothing, so that every shape is in the file.
        """
        inside = np.zeros(self.character.mesh.vertex_count, bool)
        inside[node.vertices] = True
        return [
            s
            for s, shape in enumerate(self.character.shapes)
            if inside[shape.vertices].any() or (number == 0 and not len(shape.vertices))
        ]

    def _mesh_node(
        self,
        node: MeshNode,
        shapes: list[int],
        slots: dict[int, int],
        influences: tuple[np.ndarray, np.ndarray] | None,
        skin: int | None,
    ) -> int:
        """Return the node of one part.

        shapes      the blend shapes that it has as morph targets
        slots       material of the file for each material of the mesh
        influences  joints (V,4n) and weights (V,4n)
        """
        primitives = []
        for primitive in node.primitives:
            entry = self._primitive(primitive, influences)
            entry["material"] = slots[primitive.material]
            if shapes:
                entry["targets"] = [self._target(primitive, shape) for shape in shapes]
            primitives.append(entry)
        mesh: dict[str, Any] = {"name": node.name, "primitives": primitives}
        if shapes:
            mesh["weights"] = [0.0] * len(shapes)
            mesh["extras"] = {"targetNames": [self.character.shapes[s].name for s in shapes]}
        result: dict[str, Any] = {"name": node.name, "mesh": self.glb.add("meshes", mesh)}
        if skin is not None:
            result["skin"] = skin
        elif self.origin.any():
            result["translation"] = self.origin.tolist()
        return self.glb.add("nodes", result)

    def _primitive(
        self, primitive: Primitive, influences: tuple[np.ndarray, np.ndarray] | None
    ) -> dict[str, Any]:
        """Return a primitive with its attributes."""
        glb, rows = self.glb, primitive.vertices
        attributes = {
            "POSITION": glb.accessor(self.positions[rows], VERTICES, bounds=True),
            "NORMAL": glb.accessor(primitive.normals, VERTICES),
        }
        for name, values in primitive.values.items():
            attributes[name] = glb.accessor(values, VERTICES)
        if influences is not None:
            joints, weights = (array[rows] for array in influences)
            for group in range(joints.shape[1] // 4):
                columns = slice(4 * group, 4 * group + 4)
                attributes[f"JOINTS_{group}"] = glb.accessor(joints[:, columns], VERTICES)
                attributes[f"WEIGHTS_{group}"] = glb.accessor(weights[:, columns], VERTICES)
        attributes[VERTEX_ATTRIBUTE] = glb.accessor(rows.astype(np.float32), VERTICES)
        entry: dict[str, Any] = {"attributes": attributes}
        if len(primitive.triangles):
            # The highest number of a type restarts a strip, so it is not used.
            kind = np.uint16 if len(rows) < 2**16 else np.uint32
            flat = primitive.triangles.reshape(-1).astype(kind)
            entry["indices"] = glb.accessor(flat, INDICES)
        else:
            entry["mode"] = POINTS
        return entry

    def _target(self, primitive: Primitive, number: int) -> dict[str, int]:
        """Return a blend shape as a morph target of a primitive."""
        shape = self.character.shapes[number]
        at = np.searchsorted(shape.vertices, primitive.vertices)
        hit = at < len(shape.vertices)
        hit[hit] = shape.vertices[at[hit]] == primitive.vertices[hit]
        rows = np.flatnonzero(hit)
        offsets = self.conversion.points(shape.offsets[at[rows]].astype(np.float64))
        target = {"POSITION": self._changes(len(at), rows, offsets)}
        changes = self.normal_changes.get(id(primitive))
        if changes is not None:
            turned = self.conversion.normals(changes[number].astype(np.float64))
            target["NORMAL"] = self._changes(len(at), np.arange(len(at)), turned)
        return target

    def _changes(self, count: int, rows: np.ndarray, changes: np.ndarray) -> int:
        """Return the accessor of changes (n,3) of some rows of an attribute of `count` rows."""
        changes = changes.astype(np.float32) + np.float32(0)
        moved = changes.any(axis=1)
        rows, changes = rows[moved], changes[moved]
        if not len(rows):  # a sparse array has at least one row
            rows, changes = np.zeros(1, np.int64), np.zeros((1, 3), np.float32)
        if 16 * len(rows) < 12 * count:
            return self.glb.sparse_accessor(count, rows, changes)
        dense = np.zeros((count, 3), np.float32)
        dense[rows] = changes
        return self.glb.accessor(dense, VERTICES, bounds=True)

    def _weight_channels(self, parts: list[int], clip: CharacterClip) -> list[Channel]:
        """Return the morph weights of each part."""
        channels = []
        for node, shapes in zip(parts, self.targets):
            if shapes:
                weights = clip.shape_weights[:, shapes]
                still = bool((weights == weights[:1]).all())
                channels.append((node, "weights", weights[:1] if still else weights))
        return channels

    def _animation(self, clip: CharacterClip, channels: list[Channel]) -> dict[str, Any]:
        """Return an animation; its channels have one key, or one per frame."""
        frames = clip.frame_count
        if frames > 1 and all(len(values) == 1 for _, _, values in channels):
            node, path, values = channels[0]  # a second key at the end, for the length
            channels = [(node, path, np.repeat(values, 2, axis=0)), *channels[1:]]
        times = (np.arange(frames) / clip.frame_rate).astype(np.float32)
        inputs: dict[int, int] = {}
        samplers: list[dict[str, Any]] = []
        targets: list[dict[str, Any]] = []
        for node, path, values in channels:
            count = len(values)
            if count not in inputs:
                keys = times if count == frames else times[[0, -1]] if count == 2 else times[:1]
                inputs[count] = self.glb.accessor(keys, bounds=True)
            flat = values.reshape(-1) if path == "weights" else values
            output = self.glb.accessor(np.ascontiguousarray(flat, np.float32))
            targets.append({"sampler": len(samplers), "target": {"node": node, "path": path}})
            samplers.append({"input": inputs[count], "output": output})
        about = {name: getattr(clip, name) for name in ("frame_rate", "start_frame", "frame_count")}
        extras = {KEY: about}
        return {"name": clip.name, "channels": targets, "samplers": samplers, "extras": extras}

    def _extras(self) -> OwnExtras:
        """Return what our reader needs and glTF has no field for."""
        mesh = self.character.mesh
        stored = {node.name: node.vertices for node in self.nodes}
        rows = {name: np.unique(vertices) for name, vertices in mesh.parts.items()}
        differ = {
            name: vertices
            for name, vertices in rows.items()
            if not np.array_equal(stored.get(name, []), vertices)
        }
        return OwnExtras(
            name=self.character.name,
            unit=mesh.unit,
            up_axis=mesh.up_axis,
            handedness=mesh.handedness,
            origin=self.origin,
            vertex_count=mesh.vertex_count,
            has_normals=mesh.corner_normals is not None,
            has_materials=bool(mesh.materials),
            materials=mesh.materials,
            shapes=tuple(shape.name for shape in self.character.shapes),
            part_order=tuple(mesh.parts),
            parts=differ,
            not_parts=frozenset({self.rest_name}),
            polygons=polygon_runs(mesh, self.primitive_of_polygon),
        )


def _bone_channels(joints: list[int], motion: _Motion, clip: int) -> list[Channel]:
    """Return what moves bones in a clip."""
    channels: list[Channel] = []
    for node, moved, rest in zip(joints, motion.clips[clip], motion.rest_joints):
        channels.append((node, "translation", moved.translation))
        channels.append((node, "rotation", moved.rotation))
        if len(moved.scale) > 1 or not np.array_equal(moved.scale, rest.scale):
            channels.append((node, "scale", moved.scale))
    return channels


def _check(character: Character) -> None:
    """Raise where glTF cannot hold a character."""
    mesh, skin = character.mesh, character.skin
    if mesh.vertex_count > MAX_VERTICES:
        raise InputError(
            f"mesh: {mesh.vertex_count:,} vertices, at most {MAX_VERTICES:,} can be written; "
            "write its parts as separate characters"
        )
    cached = [clip.name for clip in character.clips if clip.vertices is not None]
    if cached:
        raise InputError(
            f"clip {cached[0]!r} is a point cache, which glTF cannot hold; fit a deformer to it "
            "and export that, or write .usd or .abc"
        )
    if skin is not None and skin.blend != "linear":
        raise InputError(
            "skin: glTF blends linearly, this skin blends dual quaternions; fit a linear skin "
            "first, as understudy.export does"
        )
    if character.bone_count > 2**16:
        raise InputError(f"skeleton: {character.bone_count:,} bones, glTF can address 65,536")


def _influences(character: Character) -> tuple[np.ndarray, np.ndarray]:
    """Return joints (V,4n) and float32 weights (V,4n) of a skin, the largest weight first.

    A bone is listed once per vertex, weights sum to one, and joints without weight are 0, all of
    which glTF requires.
    """
    skin = character.skin
    assert skin is not None
    if (skin.weight < 0).any():
        low = float(skin.weight.min())
        rows = int((skin.weight < 0).any(axis=1).sum())
        raise InputError(
            f"skin: {rows:,} vertices have negative weights (down to {low:.3g}), which glTF does "
            "not allow; fit the weights again first, as understudy.export does"
        )
    weight64 = skin.weight.astype(np.float64)
    # A copy: the matrix shares its indices with the skin, and they are sorted next.
    matrix = weight_matrix(skin.bone_index, weight64, character.bone_count).copy()
    joint, weight = sparse_to_influences(matrix)
    most = weight.shape[1]
    if most > MAX_INFLUENCES:
        rows = int((weight[:, MAX_INFLUENCES] != 0).sum())
        raise InputError(
            f"skin: {rows:,} vertices have more than {MAX_INFLUENCES} influences (up to {most}); "
            "fit the weights again with 4 or 8 influences first, as understudy.export does"
        )
    padding = ((0, 0), (0, (4 if most <= 4 else 8) - most))
    weight, joint = np.pad(weight, padding), np.pad(joint, padding)
    narrow = (weight / weight.sum(axis=1, keepdims=True)).astype(np.float32)
    joint[narrow == 0] = 0
    kind = np.uint8 if character.bone_count <= 2**8 else np.uint16
    return joint.astype(kind), narrow
