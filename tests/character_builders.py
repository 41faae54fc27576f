"""Characters with everything in them, for tests of file formats."""

import numpy as np

from understudy import BlendShape, Character, CharacterClip, Mesh, Skeleton, Skin
from understudy.geometry.transforms import rotation_from_axis_angle


def hero(blend="linear", frames=7, influences=5, **about) -> Character:
    """Three shells that share bones and blend shapes: a tube of quads, two eyes, a triangle fan.

    Six bones in two branches, UVs, normals, two materials on the body, names with odd characters,
    two clips of different rates.
    """
    rng = np.random.default_rng(3)
    mesh = _mesh(rng, **about)
    skeleton = _skeleton(rng)
    count = mesh.vertex_count
    index = np.argsort(rng.random((count, 6)), axis=1)[:, :influences]
    weight = rng.random((count, influences)) ** 3
    weight[mesh.parts["eye.L"], 1:] = 0  # rigid
    skin = Skin(index, weight / weight.sum(axis=1, keepdims=True), blend)
    shapes = (
        BlendShape("smile 1", np.arange(0, count, 3), 0.1 * rng.normal(size=(-(-count // 3), 3))),
        BlendShape("blink.L", mesh.parts["eye.L"], 0.05 * rng.normal(size=(8, 3))),
        BlendShape("blink L", [2, 5], 0.1 * rng.normal(size=(2, 3))),
    )
    clips = [
        CharacterClip("walk", motion(skeleton, frames, 1), rng.random((frames, 3)), 24.0, 12),
        CharacterClip("idle #2", motion(skeleton, 4, 2), rng.random((4, 3)), 60.0, -3),
    ]
    return Character(mesh, skeleton, skin, shapes, tuple(clips), name="hero v2")


def motion(skeleton: Skeleton, frames: int, seed: int) -> np.ndarray:
    """(F,B,3,4): bones that turn and shift at random, smoothly, down the hierarchy."""
    rng = np.random.default_rng(seed)
    count = skeleton.bone_count
    time = np.linspace(0, 1, frames)[:, None, None]
    axis = rng.normal(size=(count, 3)) * time + 0.2 * rng.normal(size=(frames, count, 3))
    local = np.zeros((frames, count, 4, 4))
    local[..., :3, :3] = rotation_from_axis_angle(axis)
    local[..., :3, 3] = 0.1 * rng.normal(size=(frames, count, 3))
    local[..., 3, 3] = 1
    rest = np.tile(np.eye(4), (count, 1, 1))
    rest[:, :3] = skeleton.world_from_bone
    world = np.zeros_like(local)
    for bone, parent in enumerate(skeleton.parents):
        start = rest[bone]
        if parent >= 0:
            start = world[:, parent] @ np.linalg.inv(rest[parent]) @ rest[bone]
        world[:, bone] = start @ local[:, bone]
    return world[..., :3, :]


def _skeleton(rng) -> Skeleton:
    names = ("hips", "spine 1", "head:top", "leg.L", "leg.R", "2nd")
    rest = np.zeros((6, 3, 4))
    rest[:, :, :3] = rotation_from_axis_angle(rng.normal(size=(6, 3)))
    rest[:, :, 3] = [[0, 1, 0], [0, 1.4, 0], [0, 1.8, 0], [0.2, 0.9, 0], [-0.2, 0.9, 0], [0, 2, 0]]
    return Skeleton(names, [-1, 0, 1, 0, 0, -1], rest)


def _mesh(rng, **about) -> Mesh:
    """A tube (part "body", quads), two boxes ("eye.L", "eye.R") and a fan of mixed polygons."""
    around, along = 6, 5
    angle, height = np.meshgrid(np.arange(around), np.linspace(0, 2, along), indexing="ij")
    turn = angle * 2 * np.pi / around
    tube = np.stack([0.3 * np.cos(turn), height, 0.3 * np.sin(turn)], axis=-1).reshape(-1, 3)
    at = np.arange(around * along).reshape(around, along)
    after = np.roll(at, -1, axis=0)
    quads = np.stack([at[:, :-1], at[:, 1:], after[:, 1:], after[:, :-1]], axis=-1).reshape(-1, 4)
    box = np.array(np.meshgrid([0, 1], [0, 1], [0, 1], indexing="ij")).reshape(3, 8).T * 0.1
    sides = np.array(
        [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    )
    fan = rng.normal(size=(5, 3)) * 0.2 + [0, 1, 1]
    vertices = np.concatenate([tube, box + [0.1, 1.7, 0.3], box + [-0.2, 1.7, 0.3], fan])
    body = len(tube)
    fan_start = body + 16
    polygons = [*quads.tolist(), *(sides + body).tolist(), *(sides + body + 8).tolist()]
    polygons += [[fan_start, fan_start + 1, fan_start + 2]]
    polygons += [[fan_start, fan_start + 2, fan_start + 3, fan_start + 4]]
    sizes = [len(polygon) for polygon in polygons]
    corners = np.concatenate(polygons)
    normals = rng.normal(size=(len(corners), 3))
    material = np.zeros(len(sizes), int)
    material[: len(quads) // 2] = 1
    material[len(quads) : len(quads) + 12] = 2
    return Mesh(
        vertices,
        sizes,
        corners,
        corner_uvs=rng.random((len(corners), 2)),
        corner_normals=normals / np.linalg.norm(normals, axis=1, keepdims=True),
        materials=("skin", "cloth 01", "eye"),
        polygon_material=material,
        parts={
            "body": np.arange(body),
            "eye.L": np.arange(body, body + 8),
            "eye.R": np.arange(body + 8, body + 16),
            "fan": np.arange(fan_start, fan_start + 5),
            "lower": np.flatnonzero(vertices[:, 1] < 1),  # crosses the others
        },
        **{"unit": "cm", "up_axis": "Y", **about},
    )
