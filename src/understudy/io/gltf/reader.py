"""Reads a `.gltf` or `.glb` file as a `Character`.

- Every node with a mesh is one part of the mesh, by the node's name.
- Joints are bones. A mesh without a skin follows its node, rigidly; the node is a bone if anything
  in the file moves.
- Morph targets are blend shapes, applied before the skin.
- Every animation is a clip, sampled at the frame rate of its keys. A file without animation that
  does not show its bind pose gets one clip of one frame, `default`.
- Materials are read with their textures and extensions (`looks`); UV sets, vertex colours and
  attributes of any name stay with the corners of polygons.
- Cameras, lights and extensions that change something else are named in the notes.

UVs have their origin at the bottom left, as in OBJ and USD; glTF has it at the top left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from understudy.core.character import BlendShape, Character, CharacterClip
from understudy.core.coordinates import Conversion
from understudy.core.materials import Material
from understudy.core.mesh import Mesh
from understudy.core.poses import unique
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.skinning import largest_first
from understudy.geometry.transforms import compose
from understudy.io.format import AS_IT_IS, ReadOptions
from understudy.io.gltf.accessors import Accessors, Sparse
from understudy.io.gltf.assembly import (
    EditedError,
    Part,
    Target,
    blend_shapes,
    corners_of,
    material_names,
    polygons_of,
    target_names,
)
from understudy.io.gltf.binding import Bones, placed
from understudy.io.gltf.container import CARRIED, INSTANCES, Document, read_document
from understudy.io.gltf.document import Entry
from understudy.io.gltf.looks import LooksReader
from understudy.io.gltf.motion import (
    Animation,
    SampledAnimation,
    read_animations,
    sample,
    with_ancestors,
)
from understudy.io.gltf.own_extras import own_extras
from understudy.io.gltf.scene import Scene
from understudy.io.gltf.surfaces import Surface, read_surface, target_count, welded
from understudy.io.numbers import uvs_of
from understudy.io.trs import PATHS, compose_trs
from understudy.system import checks
from understudy.system.errors import FileError, InputError
from understudy.system.progress import SILENT, Progress

_PART, _TARGET, _CURVE = 16_000, 8000, 200  # bytes


class _ChoiceError(InputError):
    """The caller asks for a clip or mesh that the file does not have."""


def read_gltf(
    path: str | Path, options: ReadOptions = AS_IT_IS, progress: Progress = SILENT
) -> Character:
    """Return the character of a file.

    options  `clips`, `meshes` and `frame_rate` say what to read
    """
    document = read_document(path)
    return _read(document, Path(path), options)


def _read(document: Document, path: Path, options: ReadOptions) -> Character:
    """Return the character of a document; what its nouns refuse becomes a `FileError`."""
    try:
        reader = _Reader(document, options)
        if reader.own is not None:
            try:
                return reader.character(path.stem)
            except EditedError:
                reader = _Reader(document, options)
                reader.own = None
        return reader.character(path.stem)
    except _ChoiceError:
        raise
    except InputError as problem:
        # The nouns check what they are given; here it came from the file.
        raise FileError(f"{path}: cannot be read as a character: {problem}") from problem
    except MemoryError:
        raise FileError(f"{path}: there is not enough memory to read it") from None


class _Reader:
    """Reads one document."""

    def __init__(self, document: Document, options: ReadOptions):
        self.root = document.root
        self.options = options
        self.accessors = Accessors(document)
        self.budget = self.accessors.budget
        self.own = own_extras(self.root, self.budget)
        self.scene = Scene(self.root, self.budget)
        self.meshes = self.root.entries("meshes")
        self.skins = self.root.entries("skins")
        self.materials = self.root.entries("materials")
        self.looks = LooksReader(self.accessors)
        self._surfaces: dict[int, Surface | None] = {}
        self._bindings: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def character(self, name: str) -> Character:
        """Return the character; `name` is for a file that has none."""
        animations = self._animations()
        nodes = self._mesh_nodes()
        # Our writer moves joints alone; a key on another node only gives a clip its length.
        tracks = [] if self.own else [track for a in animations for track in a.tracks]
        moving = {track.node for track in tracks if track.path != "weights"}
        bones = Bones(self.scene, moving)
        parts = self._parts(nodes, bones, moving)
        order = bones.order()
        carriers = {bones.bones[bone].node for bone in order}
        needed, rate = with_ancestors(self.scene, carriers), self.options.frame_rate
        sampled = [sample(a, self.scene, needed, carriers, rate, self.budget) for a in animations]
        vertex_map = self._vertex_map(parts)
        shapes, curves = self._shapes(parts, vertex_map, sampled)
        mesh, first = self._mesh(parts, vertex_map)
        skeleton, skin = self._skeleton(bones, order), self._skin(parts, order, first)
        moved = [self._bone_motion(bones, order, a) for a in sampled]
        clips = []
        for k, (a, world) in enumerate(zip(sampled, moved)):
            self.budget.take(a.frames.count * len(curves) * 16, f"animation {a.name!r}")
            weights, frames = _weights(curves, k, a.frames.count), a.frames
            clips.append(
                CharacterClip(a.name, world, weights, frames.frame_rate, frames.start_frame)
            )
        notes = (*self.looks.notes, *_not_read(self.root))
        made = Character(mesh, skeleton, skin, tuple(shapes), tuple(clips), name, notes)
        if not self.root.entries("animations"):
            made = self._with_default_pose(made, bones, order, curves)
        return self._converted(made)

    def _animations(self) -> list[Animation]:
        """Return the animations to read."""
        wanted = self.options.clips
        known: list[str] = []

        def is_wanted(name: str) -> bool:
            known.append(name)
            return not wanted or name in wanted

        counts: dict[int, int] = {}

        def targets(node: int) -> int:
            entry = self.scene.entries[node]
            if not entry.has("mesh"):
                return 0
            mesh = entry.integer("mesh", below=len(self.meshes))
            if mesh not in counts:
                counts[mesh] = target_count(self.meshes[mesh])
            return counts[mesh]

        result = read_animations(
            self.root, self.accessors, len(self.scene.entries), targets, is_wanted
        )
        self._check_choice(wanted, "clip", known)
        return result

    def _check_choice(self, chosen: Sequence[str], what: str, known: list[str]) -> None:
        """Raise if a name that was asked for is not in the file."""
        for name in chosen:
            try:
                checks.one_of(name, what, known)
            except InputError as problem:
                raise _ChoiceError(f"{self.root.where}: {problem}") from None

    def _mesh_nodes(self) -> list[tuple[str, int, int]]:
        """Return name, node and mesh of each part to read."""
        taken: dict[str, int] = {}
        result = []
        for node in self.scene.shown:
            entry = self.scene.entries[node]
            if not entry.has("mesh"):
                continue
            mesh = entry.integer("mesh", below=len(self.meshes))
            named = self.scene.name(node) or self.meshes[mesh].text("name").strip()
            result.append((unique(named or f"mesh_{mesh}", taken), node, mesh))
        if self.options.meshes:
            self._check_choice(self.options.meshes, "mesh", [name for name, _, _ in result])
            result = [part for part in result if part[0] in self.options.meshes]
        return result

    def _surface(self, mesh: int) -> Surface | None:
        """Return a mesh, welded; None if it has no surface."""
        if mesh not in self._surfaces:
            own = self.own is not None
            found = read_surface(self.meshes[mesh], self.accessors, len(self.materials), own)
            if found is not None and own and found.own_vertex is None:
                raise EditedError
            self._surfaces[mesh] = found if found is None or own else welded(found)
        return self._surfaces[mesh]

    def _parts(
        self, nodes: list[tuple[str, int, int]], bones: Bones, moving: set[int]
    ) -> list[Part]:
        """Return the parts; bones are added as they need them."""
        parts = []
        taken = dict.fromkeys((name for name, _, _ in nodes), 1)
        for name, node, mesh in nodes:
            surface = self._surface(mesh)
            if surface is None:
                continue
            # Instances of a mesh share it in the file; here each becomes vertices.
            more = sum(48 * values.shape[-1] for values in surface.corner_values.values())
            size = 200 * len(surface.positions) + (600 + more) * len(surface.triangles)
            for number, place in enumerate(self._instances(node, _PART + size)):
                own = unique(name, taken) if number else name
                parts.append(Part(own, node, mesh, surface, self.scene.globals[node], place))
        if not parts:
            raise FileError(f"{self.root.where}: it has no mesh with triangles")
        is_skinned = lambda part: self.scene.entries[part.node].has("skin")
        for part in filter(is_skinned, parts):
            self._binding(part.node, bones)
        if not bones.bones and not self._any_moves(parts, moving):
            return [replace(p, placement=compose(p.placement, p.instance)) for p in parts]
        return [self._skinned(p, bones) if is_skinned(p) else _rigid(p, bones) for p in parts]

    def _instances(self, node: int, size: int) -> np.ndarray:
        """Return where a node shows its mesh, (n,3,4) in its own space: once, or as instances.

        size  bytes that each needs
        """
        extensions = self.scene.entries[node].entry("extensions")
        found = None if extensions is None else extensions.entry(INSTANCES)
        given = None if found is None else found.entry("attributes")
        if given is None:
            self.budget.take(size, "meshes")
            return np.eye(3, 4)[None]
        kinds = (("VEC3", [0.0, 0, 0]), ("VEC4", [0.0, 0, 0, 1]), ("VEC3", [1.0, 1, 1]))
        trs = [
            self.accessors.floats(given, key.upper(), kind) if given.has(key.upper()) else None
            for key, (kind, _) in zip(PATHS, kinds)
        ]
        count = max((len(values) for values in trs if values is not None), default=0)
        self.budget.take(count * size, "instances")
        whole = [np.tile(rest, (count, 1)) if v is None else v for v, (_, rest) in zip(trs, kinds)]
        if any(len(values) != count for values in whole):
            raise FileError(f"{given.where}: its attributes have different numbers of instances")
        return compose_trs(*whole)

    def _any_moves(self, parts: list[Part], moving: set[int]) -> bool:
        """Return whether an animation moves the node of one of the parts."""
        moved = set(moving)
        for node in self.scene.order:
            if self.scene.parents[node] in moved:
                moved.add(node)
        return any(part.node in moved for part in parts)

    def _binding(self, node: int, bones: Bones) -> tuple[np.ndarray, np.ndarray]:
        """Return the bones of the joints of a node's skin, and where it places vertices."""
        number = self.scene.entries[node].integer("skin", below=len(self.skins))
        if number not in self._bindings:
            placement = None
            if self.own is not None:
                placement = np.concatenate([np.eye(3), self.own.origin[:, None]], axis=1)
            self._bindings[number] = bones.add_skin(self.skins[number], self.accessors, placement)
        return self._bindings[number]

    def _skinned(self, part: Part, bones: Bones) -> Part:
        """Return a part with its skin."""
        surface, (of_joint, placement) = part.surface, self._binding(part.node, bones)
        where = f"{self.root.where}: mesh {part.name!r}"
        if surface.joints is None or surface.weights is None:
            raise FileError(f"{where}: its node has a skin, but it has no JOINTS_0 and WEIGHTS_0")
        weight, joints = surface.weights, surface.joints
        if (weight < 0).any() or weight.max(initial=0) > 1e6:
            raise FileError(f"{where}: WEIGHTS_ has negative or huge numbers")
        used = weight > 0
        if (joints[used] >= len(of_joint)).any():
            wrong = int(joints[used].max())
            raise FileError(f"{where}: JOINTS_ refers to joint {wrong} of {len(of_joint)}")
        # As renderers do: a vertex without weights follows its first joint.
        total = weight.sum(axis=1, keepdims=True)
        weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
        weight[total[:, 0] <= 0, 0] = 1.0
        index = of_joint[np.where(joints < len(of_joint), joints, 0)]
        index, weight = largest_first(index, weight)
        index = np.where(weight > 0, index, index[:, :1])
        return replace(part, placement=placement, bone_index=index, weight=weight)

    def _vertex_map(self, parts: list[Part]) -> list[np.ndarray]:
        """Return for each part the vertex of the character that each of its vertices is."""
        counts = [len(part.surface.positions) for part in parts]
        starts = np.concatenate([[0], np.cumsum(counts)])
        if self.own is None:
            return [np.arange(a, b) for a, b in zip(starts, starts[1:])]
        numbers = np.concatenate([part.surface.own_vertex for part in parts])
        positions = np.concatenate([part.surface.positions for part in parts])
        known, first, back = np.unique(numbers, return_index=True, return_inverse=True)
        whole = len(known) == self.own.vertex_count or bool(self.options.meshes)
        same = np.array_equal(positions[first][back.reshape(-1)], positions)
        if not whole or not same or known[0] < 0 or known[-1] >= self.own.vertex_count:
            raise EditedError
        back = back.reshape(-1)
        return [back[a:b] for a, b in zip(starts, starts[1:])]

    def _mesh(self, parts: list[Part], vertex_map: list[np.ndarray]) -> tuple[Mesh, np.ndarray]:
        """Return the mesh, and of which row of all parts each vertex is, (V,)."""
        rows = np.concatenate(vertex_map)
        _, first = np.unique(rows, return_index=True)
        positions = np.concatenate([placed(p.placement, p.surface.positions) for p in parts])
        counts = [len(mesh.entries("primitives")) for mesh in self.meshes]
        starts = np.cumsum(counts) - counts
        corners = corners_of(parts, vertex_map, starts, self.budget)
        names, slot = material_names(corners.material, self.materials, self.own)
        looks = {}
        if names and (self.own is None or self.own.has_materials):
            used, place = np.unique(corners.material, return_index=True)
            for k, name in zip(used.tolist(), (names[slot[at]] for at in place)):
                looks[name] = Material() if k < 0 else self.looks.material(self.materials[k])
        sizes, at = polygons_of(corners, self.own)
        values = {
            name: rows.reshape(-1, rows.shape[-1])[at] for name, rows in corners.values.items()
        }
        for name in values:
            if name.startswith("TEXCOORD_"):
                values[name] = _flipped(values[name])
        own = self.own
        normals = None if own is not None and not own.has_normals else corners.normals
        mesh = Mesh(
            positions[first],
            sizes,
            corners.vertices.reshape(-1)[at],
            uvs_of(values),
            None if normals is None else normals.reshape(-1, 3)[at],
            names,
            slot[at[np.cumsum(sizes) - sizes] // 3] if len(names) > 1 else None,
            self._named_parts(parts, vertex_map),
            unit="m",
            looks=looks,
            corner_values=values,
        )
        return mesh, first

    def _named_parts(
        self, parts: list[Part], vertex_map: list[np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Return the vertices of each part by name."""
        found = {part.name: np.unique(v) for part, v in zip(parts, vertex_map)}
        if self.own is None:
            return found
        kept = {name: v for name, v in found.items() if name not in self.own.not_parts}
        if self.options.meshes:
            return kept
        return {
            name: self.own.parts.get(name, kept.get(name, np.zeros(0, np.int64)))
            for name in (self.own.part_order or kept)
        }

    def _shapes(
        self, parts: list[Part], vertex_map: list[np.ndarray], sampled: list[SampledAnimation]
    ) -> tuple[list[BlendShape], list[tuple[np.ndarray, ...]]]:
        """Return the blend shapes, and the weights of each in every animation."""
        targets = []
        for part, vertices in zip(parts, vertex_map):
            count = len(part.surface.targets)
            if not count:
                continue
            self.budget.take(count * (_TARGET + _CURVE * len(sampled)), "morph targets")
            entry = self.scene.entries[part.node]
            mesh = self.meshes[part.mesh]
            given = (found.numbers("weights", count) for found in (entry, mesh))
            default = next((found for found in given if found is not None), np.zeros(count))
            names = target_names(mesh, count)
            weights = [a.weights.get(part.node, default[None]) for a in sampled]
            for number, target in enumerate(part.surface.targets):
                curves = [values[:, number] for values in weights]
                moved, offsets = _placed_target(target, part.placement, vertices)
                curves.append(default[number : number + 1])
                targets.append(Target(names[number], part.name, moved, offsets, tuple(curves)))
        return blend_shapes(targets, [] if self.own is None else list(self.own.shapes))

    def _skeleton(self, bones: Bones, order: list[int]) -> Skeleton | None:
        """Return the bones as a skeleton."""
        if not order:
            return None
        place = np.full(len(order) + 1, -1)
        place[order] = np.arange(len(order))
        names, parents = bones.names(), bones.parents()
        return Skeleton(
            tuple(names[bone] for bone in order),
            place[parents[order]],
            np.stack([bones.bones[bone].rest for bone in order]),
        )

    def _skin(self, parts: list[Part], order: list[int], first: np.ndarray) -> Skin | None:
        """Return the skin of all parts: first (V,) tells of which row each vertex is."""
        if not order:
            return None
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        width = max(part.weight.shape[1] for part in parts if part.weight is not None)
        rows = sum(len(part.surface.positions) for part in parts)
        self.budget.take(32 * width * rows, "skin weights")
        pad = lambda array: np.pad(array, ((0, 0), (0, width - array.shape[1])))
        index = np.concatenate(
            [pad(place[p.bone_index]) for p in parts if p.bone_index is not None]
        )
        weight = np.concatenate([pad(p.weight) for p in parts if p.weight is not None])
        return Skin(index[first], weight[first])

    def _bone_motion(
        self, bones: Bones, order: list[int], animation: SampledAnimation
    ) -> np.ndarray:
        """Return world_from_bone (F,B,3,4) of an animation."""
        count = animation.frames.count
        self.budget.take(count * len(order) * 96, f"animation {animation.name!r}")
        result = np.empty((count, len(order), 3, 4))
        for place, number in enumerate(order):
            bone = bones.bones[number]
            result[:, place] = compose(animation.globals[bone.node], bone.frame)
        return result

    def _with_default_pose(
        self,
        character: Character,
        bones: Bones,
        order: list[int],
        curves: list[tuple[np.ndarray, ...]],
    ) -> Character:
        """Return a character with the pose that the file shows as a clip, unless it is the rest."""
        world = np.zeros((1, 0, 3, 4))
        if order:
            chosen = [bones.bones[number] for number in order]
            world = np.stack([compose(self.scene.globals[b.node], b.frame) for b in chosen])[None]
        weights = _weights(curves, -1, 1)
        rest = world[0] if character.skeleton is None else character.skeleton.world_from_bone
        size = max(1.0, float(np.abs(rest).max(initial=0.0)))
        if not weights.any() and np.abs(world[0] - rest).max(initial=0.0) < 1e-5 * size:
            return character
        return character.with_clips([CharacterClip("default", world, weights)])

    def _converted(self, character: Character) -> Character:
        """Return a character of our own in the unit and axes that it had."""
        if self.own is None:
            return character
        own = self.own
        back = Conversion.to_gltf(own.unit, own.up_axis, own.handedness).inverse()
        found = back.character(character)
        mesh = replace(found.mesh, unit=own.unit, up_axis=own.up_axis, handedness=own.handedness)
        return replace(found, mesh=mesh, name=own.name or character.name)


def _rigid(part: Part, bones: Bones) -> Part:
    """Return a part that follows its node."""
    bone, placement = bones.add_node(part.node)
    placement = compose(placement, part.instance)
    index = np.full((len(part.surface.positions), 1), bone)
    return replace(part, placement=placement, bone_index=index, weight=np.ones(index.shape))


def _weights(curves: list[tuple[np.ndarray, ...]], number: int, frames: int) -> np.ndarray:
    """Return the shape weights (F,S) of animation `number`; -1: without animation."""
    if not curves:
        return np.zeros((frames, 0))
    return np.stack([np.broadcast_to(curve[number], frames) for curve in curves], axis=1)


def _not_read(root: Entry) -> list[str]:
    """Return what a file has that a character does not, in words."""
    listed = [f"{len(root.entries(kind))} cameras" for kind in ("cameras",) if root.has(kind)]
    unknown = [n for n in root.texts("extensionsUsed") if not CARRIED.fullmatch(n)]
    return [f"not read: {', '.join([*listed, *unknown])}"] if listed or unknown else []


def _flipped(uvs: np.ndarray) -> np.ndarray:
    """Return UVs (n,2) with the origin at the bottom instead of the top."""
    return np.stack([uvs[:, 0], 1 - uvs[:, 1]], axis=1)


def _placed_target(
    target: Sparse, placement: np.ndarray, vertices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return vertices of the character (n,), increasing, and their offsets (n,3) at rest.

    vertices  the vertex of the character that each vertex of the part is
    """
    linear = placement[:, :3]
    offsets = target.values if np.array_equal(linear, np.eye(3)) else target.values @ linear.T
    moved, first = np.unique(vertices[target.rows], return_index=True)
    return moved, offsets[first]
