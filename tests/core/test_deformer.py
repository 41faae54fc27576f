import numpy as np
import pytest
from builders import chain_skeleton, full_deformer, grid_mesh, random_motion
from parity.kinds import unclamped
from scipy.special import erf

from understudy import Basis, Deformer, Features, InputError, Net, Skin
from understudy.core.networks import NetGroups
from understudy.geometry.transforms import compose, rotation_from_axis_angle

KINDS = [
    (blend, virtual, activation)
    for blend in ("linear", "dual_quaternion")
    for virtual in (False, True)
    for activation in ("tanh", "relu", "gelu")
]


def drivers(deformer, poses=4, seed=1):
    rng = np.random.default_rng(seed)
    return random_motion(deformer.skeleton, poses, seed), rng.normal(
        size=(poses, deformer.control_spec.count)
    )


def slow_deform(deformer, world_from_bone, controls):
    """The equations of the module, one pose, one net and one vertex at a time, in double precision;
    linear blending only.
    """
    result = np.zeros((len(world_from_bone), deformer.mesh.vertex_count, 3))
    four = lambda m: np.vstack([m, [0, 0, 0, 1]])
    for t, world in enumerate(world_from_bone):
        raw = []
        for bone, parent in enumerate(deformer.skeleton.parents):
            local = (
                four(world[bone])
                if parent < 0
                else np.linalg.inv(four(world[parent])) @ four(world[bone])
            )
            raw.extend(local[:3].reshape(-1))
        raw = np.array([*raw, *controls[t]])
        x = np.clip(raw[deformer.features.columns], deformer.features.low, deformer.features.high)
        c = np.zeros(deformer.coefficient_count)
        for net in deformer.nets:
            h = x[net.inputs]
            for layer, (w, b) in enumerate(zip(net.weights, net.biases)):
                h = w @ h + b
                if layer < len(net.weights) - 1:
                    h = {
                        "tanh": np.tanh,
                        "relu": lambda v: np.maximum(v, 0),
                        "gelu": lambda v: (
                            0.5 * v * (1 + np.vectorize(__import__("math").erf)(v / 2**0.5))
                        ),
                    }[net.activation](h)
            for place, value in zip(net.outputs, h):
                c[place] += value
        d = deformer.mean.astype(float).copy()
        for basis in deformer.bases:
            for n, v in enumerate(basis.vertices):
                for axis in range(3):
                    d[v, axis] += (
                        basis.matrix[n] @ c[basis.coefficients[axis]]
                        if basis.shared
                        else basis.matrix[3 * n + axis] @ c[basis.coefficients]
                    )
        m = [
            four(world[b]) @ np.linalg.inv(four(deformer.skeleton.world_from_bone[b]))
            for b in range(len(world))
        ]
        if deformer.skin.virtual_index is not None:
            m = [
                sum(w * m[b] for b, w in zip(*row))
                for row in zip(deformer.skin.virtual_index, deformer.skin.virtual_weight)
            ]
        for v in range(deformer.mesh.vertex_count):
            blended = sum(
                w * m[b] for b, w in zip(deformer.skin.bone_index[v], deformer.skin.weight[v])
            )
            result[t, v] = (blended @ [*(deformer.mesh.vertices[v] + d[v]), 1])[:3]
    return result


@pytest.mark.parametrize(("blend", "virtual", "activation"), [k for k in KINDS if k[0] == "linear"])
def test_deform_is_the_equations(blend, virtual, activation):
    deformer = full_deformer(blend, virtual, activation)
    bones, controls = drivers(deformer)
    np.testing.assert_allclose(
        deformer.deform(bones, controls), slow_deform(deformer, bones, controls), atol=2e-6
    )


@pytest.mark.parametrize(("blend", "virtual", "activation"), KINDS)
def test_moving_all_bones_rigidly_moves_the_mesh_rigidly(blend, virtual, activation):
    deformer = full_deformer(blend, virtual, activation)
    bones, controls = drivers(deformer)
    rigid = np.hstack(
        [rotation_from_axis_angle(np.array([0.4, -1.0, 2.0])), [[3.0], [-2.0], [5.0]]]
    )
    before = deformer.deform(bones, controls)
    after = deformer.deform(compose(rigid, bones), controls)
    np.testing.assert_allclose(after, before @ rigid[:, :3].T + rigid[:, 3], atol=2e-5)


def test_far_from_the_origin_nothing_is_lost():
    deformer = full_deformer()
    bones, controls = drivers(deformer)
    far = bones.copy()
    far[..., 3] += [1e6, 0, 0]
    difference = (
        deformer.deform(far, controls).astype(np.float64)
        - [1e6, 0, 0]
        - deformer.deform(bones, controls)
    )
    assert (
        np.abs(difference).max() <= 0.0626
    )  # the spacing of float32 at 1e6 is 0.0625: rounding of the result alone
    assert np.abs(difference[..., 1:]).max() < 1e-5


def test_features_are_held_to_their_range():
    deformer = full_deformer()
    bones, controls = drivers(deformer)
    far = controls.copy()
    far[:, 0] = 1e3
    edge = controls.copy()
    edge[:, 0] = 0.9  # the upper end of that feature's range
    np.testing.assert_array_equal(
        deformer.displacements(bones, far), deformer.displacements(bones, edge)
    )
    free = unclamped(deformer)
    assert np.abs(free.displacements(bones, far) - free.displacements(bones, edge)).max() > 1e-3


def test_one_pose_without_its_axis():
    deformer = full_deformer()
    bones, controls = drivers(deformer)
    np.testing.assert_allclose(
        deformer.deform(bones[2], controls[2]), deformer.deform(bones, controls)[2], atol=1e-6
    )


def test_blocks_do_not_change_the_result(monkeypatch):
    deformer = full_deformer()
    bones, controls = drivers(deformer, 9)
    whole = deformer.deform(bones, controls)
    monkeypatch.setattr("understudy.runtime.reference._BLOCK_VALUES", 1)
    np.testing.assert_allclose(deformer.deform(bones, controls), whole, atol=1e-6)


def test_cost_counts_what_is_there():
    skeleton, mesh = chain_skeleton(), grid_mesh()
    plain = Deformer(mesh, skeleton, skin=Skin.rigid(np.zeros(mesh.vertex_count, int)))
    assert plain.cost() == {
        "bytes": 4 * 5 * mesh.vertex_count,
        "multiply_adds": 21 * mesh.vertex_count,
    }
    assert full_deformer().cost()["bytes"] > plain.cost()["bytes"]


def test_a_mesh_without_bones_is_driven_by_controls_alone():
    spec = full_deformer().control_spec
    mesh = grid_mesh()
    net = Net([0], (np.array([[2.0]]),), (np.array([0.5]),), [0])
    deformer = Deformer(
        mesh,
        control_spec=spec,
        features=Features([0], [-9], [9]),
        nets=(net,),
        bases=(Basis([4], [[1.0], [0.0], [0.0]], [0]),),
    )
    moved = deformer.deform(controls=np.array([[1.0, 0.0]]))
    assert moved[0, 4, 0] - mesh.vertices[4, 0] == pytest.approx(2.5)
    np.testing.assert_array_equal(np.delete(moved[0], 4, 0), np.delete(mesh.vertices, 4, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d, b, c: d.deform(b[:, :2], c),
            r"world_from_bone: expected shape \(any, 3, 3, 4\), got \(4, 2, 3, 4\)",
        ),
        (lambda d, b, c: d.deform(b, c[:, :1]), "controls: expected shape"),
        (lambda d, b, c: d.deform(b, c[:2]), "controls has 2 poses, world_from_bone has 4"),
        (lambda d, b, c: d.deform(b), "controls are missing"),
        (lambda d, b, c: d.deform(controls=c), "world_from_bone is missing"),
        (lambda d, b, c: d.deform(np.where(b > 0, np.nan, b), c), "NaN or infinite"),
        (lambda d, b, c: Deformer(d.mesh, d.skeleton), "skeleton and skin belong together"),
        (
            lambda d, b, c: Deformer(
                d.mesh, d.skeleton, skin=Skin.rigid(np.full(d.mesh.vertex_count, 3))
            ),
            "index 3 is outside 0..2",
        ),
        (lambda d, b, c: Skin([[0]], [[0.5]]), "sums to 0.5"),
        (lambda d, b, c: Skin([[0, 0]], [[3e38, 3e38]]), r"sums to 6e\+38"),  # and no warning
        (lambda d, b, c: Skin([[0]], [[1.0]], "cubic"), "unknown blend 'cubic'"),
        (
            lambda d, b, c: Net([0], ([[1.0, 2.0]],), ([0.0],), [0]),
            "net weight of layer 0: expected shape",
        ),
        (lambda d, b, c: Features([0], [1.0], [0.0]), "low is above high"),
    ],
)
def test_wrong_input_is_named(change, message):
    deformer = full_deformer()
    with pytest.raises(InputError, match=message):
        change(deformer, *drivers(deformer))


def test_gelu_has_the_error_function_of_scipy():
    net = Net([0], ([[1.0]], [[1.0]]), ([0.0], [0.0]), [0], "gelu")
    x = np.concatenate([np.linspace(-8, 8, 4001), np.geomspace(1e-30, 1, 500)]).astype(np.float32)
    expected = (0.5 * x * (1 + erf(x / np.sqrt(2)))).astype(np.float32)
    found = NetGroups([net], 1, 1)(x[:, None])[:, 0]
    np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-15)
