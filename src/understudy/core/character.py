"""`Character`: a mesh, bones, a linear skin, blend shapes and clips, as engines and their files
have them.

    v_i = blend over k of  w_ik, M[b_ik]  applied to (rest_i + sum over shapes s of  a_s d_si, 1)
    M   = world_from_bone @ bone_from_rest

Readers of glTF, FBX and USD return a `Character`; writers of these formats take one. It differs
from a `Deformer`: the weights `a` of its blend shapes are stored for each frame, and no network
computes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from understudy.core.clip import ClipSpan
from understudy.core.controls import ControlSpec
from understudy.core.mesh import Mesh
from understudy.core.noun import Noun
from understudy.core.poses import Poses
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.skinning import dual_quaternion_blend, linear_blend
from understudy.geometry.transforms import bone_sizes, compose
from understudy.system import checks
from understudy.system.errors import InputError

_BLOCK = 64  # frames evaluated at a time


@dataclass(frozen=True, eq=False, repr=False)
class BlendShape(Noun):
    """Offsets of some vertices, added to the rest shape in proportion to a weight.

    name      unique in its character
    vertices  (n,) int32, in increasing order
    offsets   (n,3) float32, at weight one

    >>> BlendShape("smile", [3, 5], [[0, 1, 0], [0, 0.5, 0]]).vertices.tolist()
    [3, 5]
    """

    name: str
    vertices: np.ndarray
    offsets: np.ndarray

    def __post_init__(self):
        what = f"blend shape {checks.full_text(self.name, 'blend shape name')!r}"
        vertices = checks.index(self.vertices, f"vertices of {what}", 2**31)
        if np.any(np.diff(vertices) <= 0):
            raise InputError(f"vertices of {what}: expected increasing indices, each once")
        self._keep("vertices", vertices)
        offsets = checks.array(self.offsets, f"offsets of {what}", (len(vertices), 3))
        self._keep("offsets", offsets)

    @staticmethod
    def from_dense(name: str, offsets: np.ndarray, threshold: float = 0.0) -> BlendShape:
        """Return a shape of the vertices that move by more than `threshold`: offsets (V,3)."""
        moved = np.flatnonzero(np.abs(offsets).max(axis=1) > threshold)
        return BlendShape(name, moved, offsets[moved])


@dataclass(frozen=True, eq=False, repr=False)
class CharacterClip(Noun):
    """An animation of a character, sampled at every frame.

    name             unique in its character
    world_from_bone  (F,B,3,4) float64
    shape_weights    (F,S) float32
    frame_rate       frames per second
    start_frame      the number of the first frame in the file
    vertices         (F,V,3) float32: a point cache, which replaces skin and blend shapes; or None
    """

    name: str
    world_from_bone: np.ndarray
    shape_weights: np.ndarray
    frame_rate: float = 30.0
    start_frame: int = 0
    vertices: np.ndarray | None = None

    def __post_init__(self):
        put = self._borrow
        what = f"of clip {checks.full_text(self.name, 'clip name')!r}"
        shape = (None, None, 3, 4)
        bones = checks.array(self.world_from_bone, f"world_from_bone {what}", shape, np.float64)
        put("world_from_bone", bones)
        if not len(bones):
            raise InputError(f"clip {self.name!r} has no frames")
        weights = checks.array(self.shape_weights, f"shape_weights {what}", (len(bones), None))
        put("shape_weights", weights)
        checks.between(self.frame_rate, f"frame_rate {what}", above=0)
        put("frame_rate", float(self.frame_rate))
        put("start_frame", int(self.start_frame))
        if self.vertices is not None:
            put("vertices", checks.array(self.vertices, f"vertices {what}", (len(bones), None, 3)))

    @property
    def frame_count(self) -> int:
        """F."""
        return len(self.world_from_bone)


@dataclass(frozen=True, eq=False, repr=False)
class Character(Noun):
    """A mesh with what moves it. The module's docstring has the equation.

    mesh      at rest (in the bind pose); its parts are the objects of the file
    skeleton  its rest transforms are the bind pose; None: no bones
    skin      without virtual bones; None exactly if there is no skeleton
    shapes    S blend shapes, applied before the skin
    clips     the animations
    name      of the character or its file, for reports
    notes     what reading left out or changed, in words
    """

    mesh: Mesh
    skeleton: Skeleton | None = None
    skin: Skin | None = None
    shapes: tuple[BlendShape, ...] = ()
    clips: tuple[CharacterClip, ...] = ()
    name: str = "character"
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        put = self._keep
        put("shapes", tuple(self.shapes))
        put("clips", tuple(self.clips))
        if (self.skeleton is None) != (self.skin is None):
            raise InputError("skeleton and skin belong together: one of them is missing")
        if self.skin is not None:
            if self.skin.virtual_index is not None:
                raise InputError("skin: a character has no virtual bones; make them bones first")
            count = self.mesh.vertex_count
            checks.same_count(len(self.skin.weight), count, "vertices", "the skin", "the mesh")
            index = self.skin.bone_index
            checks.index(index, "skin bone_index", self.bone_count, index.shape)
        checks.names((shape.name for shape in self.shapes), "blend shapes")
        for shape in self.shapes:
            what = f"vertices of blend shape {shape.name!r}"
            checks.index(shape.vertices, what, self.mesh.vertex_count)
        checks.names((clip.name for clip in self.clips), "clips")
        for clip in self.clips:
            what = f"clip {clip.name!r}"
            bones, weights = clip.world_from_bone.shape[1], clip.shape_weights.shape[1]
            checks.same_count(bones, self.bone_count, "bones", what, "the skeleton")
            checks.same_count(weights, len(self.shapes), "shapes", what, "the character")
            if clip.vertices is not None:
                cached, count = clip.vertices.shape[1], self.mesh.vertex_count
                checks.same_count(cached, count, "vertices", f"the point cache of {what}", "it")

    @property
    def bone_count(self) -> int:
        """B; 0 without a skeleton."""
        return 0 if self.skeleton is None else self.skeleton.bone_count

    def shape_offsets(self, weights: np.ndarray) -> np.ndarray:
        """Return what the blend shapes add to the rest shape, (T,V,3) float64: weights (T,S)."""
        result = np.zeros((len(weights), self.mesh.vertex_count, 3))
        for shape, weight in zip(self.shapes, np.asarray(weights, np.float64).T):
            result[:, shape.vertices] += weight[:, None, None] * shape.offsets
        return result

    @cached_property
    def control_spec(self) -> ControlSpec | None:
        """The weights of the blend shapes as controls; None without shapes.

        Ranges are those of all clips, and at least 0 to 1.
        """
        if not self.shapes:
            return None
        none = np.zeros((1, len(self.shapes)))
        weights = np.concatenate([none, none + 1, *(clip.shape_weights for clip in self.clips)])
        names = tuple(shape.name for shape in self.shapes)
        numeric = np.ones(len(names), bool)
        return ControlSpec(names, weights.min(axis=0), weights.max(axis=0), numeric=numeric)

    def clip(self, name: str) -> CharacterClip:
        """Return the clip of that name."""
        known = tuple(clip.name for clip in self.clips)
        if not known:
            raise InputError(f"{self.name!r} has no animation, so no clip is called {name!r}")
        return self.clips[known.index(checks.one_of(name, "clip", known))]

    def evaluate(
        self, world_from_bone: np.ndarray | None = None, shape_weights: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the vertices of some poses, (T,V,3) float32.

        world_from_bone  (T,B,3,4); None: the bind pose
        shape_weights    (T,S); None: all zero
        """
        given = [len(a) for a in (world_from_bone, shape_weights) if a is not None]
        pose_count = given[0] if given else 1
        result = np.empty((pose_count, self.mesh.vertex_count, 3), np.float32)
        rest = self.mesh.vertices.astype(np.float64)
        for start in range(0, pose_count, _BLOCK):
            block = slice(start, start + _BLOCK)
            points = np.broadcast_to(rest, result[block].shape)
            part = lambda array, block=block: None if array is None else array[block]
            result[block] = self.moved(points, part(world_from_bone), part(shape_weights))
        return result

    def moved(
        self,
        points: np.ndarray,
        world_from_bone: np.ndarray | None,
        shape_weights: np.ndarray | None,
    ) -> np.ndarray:
        """Return points (T,V,3) at rest moved by blend shapes and skin; others as in `evaluate`."""
        if shape_weights is not None and self.shapes:
            points = points + self.shape_offsets(shape_weights)
        if world_from_bone is None or self.skeleton is None or self.skin is None:
            return points
        world = np.asarray(world_from_bone, np.float64)
        matrices = compose(world, self.skeleton.bone_from_world)
        index, weight = self.skin.bone_index, self.skin.weight.astype(np.float64)
        blend = linear_blend if self.skin.blend == "linear" else dual_quaternion_blend
        return blend(matrices, index, weight, points)

    def evaluate_clip(self, clip: CharacterClip) -> np.ndarray:
        """Return the vertices of a clip, (F,V,3) float32: its point cache, or skin and shapes."""
        if clip.vertices is not None:
            return clip.vertices
        return self.evaluate(clip.world_from_bone, clip.shape_weights)

    def poses(self, clips: Sequence[str] = ()) -> Poses:
        """Return the frames of some clips as `Poses`, with bones, and shape weights as controls.

        clips  names; empty: all, one span each. A character without clips gives its rest pose
        """
        chosen = [self.clip(name) for name in clips] if clips else list(self.clips)
        bones = self.skeleton is not None
        if not chosen:
            rest = np.zeros((0, 3, 4)) if self.skeleton is None else self.skeleton.world_from_bone
            chosen = [CharacterClip("rest", rest[None], np.zeros((1, len(self.shapes))))]
        weights = np.concatenate([clip.shape_weights for clip in chosen])
        rates = {clip.frame_rate for clip in chosen}
        return Poses(
            self.mesh,
            np.concatenate([self.evaluate_clip(clip) for clip in chosen]),
            self.skeleton,
            np.concatenate([clip.world_from_bone for clip in chosen]) if bones else None,
            self.control_spec,
            weights if self.shapes else None,
            frame_rate=rates.pop() if len(rates) == 1 else None,
            name=chosen[0].name if len(chosen) == 1 else self.name,
            spans=tuple(
                ClipSpan(c.name, c.frame_count, c.frame_rate, c.start_frame) for c in chosen
            ),
            notes=self.notes,
        )

    def with_clips(self, clips: Sequence[CharacterClip]) -> Character:
        """Return the same character with other clips."""
        return replace(self, clips=tuple(clips))

    def with_unit_bones(self) -> Character:
        """Return the same character with bones whose size at rest is one; nothing moves otherwise.

        Files of Blender scale all bones by 100. Engines, networks and 16-bit numbers expect 1.
        """
        if self.skeleton is None:
            return self
        size = bone_sizes(self.skeleton.world_from_bone)
        if (size == 1).all():
            return self
        resized = lambda world: np.concatenate(
            [world[..., :3] / size[:, None, None], world[..., 3:]], axis=-1
        )
        return replace(
            self,
            skeleton=replace(self.skeleton, world_from_bone=resized(self.skeleton.world_from_bone)),
            clips=tuple(
                replace(clip, world_from_bone=resized(clip.world_from_bone)) for clip in self.clips
            ),
        )
