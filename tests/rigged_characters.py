"""Small rigged characters with everything in them, for the tests of glTF."""

import numpy as np
from builders import chain_skeleton, random_motion

from understudy import BlendShape, Character, CharacterClip, Mesh, Skeleton, Skin


def tube_mesh(rings=9, sides=8, **about):
    """A tube along x of quads, one pentagon and triangles, in two parts and two materials, with
    UVs that have a seam and normals that have an edge.
    """
    angle = np.arange(sides) * 2 * np.pi / sides
    along = np.linspace(0, 2, rings)
    vertices = np.stack(
        [
            np.repeat(along, sides),
            0.3 * np.tile(np.sin(angle), rings),
            0.3 * np.tile(np.cos(angle), rings),
        ],
        axis=1,
    )
    polygons, uvs = [], []
    at = lambda r, s: r * sides + s % sides
    for r in range(rings - 1):
        for s in range(sides):
            corners = [at(r, s), at(r + 1, s), at(r + 1, s + 1), at(r, s + 1)]
            place = [(r, s), (r + 1, s), (r + 1, s + 1), (r, s + 1)]  # s + 1 = sides: the seam
            if (r + s) % 5 == 0:
                polygons += [corners[:3], [corners[0], corners[2], corners[3]]]
                uvs += [place[:3], [place[0], place[2], place[3]]]
            else:
                polygons.append(corners)
                uvs.append(place)
    polygons.append([at(0, s) for s in range(5)][::-1])
    uvs.append([(0, s) for s in range(5)][::-1])
    corner_uvs = np.array([uv for polygon in uvs for uv in polygon], float) / (rings, sides)
    corners = np.concatenate(polygons)
    normals = vertices[corners] * (0, 1, 1)
    normals[corners < sides] = (-1, 0, 0)  # a hard edge at the first ring, for some corners
    normals[-5:] = (-1, 0, 0)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    half = rings // 2 * sides
    material = [int(polygon[0] % 3 == 0) for polygon in polygons]
    return Mesh(
        vertices,
        [len(polygon) for polygon in polygons],
        corners,
        corner_uvs,
        normals,
        ("skin", "cloth"),
        material,
        {"body": np.arange(half), "sleeve": np.arange(half, rings * sides)},
        **about,
    )


def skin_of(mesh, bones, influences=4, seed=0):
    """Random weights, of which some are zero."""
    rng = np.random.default_rng(seed)
    index = np.stack([rng.permutation(bones)[:influences] for _ in range(mesh.vertex_count)])
    weight = rng.random(index.shape) + 0.05
    weight[::3, -1] = 0
    return Skin(index, weight / weight.sum(axis=1, keepdims=True))


def shapes_of(mesh, count=3, seed=1):
    """Shapes of few vertices, of many, and of both parts."""
    rng = np.random.default_rng(seed)
    chosen = [np.arange(4), np.arange(mesh.vertex_count), np.arange(10, mesh.vertex_count, 5)]
    return tuple(
        BlendShape(f"shape {k}", chosen[k], 0.05 * rng.normal(size=(len(chosen[k]), 3)))
        for k in range(count)
    )


def make_character(mesh=None, bones=5, influences=4, frames=7, stretch=0.0):
    """A tube with two chains of bones, blend shapes and two clips."""
    mesh = tube_mesh() if mesh is None else mesh
    chain = chain_skeleton(bones)
    names = tuple(f"joint {b}" for b in range(bones))
    parents = np.where(np.arange(bones) == bones - 1, -1, chain.parents)  # a second root
    skeleton = Skeleton(names, parents, chain.world_from_bone)
    shapes = shapes_of(mesh)
    rng = np.random.default_rng(2)
    clips = tuple(
        CharacterClip(
            name,
            random_motion(skeleton, count, seed, stretch=stretch),
            rng.random((count, len(shapes))),
            rate,
            start,
        )
        for name, count, seed, rate, start in (
            ("walk", frames, 0, 24.0, 7),
            ("run", 4, 1, 60.0, -3),
        )
    )
    skin = skin_of(mesh, bones, min(influences, bones))
    return Character(mesh, skeleton, skin, shapes, clips, "hero")
