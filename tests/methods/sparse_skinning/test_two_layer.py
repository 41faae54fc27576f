"""two_layer: invariants of both layers, the compiled loops against the paper, wrong inputs."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import two_layer_reference
from builders import chain_skeleton, full_deformer, grid_mesh, random_motion
from understudy.methods.sparse_skinning._two_layer import Factorization

from understudy import Deformer, Mesh, Poses, Skin
from understudy.geometry.adjacency import connected_components
from understudy.geometry.transforms import compose, rotation_from_axis_angle
from understudy.methods.sparse_skinning.dense import Examples, dense_weights, mesh_adjacency
from understudy.methods.sparse_skinning.factorization import Factors, Objective, factorize
from understudy.methods.sparse_skinning.two_layer import TwoLayer, TwoLayerConfig
from understudy.system.errors import InputError
from understudy_benchmarks.baselines.k_largest import KLargest
from understudy_benchmarks.metrics import decomposition_error


def smooth_weights(mesh: Mesh, bones: int) -> np.ndarray:
    """Every bone has a weight at every vertex, different in x and y."""
    x, y = mesh.vertices[:, :1], mesh.vertices[:, 1:2]
    reach = np.exp(-3 * (x - np.linspace(0, 2, bones) + 0.3 * y * np.arange(bones) / bones) ** 2)
    return reach / reach.sum(axis=1, keepdims=True)


def dense_deformer(mesh: Mesh, weights: np.ndarray) -> Deformer:
    bones = weights.shape[1]
    skin = Skin(np.tile(np.arange(bones), (len(weights), 1)), weights.astype(np.float32))
    return Deformer(mesh, chain_skeleton(bones), skin=skin, method="lbs")


def graph_arrays(mesh: Mesh) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Starts, neighbours and shells, as the compiled factorisation takes them."""
    graph = mesh_adjacency(mesh)
    return (
        graph.indptr.astype(np.int64),
        graph.indices.astype(np.int32),
        connected_components(graph),
    )


@pytest.fixture(scope="module")
def dense() -> Deformer:
    mesh = grid_mesh(40, 9)
    return dense_deformer(mesh, smooth_weights(mesh, 6))


@pytest.fixture(scope="module")
def motion(dense) -> np.ndarray:
    return random_motion(dense.skeleton, 12)


def reduce(deformer, motion=None, vertices=None, **options):
    return TwoLayer(TwoLayerConfig(**options)).reduce(deformer, motion, vertices)


def error(deformer, reduced, motion):
    return decomposition_error(
        deformer.deform(motion), reduced.deform(motion), deformer.mesh.vertices
    )


@pytest.mark.parametrize("examples", [True, False])
@pytest.mark.parametrize(
    ("per_vertex", "bones_per_virtual"), [(1, None), (2, None), (2, 3), (3, 2), (4, 1)]
)
def test_both_layers_sum_to_one_and_keep_their_cardinalities(
    dense, motion, examples, per_vertex, bones_per_virtual
):
    skin = reduce(
        dense,
        motion,
        per_vertex=per_vertex,
        bones_per_virtual=bones_per_virtual,
        virtual_bones=20,
        examples=examples,
    ).skin
    assert skin.weight.shape[1] <= per_vertex
    assert skin.virtual_weight.shape[1] <= (bones_per_virtual or 6)
    assert len(skin.virtual_weight) <= 20
    for weight in (skin.weight, skin.virtual_weight):
        assert weight.dtype == np.float32
        np.testing.assert_allclose(weight.sum(axis=1, dtype=np.float64), 1, atol=2e-6)


def test_four_bones_per_vertex_is_the_number_of_blending_operations(dense, motion):
    reduced = reduce(dense, motion, bones_per_vertex=4)
    training, skin = reduced.training, reduced.skin
    count = dense.mesh.vertex_count
    assert training["bones_per_vertex"] <= 4
    assert training["bones_per_vertex"] == pytest.approx(3 + skin.virtual_weight.size / count)
    assert training["virtual_bones"] <= (4 - 3) * count / skin.virtual_weight.shape[1]
    assert training["memory_overhead_bytes"] == 16 * 4 * len(skin.virtual_weight)
    plain = 4 * count + 16 * 6 + 2 * count * training["bones_per_vertex"]
    assert training["memory_overhead_pct"] == pytest.approx(
        100 * 16 * len(skin.virtual_weight) / plain
    )


@pytest.mark.parametrize("kind", ["weights", "examples"])
@pytest.mark.parametrize("per_atom", [3, 6])
def test_the_error_never_rises_between_outer_iterations(dense, motion, kind, per_atom):
    weights = dense_weights(dense.skin, 6)
    poses = Poses(dense.mesh, dense.deform(motion), dense.skeleton, motion)
    target = (
        Objective.weights(weights)
        if kind == "weights"
        else Objective.examples(Examples.of(poses), weights)
    )
    factors = factorize(
        target,
        weights,
        dense.mesh,
        TwoLayerConfig(per_vertex=2, kappa=0.2, order="index", max_coefficient=None),
        atoms=40,
        per_atom=per_atom,
    )
    assert len(factors.history) > 10
    assert (np.diff(factors.history) <= 0).all()
    assert factors.history[-1] < 0.2 * factors.history[0]
    assert (np.count_nonzero(factors.dictionary, axis=1) <= per_atom).all()


def test_without_examples_three_virtual_bones_per_vertex_are_not_worse_than_two(dense, motion):
    best, *others = (
        reduce(dense, motion, examples=False, per_vertex=count).training["delta_w"]
        for count in (None, 2, 3)
    )
    assert best == min(others)
    assert others[0] != others[1]


def test_example_poses_lower_the_error_in_those_poses(dense, motion):
    weights_alone, with_examples = (  # smoothness trades error in positions for normals
        reduce(dense, motion, virtual_bones=12, smoothness=0.0, examples=examples)
        for examples in (False, True)
    )
    assert error(dense, with_examples, motion) < error(dense, weights_alone, motion)
    assert with_examples.training["e"] == pytest.approx(
        error(dense, with_examples, motion), rel=1e-3
    )
    assert weights_alone.training["delta_w"] < with_examples.training["delta_w"]


def test_true_vertices_are_fitted_rather_than_the_dense_skin(dense, motion):
    true = dense.deform(motion) + 0.02 * np.sin(5 * dense.mesh.vertices)
    to_skin, to_truth = (
        reduce(dense, motion, virtual_bones=60),
        reduce(dense, motion, true, virtual_bones=60),
    )
    assert np.linalg.norm(to_truth.deform(motion) - true) < np.linalg.norm(
        to_skin.deform(motion) - true
    )


def test_it_is_below_k_largest_at_the_same_blending_operations(dense, motion):
    assert (
        reduce(dense, examples=False).training["delta_w"]
        < 0.2 * KLargest().reduce(dense).training["delta_w"]
    )
    assert error(dense, reduce(dense, motion), motion) < 0.2 * error(
        dense, KLargest().reduce(dense), motion
    )


def test_growth_stops_at_the_error_asked_for(dense, motion):
    wanted = 2.0
    reduced = reduce(dense, motion, error=wanted, finish=0)
    above = reduced.training["e"] ** 2 - reduced.training["e_dense"] ** 2
    assert above <= wanted**2
    assert reduced.training["e"] > 0.3 * wanted
    assert reduced.training["virtual_bones"] < 0.5 * dense.mesh.vertex_count
    tighter = reduce(dense, motion, error=wanted / 10, finish=0)
    assert tighter.training["virtual_bones"] > reduced.training["virtual_bones"]
    assert reduce(dense, error=5.0, examples=False, finish=0).training["delta_w"] <= 5.0


def test_another_vertex_order_changes_the_error_by_less_than_two_percent(dense, motion):
    order = np.random.default_rng(0).permutation(dense.mesh.vertex_count)
    place = np.argsort(order).astype(np.int32)
    mesh = Mesh(
        dense.mesh.vertices[order], dense.mesh.polygon_sizes, place[dense.mesh.polygon_vertices]
    )
    shuffled = replace(
        dense, mesh=mesh, skin=Skin(dense.skin.bone_index[order], dense.skin.weight[order])
    )
    for options in ({"examples": True}, {"examples": False}):
        name = "e" if options["examples"] else "delta_w"
        one, two = (reduce(d, motion, **options).training[name] for d in (dense, shuffled))
        assert two == pytest.approx(one, rel=1e-3)


def test_rigid_motion_of_all_poses_leaves_the_error_alone(motion):
    """The poses have noise, so no skin fits them exactly."""
    mesh = grid_mesh(60, 15)
    deformer = dense_deformer(mesh, smooth_weights(mesh, 6))
    true = deformer.deform(motion) + 0.01 * np.sin(9 * mesh.vertices + np.arange(12)[:, None, None])
    turn = np.column_stack(
        [rotation_from_axis_angle(np.array([0.4, 1.0, -0.3])), [10.0, -5.0, 2.0]]
    )
    one = reduce(deformer, motion, true).training["e"]
    two = reduce(deformer, compose(turn, motion), true @ turn[:, :3].T + turn[:, 3]).training["e"]
    assert two == pytest.approx(one, rel=0.02)


def test_bones_moved_rigidly_move_the_mesh_rigidly(dense, motion):
    reduced = reduce(dense, motion)
    shift = np.array([3.0, -2.0, 1.0])
    moved = motion.copy()
    moved[..., 3] += shift
    np.testing.assert_allclose(
        reduced.deform(moved), reduced.deform(motion) + shift.astype(np.float32), atol=2e-5
    )


@pytest.mark.parametrize("examples", [True, False])
def test_shells_are_no_obstacle(examples):
    """Three strips and five loose vertices have the error of one strip with as many atoms."""
    one = grid_mesh(20, 5)
    count = one.vertex_count
    vertices = np.concatenate(
        [one.vertices + [0, 2.0 * n, 0] for n in range(3)] + [one.vertices[::25] + [0, -3.0, 0]]
    )
    faces = np.concatenate([one.polygon_vertices.reshape(-1, 4) + n * count for n in range(3)])
    weights = smooth_weights(one, 5)
    deformer = dense_deformer(
        Mesh.from_faces(vertices, faces), np.concatenate([weights] * 3 + [weights[::25]])
    )
    shells = connected_components(mesh_adjacency(deformer.mesh))
    assert len(np.unique(shells)) == 3  # loose vertices are linked to the strip nearest to them
    motion = random_motion(deformer.skeleton, 10)
    reduced = reduce(deformer, motion, virtual_bones=30, examples=examples)
    reached = dense_weights(reduced.skin, 5) - dense_weights(deformer.skin, 5)
    if not examples:  # the shells have the same weights and share their atoms
        alone = reduce(dense_deformer(one, weights), virtual_bones=30, examples=False).training[
            "delta_w"
        ]
        assert 1000 * np.sqrt(np.mean(reached**2)) < 1.5 * alone
    assert error(deformer, reduced, motion) < 0.1 * error(
        deformer, KLargest(KLargest.Config(influences=2)).reduce(deformer), motion
    )


@pytest.mark.parametrize("bones", [1, 2, 5])
@pytest.mark.parametrize("examples", [True, False])
def test_one_vertex_is_exact(bones, examples):
    weights = np.arange(1.0, bones + 1)[None] / np.arange(1.0, bones + 1).sum()
    deformer = dense_deformer(Mesh([[0.3, 0.2, 0.1]], [], []), weights)
    motion = random_motion(deformer.skeleton, 3)
    reduced = reduce(deformer, motion, examples=examples)
    np.testing.assert_allclose(reduced.deform(motion), deformer.deform(motion), atol=1e-5)


def test_fewer_bones_than_the_dictionary_allows(dense):
    mesh = dense.mesh
    deformer = dense_deformer(mesh, smooth_weights(mesh, 2))
    motion = random_motion(deformer.skeleton, 6)
    reduced = reduce(deformer, motion, bones_per_virtual=9, virtual_bones=500)
    assert reduced.skin.virtual_weight.shape[1] <= 2
    assert error(deformer, reduced, motion) < 0.01
    single = reduce(deformer, motion, virtual_bones=1)
    assert reduced.training["e"] < single.training["e"]
    assert len(single.skin.virtual_weight) == 1


def test_a_virtual_layer_can_be_reduced_again(dense, motion):
    once = reduce(dense, motion)
    twice = reduce(once, motion, virtual_bones=10)
    assert len(twice.skin.virtual_weight) <= 10
    assert np.isfinite(twice.deform(motion)).all()


def test_growth_and_propagation_are_those_of_the_reference(dense):
    mesh = grid_mesh(12, 4)
    weights = smooth_weights(mesh, 4)
    starts, neighbours, shells = graph_arrays(mesh)
    core = Factorization(
        np.ones((len(weights), 1), np.float32),
        weights.astype(np.float32),
        np.eye(4)[:, None, :],
        weights,
        starts,
        neighbours,
        shells,
        per_vertex=2,
        per_atom=4,
    )
    core.initialize(2)
    lists = [neighbours[a:b].tolist() for a, b in zip(starts, starts[1:])]
    plain = two_layer_reference.Reference(weights, lists)
    for _ in range(6):
        core.add_atoms(1)
        plain.add_atom()
    dictionary, index, coefficient = core.state()
    np.testing.assert_allclose(dictionary, plain.dictionary, atol=1e-12)
    have = np.zeros((len(weights), len(dictionary)))
    np.add.at(have, (np.arange(len(weights))[:, None], index), coefficient)
    np.testing.assert_allclose(
        have @ dictionary, plain.coefficients() @ plain.dictionary, atol=1e-3
    )
    assert core.error() == pytest.approx(plain.errors.sum(), rel=1e-3)

    core.update_dictionary()
    np.testing.assert_allclose(
        core.state()[0], two_layer_reference.update_dictionary(dictionary, have, weights), atol=1e-5
    )


def test_the_exact_dictionary_update_lowers_the_error_in_the_poses_where_eq_5_need_not(
    dense, motion
):
    weights = dense_weights(dense.skin, 6)
    examples = Examples.of(Poses(dense.mesh, dense.deform(motion), dense.skeleton, motion))
    starts, neighbours, shells = graph_arrays(dense.mesh)
    core = Factorization(
        examples.point.astype(np.float32),
        examples.target.astype(np.float32),
        examples.bones,
        weights,
        starts,
        neighbours,
        shells,
        per_vertex=2,
        per_atom=6,
    )
    core.initialize(2)
    core.add_atoms(10)
    before, (dictionary, index, coefficient) = core.error(), core.state()
    spread = np.zeros((len(weights), len(dictionary)))
    np.add.at(spread, (np.arange(len(weights))[:, None], index), coefficient)
    assert examples.squared_error(spread @ dictionary) == pytest.approx(before, rel=1e-3)
    published = examples.squared_error(
        spread @ two_layer_reference.update_dictionary(dictionary, spread, weights)
    )
    core.update_dictionary()
    assert core.error() < min(before, published)


def examples_core(dense, motion, **options):
    """The compiled factorisation of example poses, with two atoms and ten more."""
    weights = dense_weights(dense.skin, 6)
    examples = Examples.of(Poses(dense.mesh, dense.deform(motion), dense.skeleton, motion))
    core = Factorization(
        examples.point.astype(np.float32),
        examples.target.astype(np.float32),
        examples.bones,
        weights,
        *graph_arrays(dense.mesh),
        per_vertex=2,
        per_atom=6,
        **options,
    )
    core.initialize(2)
    core.add_atoms(10)
    return core, weights, examples


def product_weights(core):
    dictionary, index, coefficient = core.state()
    return Factors(dictionary, index, coefficient).weights()


def test_the_published_dictionary_update_is_that_of_the_reference(dense, motion):
    core, weights, _ = examples_core(dense, motion)
    dictionary, index, coefficient = core.state()
    spread = np.zeros((len(weights), len(dictionary)))
    np.add.at(spread, (np.arange(len(weights))[:, None], index), coefficient)
    core.update_dictionary_from_weights()
    np.testing.assert_allclose(
        core.state()[0],
        two_layer_reference.update_dictionary(dictionary, spread, weights),
        atol=1e-9,
    )


def test_the_paper_preset_counts_and_bounds_nothing_that_the_paper_does_not(dense, motion):
    paper = TwoLayerConfig.of_preset("paper")
    reduced = TwoLayer(paper).reduce(dense, motion)
    # Section 4: Sigma = (4 - 2) n / c with c = k + 1 for dense weights.
    assert len(reduced.skin.virtual_weight) <= int(2 * dense.mesh.vertex_count / 7)
    assert len(reduced.skin.virtual_weight) > 0.9 * 2 * dense.mesh.vertex_count / 7
    assert reduced.skin.weight.shape[1] == 2
    assert (paper.fairness(100), paper.max_coefficient) == (0, None)
    assert error(dense, reduced, motion) < 0.5 * error(dense, KLargest().reduce(dense), motion)


def test_coefficients_are_bounded(dense, motion):
    for limit in (1.0, 1.5):
        skin = reduce(dense, motion, virtual_bones=12, max_coefficient=limit).skin
        assert np.abs(skin.weight).max() <= limit + 1e-5


def test_coupled_updates_lower_the_value_and_leave_a_fairer_residual(dense, motion):
    plain, _, examples = examples_core(dense, motion)
    graph = mesh_adjacency(dense.mesh)
    coupling = np.full(graph.nnz, 0.5, np.float32)
    core, _, _ = examples_core(dense, motion, coupling=coupling)
    core.restore(*plain.state())
    laplacian = 0.5 * (sp.diags(np.diff(graph.indptr).astype(float)) - (graph != 0))

    def residual(core):
        spread = product_weights(core)[:, :, None] * examples.point[:, None, :]
        bones = examples.bones.reshape(24, -1)
        return spread.reshape(len(spread), -1) @ bones - examples.target

    def value(core):
        x = residual(core)
        return float(np.sum(x**2) + np.sum(x * (laplacian @ x)))

    assert core.value() == pytest.approx(value(core), rel=1e-3)
    assert core.error() == pytest.approx(np.sum(residual(core) ** 2), rel=1e-3)
    for update in ("update_dictionary", "update_coefficients"):
        before = core.value()
        getattr(core, update)()
        assert core.value() < before
        assert core.value() == pytest.approx(value(core), rel=1e-3)
    for _ in range(4):
        for one in (plain, core):
            one.update_dictionary()
            one.update_coefficients()
    rough = lambda core: np.sum(residual(core) * (laplacian @ residual(core)))
    assert rough(core) < rough(plain)


def test_the_compiled_part_checks_what_it_is_given():
    good = {
        "point": np.ones((2, 1), np.float32),
        "target": np.ones((2, 1), np.float32),
        "bones": np.ones((1, 1, 1)),
        "weights": np.ones((2, 1)),
        "starts": np.array([0, 1, 2]),
        "neighbours": np.array([1, 0], np.int32),
        "shells": np.zeros(2, np.int32),
        "per_vertex": 2,
        "per_atom": 1,
    }
    Factorization(**good).initialize(1)
    for name, wrong in {
        "target": np.ones((3, 1), np.float32),
        "bones": np.ones((1, 2, 1)),
        "weights": np.ones((2, 2)),
        "starts": np.array([0, 2, 1]),
        "neighbours": np.array([1, 7], np.int32),
        "shells": np.array([0, 9], np.int32),
        "per_vertex": 5,
        "per_atom": 2,
        "max_coefficient": 0.5,
        "coupling": np.ones(3, np.float32),
    }.items():
        with pytest.raises(ValueError, match=name):
            Factorization(**{**good, name: wrong})
    with pytest.raises(ValueError, match="call initialize first"):
        Factorization(**good).add_atoms(1)


def test_wrong_inputs_are_refused(dense, motion):
    with pytest.raises(InputError, match="dual_quaternion"):
        reduce(replace(dense, skin=replace(dense.skin, blend="dual_quaternion")))
    full = full_deformer()
    with pytest.raises(InputError, match="without correctives"):
        reduce(full, random_motion(full.skeleton, 2))
    with pytest.raises(InputError, match="without the bones"):
        reduce(dense, None, dense.deform(motion))
    with pytest.raises(InputError, match="no skin"):
        reduce(Deformer(dense.mesh))
    for wrong in (
        {"per_vertex": 0},
        {"per_vertex": 5},
        {"bones_per_vertex": 2.0},
        {"max_coefficient": 0.5},
        {"smoothness": -1.0},
        {"dictionary": "paper"},
        {"virtual_bones": 0},
        {"error": 0.0},
        {"kappa": 0.0},
    ):
        with pytest.raises(InputError, match=next(iter(wrong))):
            TwoLayerConfig(**wrong)


def test_correctives_survive_a_reduction_of_the_weights_alone():
    full = full_deformer()
    reduced = reduce(full, examples=False, virtual_bones=30)
    assert reduced.nets is full.nets
    drivers = random_motion(full.skeleton, 3), np.zeros((3, 2))
    np.testing.assert_allclose(reduced.deform(*drivers), full.deform(*drivers), atol=1e-2)


def test_fit_takes_the_bones_the_poses_have(dense, motion, tmp_path):
    poses = Poses(dense.mesh, dense.deform(motion), dense.skeleton, motion, name="strip")
    fitted = TwoLayer().fit(poses)
    assert fitted.method == "two_layer"
    assert fitted.provenance["poses"] == "strip"
    assert decomposition_error(poses.vertices, fitted.deform(motion), dense.mesh.vertices) < 5
    fitted.save(tmp_path / "two.understudy")
    np.testing.assert_array_equal(
        Deformer.load(tmp_path / "two.understudy").deform(motion), fitted.deform(motion)
    )


def test_fit_finds_bones_where_the_poses_have_none(dense, motion):
    bare = Poses(dense.mesh, dense.deform(motion), name="bare")
    fitted = TwoLayer(TwoLayerConfig(bones=6)).fit(bare)
    assert fitted.skeleton.bone_count <= 6
    assert decomposition_error(bare.vertices, fitted.deform_clip(0), dense.mesh.vertices) < 20
