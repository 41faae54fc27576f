"""Time of `TorchDeformer` on a GPU: `python -m understudy_benchmarks.gpu FILE.understudy ...`.

Every character has its own pose: each bone is turned by up to 20 degrees, each control drawn from
its range. Vertices stay in the memory of the GPU. The largest difference from the NumPy reference
is that of four poses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from understudy import Deformer
from understudy.core.skeleton import Skeleton
from understudy.geometry.transforms import compose, parent_from_bone
from understudy.runtime.torch_deformer import TorchDeformer

COUNTS = (1, 1000, 10_000)
_DRAWN, _DEGREES, _COMPARED, _REPEATS = 1000, 20.0, 4, 10


def drawn_bones(skeleton: Skeleton, count: int, seed: int = 0) -> np.ndarray:
    """Bones (T,B,3,4) float32, each turned at random in its parent."""
    random = np.random.default_rng(seed)
    local = parent_from_bone(skeleton.world_from_bone[None], skeleton.parents)[0]
    world = np.empty((count, skeleton.bone_count, 3, 4))
    for b, parent in enumerate(skeleton.parents):
        axis = random.normal(size=(count, 3))
        axis /= np.linalg.norm(axis, axis=1, keepdims=True)
        angle = np.radians(random.uniform(0, _DEGREES, (count, 1, 1)))
        cross = np.zeros((count, 3, 3))
        cross[:, [2, 0, 1], [1, 2, 0]] = axis
        cross[:, [1, 2, 0], [2, 0, 1]] = -axis
        turn = np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross
        own = np.concatenate([local[b, :, :3] @ turn, np.tile(local[b, :, 3:], (count, 1, 1))], 2)
        world[:, b] = own if parent < 0 else compose(world[:, parent], own)
    return world.astype(np.float32)


def milliseconds(work: Callable[[], object]) -> float:
    """The time of one call, between events of the GPU; three calls first."""
    for _ in range(3):
        work()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(_REPEATS):
        work()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / _REPEATS


def main(paths: list[str]) -> None:
    """Print a line for each file."""
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)
    for path in paths:
        deformer = Deformer.load(path)
        module = TorchDeformer(deformer).cuda()
        skeleton, spec = deformer.skeleton, deformer.control_spec
        bones = None if skeleton is None else drawn_bones(skeleton, _DRAWN)
        controls = None
        if spec is not None:
            random = np.random.default_rng(1)
            controls = random.uniform(spec.low, spec.high, (_DRAWN, spec.count)).astype(np.float32)
        given = [None if a is None else torch.from_numpy(a).cuda() for a in (bones, controls)]
        few = [None if a is None else a[:_COMPARED] for a in (bones, controls)]
        off = module(*given)[:_COMPARED].cpu().numpy() - deformer.deform_reference(*few)
        figures = []
        for count in COUNTS:
            rows = torch.arange(count, device="cuda") % _DRAWN
            some = [None if a is None else a[rows] for a in given]
            figures.append(f"{count}: {milliseconds(partial(module, *some)):.3f} ms")
        print(
            f"{path}: {deformer.mesh.vertex_count} vertices, {deformer.method}, "
            f"{', '.join(figures)}; off by {np.abs(off).max() / deformer.mesh.height:.1e} of the "
            "height"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
