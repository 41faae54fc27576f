"""Generated characters: a trunk with limbs, exact skinning, swinging joints.

They serve for training without data, and for tests.
"""

from __future__ import annotations

import numpy as np

from understudy.core.mesh import Mesh
from understudy.geometry.transforms import compose, rotation_from_axis_angle
from understudy_benchmarks.trajectory_training.corpus import Character

_RING, _RINGS = 10, 5  # vertices around a limb, rings along a segment


def generate_character(seed: int, frames: int = 40) -> Character:
    """Return a character with two to eight limbs on a trunk of one to four segments.

    The same seed gives the same character.
    """
    random = np.random.default_rng(seed)
    parents: list[int] = []
    heads: list[np.ndarray] = []
    tails: list[np.ndarray] = []
    trunk = int(random.integers(1, 5))
    at = np.zeros(3)
    for bone in range(trunk):
        step = np.array([0.5, 0.0, 0.0]) + 0.05 * random.normal(size=3)
        parents.append(bone - 1)
        heads.append(at)
        tails.append(at := at + step)
    chains = [list(range(trunk))]
    for _ in range(int(random.integers(2, 9))):
        parent = int(random.integers(0, trunk))
        direction = random.normal(size=3) * (0.3, 1.0, 1.0)
        direction /= np.linalg.norm(direction)
        along = random.uniform() * (tails[parent] - heads[parent])
        at = heads[parent] + along + 0.15 * direction
        chain = []
        for _ in range(int(random.integers(1, 5))):
            length = random.uniform(0.25, 0.5)
            parents.append(parent)
            parent = len(parents) - 1
            chain.append(parent)
            heads.append(at)
            tails.append(at := at + length * direction)
        chains.append(chain)
    mesh, weights = _skin_chains(chains, np.array(heads), np.array(tails), random)
    kind = ("animal", "human")[seed % 2]
    transforms = _swing(parents, np.array(heads), frames, random)
    return Character(f"generated/{seed}", kind, "generated", mesh, weights, transforms)


def _skin_chains(
    chains: list[list[int]], heads: np.ndarray, tails: np.ndarray, random: np.random.Generator
) -> tuple[Mesh, np.ndarray]:
    """Return a tube around each chain of bones, and its weights (V,B).

    Vertices near a joint follow the bones on both sides of it.
    """
    points: list[np.ndarray] = []
    faces: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    angles = 2 * np.pi * np.arange(_RING) / _RING
    for chain in chains:
        radius = random.uniform(0.05, 0.14)
        along = np.linspace(0, len(chain), _RINGS * len(chain) + 1)
        bone = np.minimum(along.astype(int), len(chain) - 1)
        start, end = heads[chain][bone], tails[chain][bone]
        middle = start + (along - bone)[:, None] * (end - start)
        axis = (end - start) / np.linalg.norm(end - start, axis=1, keepdims=True)
        side = np.cross(axis, np.where(np.abs(axis[:, :1]) < 0.8, (1.0, 0, 0), (0, 1.0, 0)))
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        up = np.cross(axis, side)
        ring = middle[:, None] + radius * (
            np.cos(angles)[:, None] * side[:, None] + np.sin(angles)[:, None] * up[:, None]
        )
        influence = np.zeros((len(along), len(heads)))
        for number, b in enumerate(chain):
            # A vertex follows one bone, except within a fifth of a segment of a joint.
            influence[:, b] = np.clip(
                0.5 + 2.5 * np.minimum(along - number, number + 1 - along), 0, 1
            )
        influence /= influence.sum(axis=1, keepdims=True)
        first = sum(len(part) for part in points)
        row, column = np.divmod(np.arange((len(along) - 1) * _RING), _RING)
        corner = lambda r, c, first=first: first + r * _RING + c % _RING
        faces.append(
            np.column_stack(
                [
                    corner(row, column),
                    corner(row, column + 1),
                    corner(row + 1, column + 1),
                    corner(row + 1, column),
                ]
            )
        )
        points.append(ring.reshape(-1, 3))
        weights.append(np.repeat(influence, _RING, axis=0))
    mesh = Mesh.from_faces(np.concatenate(points), np.concatenate(faces))
    return mesh, np.concatenate(weights).astype(np.float32)


def _swing(
    parents: list[int], heads: np.ndarray, frames: int, random: np.random.Generator
) -> np.ndarray:
    """Return world_from_rest (F,B,3,4): every joint swings about its own axis in its parent."""
    time = np.linspace(0, 2 * np.pi, frames, endpoint=False)
    result = np.empty((frames, len(parents), 3, 4))
    for bone, parent in enumerate(parents):
        axis = random.normal(size=3)
        angle = random.uniform(0.2, 0.8) * np.sin(
            random.integers(1, 3) * time + random.uniform(0, 2 * np.pi)
        )
        rotation = rotation_from_axis_angle(angle[:, None] * (axis / np.linalg.norm(axis)))
        pivot = (heads[bone] - rotation @ heads[bone])[..., None]
        local = np.concatenate([rotation, pivot], axis=2)
        if parent < 0:
            local[..., 3] += 0.1 * np.sin(time)[:, None] * random.normal(size=3)
        result[:, bone] = local if parent < 0 else compose(result[:, parent], local)
    return result
