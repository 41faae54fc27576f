"""Small mesh sequences with a known skin behind them, for tests."""

import numpy as np
from builders import chain_skeleton, random_motion

from understudy.geometry.transforms import apply, compose
from understudy.methods.registry import method_type


def bending_strip(
    frames: int = 10, columns: int = 24, rows: int = 5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """vertices (F,N,3), faces (M,4), rest (N,3): a strip of quads moved exactly by two bones with
    smooth weights.
    """
    x, y = np.meshgrid(np.linspace(0, 2, columns), np.linspace(-0.4, 0.4, rows), indexing="ij")
    rest = np.stack([x, y, 0.2 * np.sin(3 * x) * y], axis=-1).reshape(-1, 3)
    at = np.arange(columns * rows).reshape(columns, rows)
    quads = np.stack([at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:]], axis=-1).reshape(-1, 4)
    skeleton = chain_skeleton(2)
    matrices = compose(
        random_motion(skeleton, frames, seed, size=0.4, stretch=0.0), skeleton.bone_from_world
    )
    second = 1 / (1 + np.exp(-6 * (rest[:, 0] - 1)))
    moved = np.stack([apply(matrices[:, bone, None], rest[None]) for bone in range(2)])
    return (1 - second)[None, :, None] * moved[0] + second[None, :, None] * moved[1], quads, rest


def fitted(poses, method, **options):
    """The deformer of a method, by name, with some options of its config."""
    kind = method_type(method)
    return kind(kind.Config(**options)).fit(poses)
