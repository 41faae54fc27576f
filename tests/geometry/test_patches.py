import numpy as np
from builders import grid_mesh

from understudy.geometry.patches import soft_membership


def test_shares_sum_to_one_and_fade_from_ring_to_ring():
    mesh = grid_mesh(20, 3)
    labels = np.repeat([0, 1], 30)
    shares = soft_membership(mesh, labels, rings=2).toarray()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (shares >= 0).all()
    along = shares.reshape(20, 3, 2)[:, 1, 0]
    assert (along[:7] == 1).all()
    assert (along[13:] == 0).all()
    assert (np.diff(along) <= 1e-12).all()
    assert np.abs(np.diff(along)).max() < 0.5  # no vertex jumps from one set to the other


def test_no_rings_gives_the_labels_back_and_unlearned_vertices_stay_out():
    mesh = grid_mesh(4, 2)
    labels = np.array([0, 0, 1, 1, -1, -1, 1, 1])
    hard = soft_membership(mesh, labels, rings=0).toarray()
    assert hard.argmax(axis=1)[labels >= 0].tolist() == labels[labels >= 0].tolist()
    soft = soft_membership(mesh, labels, rings=3).toarray()
    assert (soft[labels < 0] == 0).all()
    np.testing.assert_allclose(soft[labels >= 0].sum(axis=1), 1)
