"""One set of labels for the bones of all characters."""

import numpy as np

from understudy.methods.decomposition.bones.classifier import CHANNELS
from understudy_benchmarks.trajectory_training.body_labels import bone_descriptors, common_labels


def test_labels_are_one_to_one_within_a_character_and_alike_for_like_bones():
    random = np.random.default_rng(0)
    body = random.normal(size=(12, 4))
    characters = [
        body[random.permutation(12)[:count]] + 0.01 * random.normal(size=(count, 4))
        for count in (12, 9, 5, 12)
    ]
    labels = common_labels(characters, 12)
    for own in labels:
        assert len(set(own)) == len(own)
        assert own.max() < 12
    # The same place on the body is the same label in every character.
    place = lambda points: np.argmin(((points[:, None] - body[None]) ** 2).sum(axis=2), axis=1)
    meaning = {}
    for own, points in zip(labels, characters):
        for label, where in zip(own, place(points)):
            assert meaning.setdefault(where, label) == label


def test_descriptors_are_weighted_means():
    read = np.zeros((2, 3, CHANNELS), np.float32)
    read[:, :, 0] = [[1], [3]]
    np.testing.assert_allclose(
        bone_descriptors(read, np.array([[1.0, 0.5], [1.0, 0.0]]))[:, 0], [2, 1]
    )
