"""Levels of detail: subsets of the vertices and projected meshes, with the original's networks."""

from dataclasses import replace

import numpy as np
import pytest
from parity.kinds import KINDS, drivers

from understudy.core.levels_of_detail import Parents, find_parents, level_of_detail
from understudy.core.mesh import Mesh
from understudy.core.parts import submesh
from understudy.geometry.inside import closest_points
from understudy.system.errors import InputError


def every_other(mesh):
    return np.arange(mesh.vertex_count)[::2][::-1]


@pytest.mark.parametrize("kind", [k for k in KINDS if "version" not in k])
def test_a_subset_moves_as_the_original(kind):
    deformer = KINDS[kind]()
    kept = every_other(deformer.mesh)
    made = level_of_detail(deformer, submesh(deformer.mesh, kept), Parents.subset(kept))
    assert made.nets == deformer.nets
    assert [b.matrix.shape[1] for b in made.bases] == [b.matrix.shape[1] for b in deformer.bases]
    assert made.storage == deformer.storage
    given = drivers(deformer, 3)
    tolerance = 1e-6 * deformer.mesh.height
    for name in ("deform", "deform_reference"):
        want = getattr(deformer, name)(*given)[:, kept]
        np.testing.assert_allclose(getattr(made, name)(*given), want, atol=tolerance)


def test_parents_are_found_at_vertices_and_within_triangles():
    mesh = KINDS["skin-4"]().mesh
    kept = every_other(mesh)
    assert find_parents(mesh, submesh(mesh, kept)).is_subset
    np.testing.assert_array_equal(find_parents(mesh, submesh(mesh, kept)).index[:, 0], kept)
    weight = np.random.default_rng(0).dirichlet(np.ones(3), len(mesh.triangles))
    inside = np.einsum("fk,fkd->fd", weight, mesh.vertices[mesh.triangles])
    found = find_parents(mesh, Mesh(inside, [], []))
    assert not found.is_subset
    np.testing.assert_allclose(found.blended(mesh.vertices), inside, atol=1e-5)


@pytest.mark.parametrize("kind", ["wide", "full-linear-virtual-tanh", "controls-only", "wide-half"])
def test_a_projected_mesh_follows_the_surface(kind):
    deformer = KINDS[kind]()
    mesh = deformer.mesh
    centres = Mesh(mesh.vertices[mesh.triangles].mean(axis=1), [], [])
    parents = find_parents(mesh, centres)
    made = level_of_detail(deformer, centres, parents)
    given = drivers(deformer, 4)
    # Displacements are blended exactly; 16 bits round them.
    want = parents.blended(deformer.displacements(*given))
    exact = 2e-6 if deformer.storage == "float32" else 2e-3
    np.testing.assert_allclose(
        made.displacements(*given), want, atol=exact * max(1, np.abs(want).max())
    )
    np.testing.assert_allclose(
        made.deform(*given), made.deform_reference(*given), atol=1e-5 * mesh.height
    )
    assert made.storage == deformer.storage


def test_rigid_motion_moves_a_level_rigidly():
    deformer = KINDS["skin-4"]()
    mesh = deformer.mesh
    made = level_of_detail(deformer, Mesh(mesh.vertices[mesh.triangles].mean(axis=1), [], []))
    assert made.skin.influences == deformer.skin.influences
    np.testing.assert_allclose(made.skin.weight.sum(axis=1), 1, atol=1e-6)
    turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    moved = np.einsum("ij,bjk->bik", turn, deformer.skeleton.world_from_bone)[None]
    np.testing.assert_allclose(
        made.deform(moved)[0], made.mesh.vertices @ turn.T, atol=1e-5 * mesh.height
    )


def test_names_come_from_the_original():
    deformer = KINDS["skin-4"]()
    mesh = replace(deformer.mesh, parts={"head": [0, 2, 4], "odd": [1]})
    made = level_of_detail(
        replace(deformer, mesh=mesh), replace(submesh(mesh, [4, 0, 6]), unit="ft")
    )
    assert made.mesh.unit == mesh.unit
    assert {name: part.tolist() for name, part in made.mesh.parts.items()} == {"head": [0, 1]}


def test_closest_points_are_on_faces_edges_and_corners():
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    points = np.array([[0.2, 0.2, 5], [0.5, -1, 0], [-1, -1, 2], [2, 2, 0]])
    _, weight = closest_points(points, vertices, np.array([[0, 1, 2]]))
    np.testing.assert_allclose(
        weight, [[0.6, 0.2, 0.2], [0.5, 0.5, 0], [1, 0, 0], [0, 0.5, 0.5]], atol=1e-12
    )
    # A triangle without area.
    flat = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]])
    _, weight = closest_points(np.array([[1.5, 1, 0]]), flat, np.array([[0, 1, 2]]))
    np.testing.assert_allclose(weight @ flat, [[1.5, 0, 0]], atol=1e-12)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        (Parents.subset([0, 1]), "vertices"),
        (Parents.subset([0, 1, 999999]), "parents"),
    ],
)
def test_wrong_parents_are_refused(parents, message):
    deformer = KINDS["skin-4"]()
    with pytest.raises(InputError, match=message):
        level_of_detail(deformer, submesh(deformer.mesh, [0, 1, 2]), parents)


def test_weights_of_parents_sum_to_one():
    with pytest.raises(InputError, match="row 0"):
        Parents([[0, 1, 2]], [[0.5, 0.2, 0.2]])


def test_a_mesh_without_polygons_has_no_surface():
    points = Mesh(np.eye(3), [], [])
    with pytest.raises(InputError, match="no polygons"):
        find_parents(points, points)
