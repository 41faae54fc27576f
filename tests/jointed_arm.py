"""A tube moved by four bones about known joints."""

import numpy as np

from understudy.geometry.transforms import rotation_from_axis_angle
from understudy.io.sequences import sequence_from_arrays
from understudy.methods.decomposition.skeleton.articulation import Articulation, Tree

ARM = Tree(np.array([-1, 0, 1, 2]))
ARM_JOINTS = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0.1, 0], [3, 0, 0.1]])


def tube(rings: int = 40, around: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """rest (V,3) and faces (M,4) of a tube along x from 0 to 4."""
    x, angle = np.meshgrid(
        np.linspace(0, 4, rings), np.arange(around) * 2 * np.pi / around, indexing="ij"
    )
    rest = np.stack([x, 0.3 * np.cos(angle), 0.2 * np.sin(angle)], axis=-1).reshape(-1, 3)
    at = np.arange(rings * around).reshape(rings, around)
    beside = np.roll(at, -1, axis=1)
    return rest, np.stack([at[:-1], beside[:-1], beside[1:], at[1:]], axis=-1).reshape(-1, 4)


def arm(frames: int = 20, blend: float = 0.0, noise: float = 0.0):
    """A tube moved exactly by four bones about known joints: poses, weights (V,4) and
    world_from_rest (T,4,3,4).
    """
    rng = np.random.default_rng(0)
    rest, faces = tube()
    turns = rotation_from_axis_angle(0.5 * rng.normal(size=(frames, 4, 3)))
    bones = Articulation(ARM, ARM_JOINTS, turns, rng.normal(size=(frames, 3))).world_from_rest()
    away = np.abs(rest[:, :1] - (np.arange(4) + 0.5))
    weights = (
        np.maximum(0, 1 - np.maximum(0, away - 0.5 + blend) / max(2 * blend, 1e-9))
        if blend
        else (away == away.min(axis=1, keepdims=True))
    )
    weights = weights / weights.sum(axis=1, keepdims=True)
    vertices = np.einsum(
        "vb,tbij,vj->tvi", weights, bones, np.column_stack([rest, np.ones(len(rest))])
    )
    return (
        sequence_from_arrays(vertices + noise * rng.normal(size=vertices.shape), faces, rest),
        weights,
        bones,
    )
