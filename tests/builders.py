"""Small deformers, skeletons and poses with everything in them, for tests."""

import numpy as np

from understudy import Basis, ControlSpec, Deformer, Features, Mesh, Net, Poses, Skeleton, Skin
from understudy.geometry.transforms import rotation_from_axis_angle


def chain_skeleton(bones: int = 3) -> Skeleton:
    """Bones along x, one unit apart, each turned a little at rest."""
    rest = np.tile(np.eye(3, 4), (bones, 1, 1))
    rest[:, :, :3] = rotation_from_axis_angle(np.outer(np.arange(bones), [0.1, 0.2, 0.3]))
    rest[:, 0, 3] = np.arange(bones)
    return Skeleton(tuple(f"bone{b}" for b in range(bones)), np.arange(bones) - 1, rest)


def random_motion(
    skeleton: Skeleton, poses: int, seed: int = 0, size: float = 0.5, stretch: float = 0.1
) -> np.ndarray:
    """(T,B,3,4): every bone turned, shifted and scaled at random, down the hierarchy."""
    rng = np.random.default_rng(seed)
    count = skeleton.bone_count
    local = np.zeros((poses, count, 4, 4))
    local[..., :3, :3] = rotation_from_axis_angle(
        rng.normal(size=(poses, count, 3)) * size
    ) * np.exp(rng.normal(size=(poses, count, 1, 3)) * stretch)
    local[..., :3, 3] = rng.normal(size=(poses, count, 3)) * 0.1 * size
    local[..., 3, 3] = 1
    rest = np.tile(np.eye(4), (count, 1, 1))
    rest[:, :3] = skeleton.world_from_bone
    world = np.zeros_like(local)
    for bone, parent in enumerate(skeleton.parents):
        start = (
            rest[bone]
            if parent < 0
            else world[:, parent] @ np.linalg.inv(rest[parent]) @ rest[bone]
        )
        world[:, bone] = start @ local[:, bone]
    return world[..., :3, :]


def grid_mesh(columns: int = 8, rows: int = 3, **about) -> Mesh:
    """A strip of quads along x with UVs and two parts."""
    x, y = np.meshgrid(np.linspace(0, 2, columns), np.linspace(-0.4, 0.4, rows), indexing="ij")
    vertices = np.stack([x, y, 0.1 * np.sin(3 * x)], axis=-1).reshape(-1, 3)
    at = np.arange(columns * rows).reshape(columns, rows)
    quads = np.stack([at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:]], axis=-1).reshape(-1, 4)
    parts = {"start": np.arange(rows), "rest": np.arange(rows, columns * rows)}
    return Mesh.from_faces(
        vertices,
        quads,
        corner_uvs=vertices[quads.reshape(-1), :2],
        parts=parts,
        materials=("skin",),
        **about,
    )


def symmetric_mesh() -> Mesh:
    """A sheet that is the same left and right of x = 0, and not above and below y = 0."""
    sheet = grid_mesh(9, 6)
    x, y = sheet.vertices[:, 0] - 1, sheet.vertices[:, 1]
    return Mesh(
        np.stack([x * (1 + 0.3 * y), y, 0.2 * x**2], axis=1),
        sheet.polygon_sizes,
        sheet.polygon_vertices,
    )


def full_deformer(
    blend: str = "linear", virtual: bool = False, activation: str = "tanh", seed: int = 0
) -> Deformer:
    """A deformer that uses every part of the form: K=3 skin, bones and controls as features,
    several nets, both kinds of basis.
    """
    rng = np.random.default_rng(seed)
    skeleton, mesh = chain_skeleton(), grid_mesh(unit="cm")
    spec = ControlSpec(
        ("smile", "elbow"), [0, -90], [1, 90], units=("", "deg"), numeric=[True, False]
    )
    count = mesh.vertex_count
    weight = rng.random((count, 3))
    columns = np.concatenate([np.arange(12, 36), [36, 37]])
    skin = Skin(
        np.stack([rng.permutation(3) for _ in range(count)]),
        weight / weight.sum(1, keepdims=True),
        blend,
        virtual_index=np.array([[0, 1], [1, 2], [2, 0]]) if virtual else None,
        virtual_weight=np.array([[0.5, 0.5], [1.2, -0.2], [0.3, 0.7]]) if virtual else None,
    )

    def net(inputs, hidden, outputs):
        sizes = [len(inputs), *hidden, len(outputs)]
        weights = tuple(rng.normal(size=(b, a)) * 0.3 for a, b in zip(sizes, sizes[1:]))
        return Net(
            inputs,
            weights,
            tuple(np.abs(rng.normal(size=b)) * 0.1 for b in sizes[1:]),
            outputs,
            activation,
        )

    nets = (
        net(np.arange(12), [5, 5], np.arange(4)),
        net(np.arange(6, 26), [5, 5], np.arange(2, 10)),
        net(np.arange(3), [], np.arange(3)),
    )
    bases = (
        Basis(np.arange(10), rng.normal(size=(30, 4)) * 0.05, np.arange(4)),
        Basis(
            np.arange(5, 20), rng.normal(size=(15, 2)) * 0.05, np.array([[4, 5], [6, 7], [8, 9]])
        ),
    )
    return Deformer(
        mesh=mesh,
        skeleton=skeleton,
        control_spec=spec,
        skin=skin,
        features=Features(columns, np.full(26, -0.8), np.full(26, 0.9)),
        nets=nets,
        bases=bases,
        mean=rng.normal(size=(count, 3)) * 0.01,
        method="test",
        training={"mean": 0.1},
        provenance={"rig": "none", "seed": 0},
    )


def sphere(rings: int = 24, sides: int = 48):
    """A closed unit sphere: (V,3), (M,3) with outward winding."""
    up = np.linspace(0, np.pi, rings + 1)[1:-1]
    round_ = np.arange(sides) * 2 * np.pi / sides
    body = np.stack(
        [
            np.outer(np.sin(up), np.sin(round_)),
            np.outer(np.cos(up), np.ones(sides)),
            np.outer(np.sin(up), np.cos(round_)),
        ],
        axis=-1,
    )
    vertices = np.concatenate([[[0, 1, 0]], body.reshape(-1, 3), [[0, -1, 0]]])
    at = lambda r, s: 1 + r * sides + s % sides
    s = np.arange(sides)
    triangles = [
        np.stack([np.zeros_like(s), at(0, s), at(0, s + 1)], 1),
        np.stack([np.full_like(s, len(vertices) - 1), at(rings - 2, s + 1), at(rings - 2, s)], 1),
    ]
    for r in range(rings - 2):
        triangles += [
            np.stack([at(r, s), at(r + 1, s), at(r + 1, s + 1)], 1),
            np.stack([at(r, s), at(r + 1, s + 1), at(r, s + 1)], 1),
        ]
    return vertices, np.concatenate(triangles)


def linear_sheet(count=200, seed=0):
    """Controls that move a mesh in a straight line each."""
    mesh = grid_mesh(10, 6)
    rng = np.random.default_rng(seed)
    spec = ControlSpec(("a", "b", "c"), [-1, -1, -1], [1, 1, 1])
    shapes = rng.normal(size=(3, mesh.vertex_count, 3)) * 0.1
    values = rng.uniform(-1, 1, size=(count, 3))
    return Poses(
        mesh, mesh.vertices + np.tensordot(values, shapes, 1), control_spec=spec, controls=values
    ), shapes
