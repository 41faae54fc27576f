"""Characters that our own code makes: a trunk, limbs of a few segments, exact skinning, swinging
joints. For training without data, and for tests.
"""

from __future__ import annotations

import numpy as np

from understudy.core.mesh import Mesh
from understudy.geometry.transforms import compose, rotation_from_axis_angle
from understudy.methods.decomposition.trajectory_networks.corpus import Character

_RING, _RINGS = 10, 5  # vertices around a limb, rings along a segment


def generate(seed: int, frames: int = 40) -> Character:
    """A character: two to eight limbs on a trunk of one to four segments; what it is follows from
    the seed.
    """
    random = np.random.default_rng(seed)
    parents, heads, tails = [], [], []
    trunk = int(random.integers(1, 5))
    at = np.zeros(3)
    for number in range(trunk):
        step = np.array([0.5, 0.0, 0.0]) + 0.05 * random.normal(size=3)
        parents.append(number - 1)
        heads.append(at)
        tails.append(at := at + step)
    chains = [list(range(trunk))]
    for _ in range(int(random.integers(2, 9))):
        root = int(random.integers(0, trunk))
        direction = random.normal(size=3) * (0.3, 1.0, 1.0)
        direction /= np.linalg.norm(direction)
        at, before, chain = (
            heads[root] + random.uniform() * (tails[root] - heads[root]) + 0.15 * direction,
            root,
            [],
        )
        for _ in range(int(random.integers(1, 5))):
            length = random.uniform(0.25, 0.5)
            parents.append(before)
            before = len(parents) - 1
            chain.append(before)
            heads.append(at)
            tails.append(at := at + length * direction)
        chains.append(chain)
    heads, tails = np.array(heads), np.array(tails)
    mesh, weights = _skinned(chains, heads, tails, random)
    kind = ("animal", "human")[seed % 2]
    return Character(
        f"generated/{seed}",
        kind,
        "generated",
        mesh,
        weights,
        _swinging(parents, heads, frames, random),
    )


def _skinned(chains, heads, tails, random) -> tuple[Mesh, np.ndarray]:
    """A tube around each chain of bones; a vertex near a joint follows the bones on both sides of
    it.
    """
    points, faces, weights = [], [], []
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
            # Inside its segment a bone rules alone; within a fifth of a segment of a joint it
            # shares.
            influence[:, b] = np.clip(
                0.5 + 2.5 * np.minimum(along - number, number + 1 - along), 0, 1
            )
        influence /= influence.sum(axis=1, keepdims=True)
        first = sum(len(p) for p in points)
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
    return Mesh.from_faces(np.concatenate(points), np.concatenate(faces)), np.concatenate(
        weights
    ).astype(np.float32)


def _swinging(parents, heads, frames: int, random) -> np.ndarray:
    """(F,B,3,4) world_from_rest: each joint turns to and fro about an axis of its own, on top of
    its parent.
    """
    time = np.linspace(0, 2 * np.pi, frames, endpoint=False)
    result = np.empty((frames, len(parents), 3, 4))
    for bone, parent in enumerate(parents):
        axis = random.normal(size=3)
        angle = random.uniform(0.2, 0.8) * np.sin(
            random.integers(1, 3) * time + random.uniform(0, 2 * np.pi)
        )
        turn = rotation_from_axis_angle(angle[:, None] * (axis / np.linalg.norm(axis)))
        local = np.concatenate([turn, (heads[bone] - turn @ heads[bone])[..., None]], axis=2)
        if parent < 0:
            local[..., 3] += 0.1 * np.sin(time)[:, None] * random.normal(size=3)
        result[:, bone] = local if parent < 0 else compose(result[:, parent], local)
    return result
