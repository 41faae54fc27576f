"""Deformers with random weights in the sizes of the papers, for `bench runtime`.

The time of a pose depends on the sizes only.

tigress   Fast and Deep Deformation Approximations, Table 1: 16,206 vertices, a rigid skin and 67
          networks of 2 x 128, which read 26.9 bones and predict 22.6 components on average
astrid    the largest character of that paper: 168,635 vertices, 45 networks, which read 14.6 bones
          and predict 24.5 components on average
face      `differential` with its default options, at the 4,403 vertices of its paper. The options
          give the number of regions and anchors and the width of the networks. The extent and the
          inputs of each region are those of a fit of the built-in face (`_REGIONS`)
elephant  two-layer sparse compression: 42,321 vertices, 30 bones; with dense weights, with four
          influences, and with two layers of the same number of blending operations: as the paper
          counts them, 2 V / 31 virtual bones, two per vertex (`two_layer-paper`), and by our
          defaults, V / 30 virtual bones, three per vertex (`two_layer`), as in `bench two-layer`
"""

from __future__ import annotations

import numpy as np

from understudy.core.controls import ControlSpec
from understudy.core.deformer import Deformer
from understudy.core.features import Features
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis, Net
from understudy.core.skeleton import Skeleton
from understudy.core.skin import Skin
from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.methods.differential.differential import DifferentialConfig
from understudy.system.errors import InputError

_HEIGHT = 170.0  # cm, of all characters; correctives move vertices by about 1 cm
_ELEPHANT_VERTICES, _ELEPHANT_BONES = 42321, 30
_FACE_VERTICES, _FACE_BONES, _FACE_CONTROLS = 4403, 23, 77
# A fit of `differential` to 5,000 random poses of the built-in face, seed 0, default options except
# for ten epochs. For each region: features that its networks read; vertices and components of its
# near basis and of its far basis; its anchors; the vertices that these move. The vertices of a
# basis are spread over the vertex list in runs of three or four.
_FIT_VERTICES = 4597
_REGIONS = (
    (110, 149, 85, 426, 32, 11, 203), (139, 225, 87, 488, 33, 9, 240), (140, 215, 87, 508, 34, 9,
    253), (117, 227, 46, 316, 19, 2, 56),
    (123, 121, 40, 313, 16, 1, 25), (124, 231, 43, 313, 16, 4, 176), (137, 458, 58, 414, 18, 4,
    119), (98, 76, 49, 412, 24, 2, 85),
    (98, 171, 39, 164, 13, 4, 55), (119, 192, 62, 471, 26, 2, 93), (108, 67, 35, 129, 9, 2, 15),
    (141, 322, 80, 454, 36, 4, 143),
    (61, 210, 17, 246, 8, 1, 150), (121, 103, 45, 377, 19, 1, 130), (124, 238, 81, 663, 34, 6,
    236), (111, 244, 45, 216, 17, 1, 65),
    (122, 221, 61, 523, 27, 3, 56), (112, 509, 48, 327, 22, 2, 130), (142, 400, 86, 438, 32, 7,
    209), (117, 56, 31, 127, 9, 4, 35),
    (138, 660, 66, 273, 20, 5, 181), (101, 323, 36, 260, 16, 2, 149), (136, 400, 58, 365, 19, 3,
    104), (133, 294, 78, 403, 31, 3, 88),
)  # fmt: skip
_BONE_FEATURES, _CONTROL_FEATURES, _RUN = 94, 63, 4
_ANCHOR_READS = (30, 120)  # fewest and most features that the network of an anchor reads
_FACE_GAIN = 0.02  # of first layers, because features are in cm


def tigress(seed: int = 0) -> Deformer:
    """A deformer of the size of FDDA's tigress."""
    return _fdda(16206, 67, 26.9, 22.6, seed)


def astrid(seed: int = 0) -> Deformer:
    """A deformer of the size of FDDA's Astrid."""
    return _fdda(168635, 45, 14.6, 24.5, seed)


def face(seed: int = 0) -> Deformer:
    """A deformer of the size of a face fitted by `differential`.

    Each region has a network and a linear map, which predict the components of a basis near the
    region and of one far from it. Each anchor has the same for its own three coefficients; the
    basis of neighbouring anchors is shared by x, y and z.
    """
    rng, options = np.random.default_rng(seed), vars(DifferentialConfig())
    regions: int = options["regions"]
    count, anchors = _FACE_VERTICES, round(options["anchors"] * _FACE_VERTICES)
    skeleton = _skeleton(_FACE_BONES, rng)
    spec = ControlSpec(
        tuple(f"control{c}" for c in range(_FACE_CONTROLS)),
        np.full(_FACE_CONTROLS, -1.0),
        np.full(_FACE_CONTROLS, 1.0),
        numeric=np.ones(_FACE_CONTROLS, bool),
    )
    some = [
        np.sort(rng.choice(of, n, replace=False))
        for of, n in ((12 * _FACE_BONES, _BONE_FEATURES), (_FACE_CONTROLS, _CONTROL_FEATURES))
    ]
    columns = np.concatenate([some[0], 12 * _FACE_BONES + some[1]])
    nets, bases, free = [], [], 0

    def learned(reads: int, hidden: tuple[int, ...], outputs: np.ndarray) -> None:
        inputs = np.sort(rng.choice(len(columns), reads, replace=False))
        nets.append(_net(rng, inputs, hidden, outputs, options["activation"], _FACE_GAIN))
        if options["linear"]:
            nets.append(_net(rng, inputs, (), outputs, gain=_FACE_GAIN))

    def moved(vertices: int) -> np.ndarray:
        """As many vertices as in the fit, scaled to this mesh, in runs all over the list."""
        runs = -(-vertices * count // _FIT_VERTICES // _RUN)
        return (
            np.sort(rng.choice(count // _RUN, runs, replace=False))[:, None] * _RUN
            + np.arange(_RUN)
        ).reshape(-1)

    table: np.ndarray = np.resize(np.array(_REGIONS), (regions, len(_REGIONS[0])))
    for reads, near, near_shapes, far, far_shapes, *_ in table:
        outputs = np.arange(free, free := free + near_shapes + far_shapes)
        learned(reads, options["hidden"], outputs)
        for reach, mine in zip((near, far), np.split(outputs, [near_shapes])):
            vertices = moved(reach)
            bases.append(Basis(vertices, _basis(rng, 3 * len(vertices), len(mine)), mine))
    owner = np.repeat(np.arange(regions), table[:, 5])[
        np.linspace(0, table[:, 5].sum() - 1, anchors).round().astype(int)
    ]
    anchor_reads = rng.permutation(np.linspace(*_ANCHOR_READS, anchors).astype(int))
    for region in np.unique(owner):
        group = np.flatnonzero(owner == region)
        outputs = np.arange(free, free := free + 3 * len(group)).reshape(-1, 3)
        for anchor, own in zip(group, outputs):
            learned(anchor_reads[anchor], options["anchor_hidden"], own)
        vertices = moved(table[region, 6])
        bases.append(Basis(vertices, _basis(rng, len(vertices), len(group)), outputs.T))
    skin = _spread_skin(count, _FACE_BONES, options["influences"], rng, fewest=1)
    return Deformer(
        _strip(count),
        skeleton,
        spec,
        skin,
        _features(columns),
        tuple(nets),
        tuple(bases),
        method="differential",
    )


def elephant(kind: str, seed: int = 0) -> Deformer:
    """A skin of the size of the elephant.

    kind  lbs-4, lbs-all (30 influences), two_layer or two_layer-paper
    """
    rng = np.random.default_rng(seed)
    count, bones = _ELEPHANT_VERTICES, _ELEPHANT_BONES
    skeleton = _skeleton(bones, rng)
    if kind.startswith("two_layer"):
        few = 2 if kind == "two_layer-paper" else 3  # virtual bones per vertex
        virtual = 2 * count // (bones + 1) if few == 2 else count // bones
        # Neighbours in the list share their virtual bones, as neighbours on a surface do.
        near = np.arange(count) * virtual // count
        more = [np.minimum(near + rng.integers(1, 8, count), virtual - 1) for _ in range(few - 1)]
        index = np.stack([near, *more], axis=1)
        part = rng.uniform(0.3, 1.2, (count, few - 1)) / (few - 1)
        weight = np.concatenate([part, 1 - part.sum(axis=1, keepdims=True)], axis=1)
        dense = rng.normal(size=(virtual, bones)) * 0.1 + 1 / bones
        rows = np.tile(np.arange(bones), (virtual, 1))
        skin = Skin(index, weight, "linear", rows, dense / dense.sum(1, keepdims=True))
    else:
        skin = _spread_skin(count, bones, 4 if kind == "lbs-4" else bones, rng)
    return Deformer(_strip(count), skeleton, skin=skin, method=kind)


def random_poses(
    deformer: Deformer, count: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray | None]:
    """Bones (T,B,3,4), each rotated about its own head, and controls (T,C) or None."""
    rng = np.random.default_rng(seed)
    skeleton = deformer.skeleton
    if skeleton is None:
        raise InputError("random poses need a deformer with bones")
    rest = np.tile(np.eye(4), (skeleton.bone_count, 1, 1))
    rest[:, :3] = skeleton.world_from_bone
    turn = np.tile(np.eye(4), (count, skeleton.bone_count, 1, 1))
    turn[..., :3, :3] = rotation_from_axis_angle(
        rng.normal(size=(count, skeleton.bone_count, 3)) * 0.2
    )
    world = np.empty_like(turn)
    for bone, parent in enumerate(skeleton.parents):
        start = (
            rest[bone]
            if parent < 0
            else world[:, parent] @ np.linalg.inv(rest[parent]) @ rest[bone]
        )
        world[:, bone] = start @ turn[:, bone]
    controls = (
        None
        if deformer.control_spec is None
        else rng.uniform(-1, 1, (count, deformer.control_spec.count))
    )
    return np.ascontiguousarray(world[..., :3, :]), controls


def _fdda(count: int, nets: int, bones: float, components: float, seed: int) -> Deformer:
    """A rigid skin with one network of 2 x 128 and one basis per bone.

    bones, components  that a network reads and predicts, on average over the networks
    """
    rng = np.random.default_rng(seed)
    skeleton = _skeleton(nets, rng)
    columns = np.arange(12, 12 * nets)
    owner = np.sort(rng.integers(0, nets, count))
    read, made = _whole_numbers(bones, nets), _whole_numbers(components, nets)
    networks, bases, free = [], [], 0
    for g in range(nets):
        first = int(np.clip(g - read[g] // 2, 1, nets - read[g]))
        inputs = np.arange(12 * (first - 1), 12 * (first - 1 + read[g]))
        outputs = np.arange(free, free := free + int(made[g]))
        vertices = np.flatnonzero(owner == g)
        networks.append(_net(rng, inputs, (128, 128), outputs))
        bases.append(Basis(vertices, _basis(rng, 3 * len(vertices), len(outputs)), outputs))
    return Deformer(
        _strip(count),
        skeleton,
        None,
        Skin.rigid(owner),
        _features(columns),
        tuple(networks),
        tuple(bases),
        method="fdda",
    )


def _whole_numbers(average: float, count: int) -> np.ndarray:
    """`count` whole numbers with the given average, (count,).

    >>> _whole_numbers(2.5, 4).tolist()
    [3, 2, 3, 2]
    """
    return np.diff(np.round(average * np.arange(count + 1) + 1e-9)).astype(int)


def _net(
    rng,
    inputs: np.ndarray,
    hidden: tuple[int, ...],
    outputs: np.ndarray,
    activation: str = "tanh",
    gain: float = 1.0,
) -> Net:
    sizes = [len(inputs), *hidden, len(outputs)]
    weights = tuple(
        (rng.normal(size=(b, a)) / np.sqrt(a)).astype(np.float32) for a, b in zip(sizes, sizes[1:])
    )
    weights[0][:] *= np.float32(gain)
    return Net(
        inputs, weights, tuple(rng.normal(size=b) * 0.1 for b in sizes[1:]), outputs, activation
    )


def _basis(rng, rows: int, components: int) -> np.ndarray:
    return rng.standard_normal((rows, components), dtype=np.float32) / np.float32(
        np.sqrt(components)
    )


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


def _spread_skin(count: int, bones: int, influences: int, rng, fewest: int | None = None) -> Skin:
    """Weights on consecutive bones: `influences` of them, or a random number from `fewest` on."""
    start = (np.arange(count) * max(1, bones - influences + 1) // count)[:, None]
    weight = rng.uniform(0.05, 1, (count, influences))
    if fewest is not None:
        weight[np.arange(influences) >= rng.integers(fewest, influences + 1, count)[:, None]] = 0
    return Skin(start + np.arange(influences), weight / weight.sum(1, keepdims=True))


def _strip(count: int) -> Mesh:
    """A triangle strip around a column of the height of the characters."""
    angle, up = np.arange(count) * 0.7, np.linspace(0, _HEIGHT, count)
    vertices = np.stack([20 * np.cos(angle), up, 20 * np.sin(angle)], axis=1)
    first = np.arange(count - 2)
    return Mesh.from_faces(vertices, np.stack([first, first + 1, first + 2], axis=1), unit="cm")
