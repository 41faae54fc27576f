"""Every kind of deformer the form allows, by name, and drivers for them: the inputs of the parity
suites.

`python -m parity.kinds FOLDER` writes them all as files, for programs that are not Python.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from builders import chain_skeleton, full_deformer, grid_mesh, random_motion
from posing_builders import driven_by_controls

from understudy import Basis, Bounds, ControlSpec, Deformer, Features, Net, Skin
from understudy.runtime.reference import pose_readings


def _skin(influences: int, blend: str = "linear", seed: int = 0) -> Deformer:
    """A larger mesh with any number of influences and nothing else."""
    rng = np.random.default_rng(seed)
    mesh, skeleton = grid_mesh(40, 7, unit="cm"), chain_skeleton(12)
    weight = rng.random((mesh.vertex_count, influences)) ** 4
    index = np.stack([rng.permutation(12)[:influences] for _ in range(mesh.vertex_count)])
    return Deformer(mesh, skeleton, skin=Skin(index, weight / weight.sum(1, keepdims=True), blend))


def _sparse(blend: str) -> Deformer:
    """Most influences are zero, the first among them too."""
    deformer = _skin(4, blend)
    weight = deformer.skin.weight.copy()
    weight[::2, 1:] = 0
    weight[1::3, 0] = 0
    weight[weight.sum(1) == 0, 2] = 1
    return replace(
        deformer, skin=Skin(deformer.skin.bone_index, weight / weight.sum(1, keepdims=True), blend)
    )


def _dense() -> Deformer:
    """Every bone moves every vertex."""
    deformer = _skin(12)
    return replace(
        deformer,
        skin=Skin(np.tile(np.arange(12), (deformer.mesh.vertex_count, 1)), deformer.skin.weight),
    )


def _two_layer(influences: int) -> Deformer:
    """Two virtual bones a vertex, each a blend of every bone; more of them than a register has
    lanes, and not a multiple.
    """
    rng = np.random.default_rng(5)
    deformer, count = _skin(2), 41
    index = np.stack([rng.permutation(count)[:2] for _ in range(deformer.mesh.vertex_count)])
    bones = np.stack([rng.permutation(12)[:influences] for _ in range(count)])
    weight = rng.uniform(-0.5, 1.5, bones.shape) + 1
    return replace(
        deformer,
        skin=Skin(
            index, deformer.skin.weight, "linear", bones, weight / weight.sum(1, keepdims=True)
        ),
    )


def _controls_only() -> Deformer:
    spec = ControlSpec(("smile", "frown"), [0, 0], [1, 1])
    net = Net([0, 1], (np.array([[2.0, 1.0], [0.5, -1.0]]),), (np.array([0.5, 0.1]),), [0, 1])
    basis = Basis([4, 7], np.random.default_rng(0).normal(size=(6, 2)), [1, 0])
    return Deformer(
        grid_mesh(),
        control_spec=spec,
        features=Features([0, 1], [-9, -9], [9, 9]),
        nets=(net,),
        bases=(basis,),
    )


def _wide() -> Deformer:
    """Layers of 130 and 70 units, bases of 500 and 200 rows: panels of every height, and
    coefficients that several nets write or none.
    """
    rng = np.random.default_rng(3)
    mesh, skeleton = grid_mesh(40, 7, unit="cm"), chain_skeleton(5)
    columns = np.arange(12, 60)

    def net(inputs, hidden, outputs, activation):
        sizes = [len(inputs), *hidden, len(outputs)]
        weights = tuple(rng.normal(size=(b, a)) / np.sqrt(a) for a, b in zip(sizes, sizes[1:]))
        return Net(
            inputs,
            weights,
            tuple(np.abs(rng.normal(size=b)) * 0.2 for b in sizes[1:]),
            outputs,
            activation,
        )

    nets = (
        net(np.arange(48), (130, 70), np.arange(0, 33), "tanh"),
        net(np.arange(10, 25), (17,), np.arange(20, 50), "gelu"),
        net(np.arange(5), (), [60, 61], "tanh"),
        net(np.arange(30, 48), (64, 16, 1), [10, 62], "relu"),
        net(np.arange(3), (9,), np.arange(63, 70), "relu"),
    )
    own = np.sort(rng.permutation(mesh.vertex_count)[:167])
    bases = (
        Basis(own, rng.normal(size=(3 * len(own), 45)) * 0.02, rng.permutation(70)[:45]),
        Basis(np.arange(200), rng.normal(size=(200, 20)) * 0.02, rng.integers(0, 70, (3, 20))),
        Basis([5, 1], np.zeros((6, 0)), np.zeros(0, int)),
    )
    skin = Skin.rigid(rng.integers(0, 5, mesh.vertex_count))
    return Deformer(
        mesh,
        skeleton,
        skin=skin,
        features=Features(columns, np.full(48, -0.7), np.full(48, 0.8)),
        nets=nets,
        bases=bases,
    )


def _side_by_side(blend: str = "linear") -> Deformer:
    """Coefficients that lie as the nets wrote them, of one net or on into the next, beside some
    that do not.
    """
    rng = np.random.default_rng(5)
    mesh, skeleton = grid_mesh(20, 7, unit="cm"), chain_skeleton(5)
    outputs = (np.arange(16), np.arange(16, 40), np.arange(40, 47))
    nets = tuple(
        Net(
            np.arange(48),
            (rng.normal(size=(20, 48)) * 0.1, rng.normal(size=(len(own), 20)) * 0.2),
            (np.zeros(20), rng.normal(size=len(own))),
            own,
            "tanh",
        )
        for own in outputs
    )
    named = (
        np.arange(3, 14),
        rng.permutation(47)[:9],
        np.arange(10, 30),
        rng.integers(0, 47, (3, 5)),
        np.arange(40, 47),
        [8],
    )
    bases = []
    for coefficients in named:
        vertices = np.sort(rng.permutation(mesh.vertex_count)[:50])
        rows = len(vertices) * (3 if np.ndim(coefficients) == 1 else 1)
        bases.append(
            Basis(
                vertices, rng.normal(size=(rows, np.shape(coefficients)[-1])) * 0.05, coefficients
            )
        )
    skin = Skin(
        np.tile([0, 2, 4], (mesh.vertex_count, 1)),
        rng.dirichlet(np.ones(3), mesh.vertex_count),
        blend,
    )
    features = Features(np.arange(12, 60), np.full(48, -0.7), np.full(48, 0.8))
    return Deformer(mesh, skeleton, skin=skin, features=features, nets=nets, bases=tuple(bases))


def upright(deformer: Deformer) -> Deformer:
    """Standing instead of lying: beside its height a grid of 16 bits is then fine enough for its
    rest.
    """
    return replace(
        deformer, mesh=replace(deformer.mesh, vertices=deformer.mesh.vertices[:, [1, 0, 2]])
    )


def unclamped(deformer: Deformer) -> Deformer:
    """The same deformer with features that are not clamped."""
    wide = np.full(deformer.features.count, np.inf, np.float32)
    return replace(deformer, features=replace(deformer.features, low=-wide, high=wide))


def masked(deformer: Deformer) -> Deformer:
    """The same deformer with a mask that has zeros, ones and numbers between."""
    mask = np.random.default_rng(4).uniform(-0.5, 1.5, deformer.mesh.vertex_count)
    return replace(deformer, mask=mask.clip(0, 1))


def bounded(deformer: Deformer) -> Deformer:
    """The same deformer with bounds that clamp many coefficients of `drivers` and fade some.

    Units have different numbers of features and clusters, groups different numbers of units, and
    some coefficients never fade.
    """
    rng = np.random.default_rng(9)
    bones, controls = drivers(deformer)
    given = pose_readings(deformer, bones, controls)
    found = deformer.net_groups(np.clip(given, deformer.features.low, deformer.features.high))
    low, high = np.sort(np.quantile(found, [0.2, 0.7], axis=0), axis=0)
    units, clusters, width = 6, 11, min(5, given.shape[1])
    features = rng.integers(0, given.shape[1], (units, width))
    scale = rng.uniform(0.2, 1.2, (units, width))
    scale[1:3, 1:] = 0  # of a repeated feature
    features[1:3, 1:] = features[1:3, :1]
    centres = given[rng.integers(0, len(given), (units, clusters))][
        np.arange(units)[:, None, None], np.arange(clusters)[:, None], features[:, None]
    ]
    centres[3, 4:] = centres[3, 0]
    centres += rng.normal(size=centres.shape) * 0.5
    of_groups = rng.integers(0, units, (4, 3))
    of_groups[0] = of_groups[0, 0]
    bounds = Bounds(
        low=low,
        high=high,
        group=rng.integers(-1, 4, len(low)),
        units=of_groups,
        features=features,
        scale=scale * 4,
        centres=centres,
        fade_end=1.7,
    )
    return replace(deformer, bounds=bounds)


KINDS = {
    **{
        f"full-{blend}-{'virtual' if virtual else 'direct'}-{activation}": (
            lambda b=blend, v=virtual, a=activation: full_deformer(b, v, a)
        )
        for blend in ("linear", "dual_quaternion")
        for virtual in (False, True)
        for activation in ("tanh", "relu", "gelu")
    },
    **{f"skin-{k}": (lambda k=k: _skin(k)) for k in (1, 2, 3, 4, 5, 9, 12)},
    **{f"dual-{k}": (lambda k=k: _skin(k, "dual_quaternion")) for k in (1, 4, 12)},
    "dense": _dense,
    **{f"two-layer-{k}": (lambda k=k: _two_layer(k)) for k in (3, 12)},
    "sparse-linear": lambda: _sparse("linear"),
    "sparse-dual": lambda: _sparse("dual_quaternion"),
    "rigid": lambda: replace(_skin(1), skin=Skin.rigid(np.arange(280) % 12)),
    "controls-only": _controls_only,
    "wide": _wide,
    "side-by-side": _side_by_side,
    "side-by-side-dual": lambda: _side_by_side("dual_quaternion"),
    "side-by-side-packed": lambda: upright(_side_by_side()).half(),
    "several-roots": lambda: _flat(full_deformer()),
    "several-roots-packed": lambda: upright(_flat(_wide())).half(),
    "wide-half": lambda: _wide().half(),
    "full-half": lambda: full_deformer().half(),
    "wide-packed": lambda: upright(_wide()).half(),
    "full-packed": lambda: upright(full_deformer()).half(),
    "full-packed-virtual-dual": lambda: upright(
        full_deformer("dual_quaternion", virtual=True, activation="relu")
    ).half(),
    "skin-packed": lambda: upright(_skin(4)).half(),
    "sparse-packed": lambda: upright(_sparse("linear")).half(),
    "sparse-packed-dual": lambda: upright(_sparse("dual_quaternion")).half(),
    "rigid-packed": lambda: upright(KINDS["rigid"]()).half(),
    "controls-packed": lambda: upright(_controls_only()).half(),
    "unclamped": lambda: unclamped(full_deformer()),
    "full-bounded": lambda: bounded(full_deformer()),
    "wide-bounded": lambda: bounded(_wide()),
    "wide-bounded-packed": lambda: bounded(upright(_wide()).half()),
    "side-by-side-bounded": lambda: bounded(_side_by_side()),
    "side-by-side-bounded-dual": lambda: bounded(_side_by_side("dual_quaternion")),
    "controls-bounded": lambda: bounded(_controls_only()),
    "posed": lambda: driven_by_controls(full_deformer()),
    "posed-packed": lambda: driven_by_controls(upright(full_deformer()).half()),
    "masked": lambda: masked(full_deformer()),
    "masked-wide-packed": lambda: masked(upright(_wide()).half()),
    "mean-only": lambda: replace(full_deformer(), nets=(), bases=(), features=Features()),
}


def _flat(deformer: Deformer) -> Deformer:
    """The same with bones that have no parents."""
    none = np.full(deformer.skeleton.bone_count, -1)
    return replace(deformer, skeleton=replace(deformer.skeleton, parents=none))


def drivers(deformer: Deformer, poses: int = 21, seed: int = 1):
    """Bones and controls, None where the deformer has none; bones follow controls that determine
    them. By default more poses than the runtime
    takes at once, 16, and some that are left.
    """
    rng = np.random.default_rng(seed)
    bones = None if deformer.skeleton is None else random_motion(deformer.skeleton, poses, seed)
    controls = (
        None
        if deformer.control_spec is None
        else rng.normal(size=(poses, deformer.control_spec.count))
    )
    if deformer.poses_bones:
        bones = deformer.posing.bones_at(controls)
    return bones, controls


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in KINDS.items():
        make().save(folder / f"{name}.understudy")
