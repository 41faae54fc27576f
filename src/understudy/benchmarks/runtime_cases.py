"""Deformers of the papers' sizes with random numbers in them, for `bench runtime`: what a runtime costs depends on the sizes alone.

tigress   Fast and Deep Deformation Approximations: 16,206 vertices, 67 networks of 2 x 128, rigid skin; 64 components each make the 21 MB
astrid    the same paper's largest: 168,635 vertices, 45 networks; 32 components each
face      differential subspace reconstruction in its small default: 4,403 vertices, one wide network with 140 components, 88 anchors with a
          network of 3 x 64 each and one basis shared by x, y and z
elephant  two-layer sparse compression: 42,321 vertices, 30 bones; dense, with four influences, and as two layers with the paper's choice of
          2 V / 31 virtual bones of up to 30 bones each
"""

from __future__ import annotations

import numpy as np

from understudy.controls import ControlSpec
from understudy.deformer import Deformer, Features, Skin
from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.mesh import Mesh
from understudy.networks import Basis, Net
from understudy.skeleton import Skeleton

# The characters are this high, in cm; correctives move vertices by about one.
_HEIGHT = 170.0
_ELEPHANT_VERTICES, _ELEPHANT_BONES = 42321, 30


def tigress(seed: int = 0) -> Deformer:
    return _fdda(16206, 67, 64, seed)


def astrid(seed: int = 0) -> Deformer:
    return _fdda(168635, 45, 32, seed)


def face(seed: int = 0) -> Deformer:
    rng = np.random.default_rng(seed)
    count, bones, controls, components, anchors = 4403, 4, 100, 140, 88
    skeleton = _skeleton(bones, rng)
    spec = ControlSpec(tuple(f"control{c}" for c in range(controls)), [-1.0] * controls, [1.0] * controls, numeric=[True] * controls)
    columns = np.arange(12, 12 * bones + controls)
    wide = _net(rng, np.arange(len(columns)), (512, 512), np.arange(components))
    first = components
    small = [
        _net(rng, rng.choice(len(columns), 24, replace=False), (64, 64, 64), np.arange(first + 3 * a, first + 3 * a + 3)) for a in range(anchors)
    ]
    bases = (
        Basis(np.arange(count), _basis(rng, 3 * count, components), np.arange(components)),
        Basis(np.arange(count), _basis(rng, count, anchors), np.arange(first, first + 3 * anchors).reshape(-1, 3).T),
    )
    return Deformer(
        _strip(count), skeleton, spec, _spread_skin(count, bones, 4, rng), _features(columns), (wide, *small), bases, method="differential"
    )


def elephant(kind: str, seed: int = 0) -> Deformer:
    """kind: lbs-4, lbs-all (30 influences) or two_layer."""
    rng = np.random.default_rng(seed)
    count, bones = _ELEPHANT_VERTICES, _ELEPHANT_BONES
    skeleton = _skeleton(bones, rng)
    if kind == "two_layer":
        virtual = 2 * count // (bones + 1)
        # Neighbours in the list are neighbours on the surface, and share their virtual bones.
        near = np.arange(count) * virtual // count
        index = np.stack([near, np.minimum(near + rng.integers(1, 8, count), virtual - 1)], axis=1)
        weight = np.stack([w := rng.uniform(0.3, 1.2, count), 1 - w], axis=1)
        dense = rng.normal(size=(virtual, bones)) * 0.1 + 1 / bones
        rows = np.tile(np.arange(bones), (virtual, 1))
        skin = Skin(index, weight, "linear", rows, dense / dense.sum(1, keepdims=True))
    else:
        skin = _spread_skin(count, bones, 4 if kind == "lbs-4" else bones, rng)
    return Deformer(_strip(count), skeleton, skin=skin, method=kind)


def random_poses(deformer: Deformer, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray | None]:
    """Bones (T,B,3,4), each turned about its own head and carried along by its parent, and controls (T,C) or None."""
    rng = np.random.default_rng(seed)
    skeleton = deformer.skeleton
    rest = np.tile(np.eye(4), (skeleton.bone_count, 1, 1))
    rest[:, :3] = skeleton.world_from_bone
    turn = np.tile(np.eye(4), (count, skeleton.bone_count, 1, 1))
    turn[..., :3, :3] = rotation_from_axis_angle(rng.normal(size=(count, skeleton.bone_count, 3)) * 0.2)
    world = np.empty_like(turn)
    for bone, parent in enumerate(skeleton.parents):
        start = rest[bone] if parent < 0 else world[:, parent] @ np.linalg.inv(rest[parent]) @ rest[bone]
        world[:, bone] = start @ turn[:, bone]
    controls = None if deformer.control_spec is None else rng.uniform(-1, 1, (count, deformer.control_spec.count))
    return np.ascontiguousarray(world[..., :3, :]), controls


def _fdda(count: int, nets: int, components: int, seed: int) -> Deformer:
    """A rigid skin, one network of 2 x 128 and one basis per bone; each network reads four bones."""
    rng = np.random.default_rng(seed)
    skeleton = _skeleton(nets, rng)
    columns = np.arange(12, 12 * nets)
    owner = np.sort(rng.integers(0, nets, count))
    made, bases = [], []
    for g in range(nets):
        near = np.unique(np.clip(np.arange(g - 2, g + 2), 1, nets - 1))
        inputs = ((near[:, None] - 1) * 12 + np.arange(12)).reshape(-1)
        outputs = np.arange(g * components, (g + 1) * components)
        vertices = np.flatnonzero(owner == g)
        made.append(_net(rng, inputs, (128, 128), outputs))
        bases.append(Basis(vertices, _basis(rng, 3 * len(vertices), components), outputs))
    return Deformer(_strip(count), skeleton, None, Skin.rigid(owner), _features(columns), tuple(made), tuple(bases), method="fdda")


def _net(rng, inputs: np.ndarray, hidden: tuple[int, ...], outputs: np.ndarray) -> Net:
    sizes = [len(inputs), *hidden, len(outputs)]
    weights = tuple((rng.normal(size=(b, a)) / np.sqrt(a)).astype(np.float32) for a, b in zip(sizes, sizes[1:]))
    return Net(inputs, weights, tuple(rng.normal(size=b) * 0.1 for b in sizes[1:]), outputs)


def _basis(rng, rows: int, components: int) -> np.ndarray:
    return rng.standard_normal((rows, components), dtype=np.float32) / np.float32(np.sqrt(components))


def _features(columns: np.ndarray) -> Features:
    wide = np.full(len(columns), 60.0, np.float32)
    return Features(columns, -wide, wide)


def _skeleton(bones: int, rng) -> Skeleton:
    rest = np.tile(np.eye(3, 4), (bones, 1, 1))
    rest[:, :, :3] = rotation_from_axis_angle(rng.normal(size=(bones, 3)))
    rest[:, :, 3] = rng.uniform(-20, 20, (bones, 3))
    rest[:, 1, 3] = np.linspace(0, _HEIGHT, bones)
    parents = np.array([-1, *(rng.integers(max(0, b - 4), b) for b in range(1, bones))])
    return Skeleton(tuple(f"bone{b}" for b in range(bones)), parents, rest)


def _spread_skin(count: int, bones: int, influences: int, rng) -> Skin:
    """Weights on bones next to each other in the list."""
    start = (np.arange(count) * max(1, bones - influences + 1) // count)[:, None]
    weight = rng.uniform(0.05, 1, (count, influences))
    return Skin(start + np.arange(influences), weight / weight.sum(1, keepdims=True))


def _strip(count: int) -> Mesh:
    """A triangle strip up a column of the characters' height."""
    angle, rise = np.arange(count) * 0.7, np.linspace(0, _HEIGHT, count)
    vertices = np.stack([20 * np.cos(angle), rise, 20 * np.sin(angle)], axis=1)
    first = np.arange(count - 2)
    return Mesh.from_faces(vertices, np.stack([first, first + 1, first + 2], axis=1), unit="cm")
