"""What PyTorch has no fast operation for, as Triton kernels: for NVIDIA and AMD GPUs.

`finish` adds the displacements of several bases to the vertices and skins them. Written with
PyTorch's own operations it moves the blended matrices of all vertices through memory, 48 bytes and
one pass per influence; the kernel reads the displacements and writes the vertices.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

_VERTICES = 128  # of a program


def finish(
    out: Tensor,
    base: Tensor,
    parts: Tensor,
    slots: Tensor,
    matrices: Tensor,
    centre: Tensor,
    bone_index: Tensor,
    weight: Tensor,
) -> None:
    """Write the skinned vertices of T poses to `out`, (T,V,3) float32.

    base        (V,3)
    parts       displacements of all bases, one after the other
    slots       (S,3,V) int64: where in `parts` a share of a vertex begins in the first pose (-1:
                none), how far apart poses are, and how far apart x, y and z
    matrices    (T,B,3,4) float32, from rest to the world around `centre` (T,1,3) float64
    bone_index  (K,V) int64, weight (K,V) float32
    """
    poses, vertices, _ = out.shape
    matrices, centre = matrices.contiguous(), centre.contiguous()
    grid = (triton.cdiv(vertices, _VERTICES), poses)
    _finish[grid](
        out, base, parts, slots, matrices, centre, bone_index, weight,
        vertices, matrices.shape[1], len(slots), len(bone_index), _VERTICES,
    )  # fmt: skip


@triton.jit
def _finish(
    out, base, parts, slots, matrices, centre, bone_index, weight,
    V, B, S: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pose = tl.program_id(1).to(tl.int64)
    v = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = v < V
    x = tl.load(base + 3 * v, there)
    y = tl.load(base + 3 * v + 1, there)
    z = tl.load(base + 3 * v + 2, there)
    for s in tl.static_range(S):
        begin = tl.load(slots + 3 * s * V + v, there, other=-1)
        some = begin >= 0
        step = tl.load(slots + (3 * s + 1) * V + v, some, other=0)
        axis = tl.load(slots + (3 * s + 2) * V + v, some, other=0)
        at = parts + begin + pose * step
        x += tl.load(at, some, other=0.0)
        y += tl.load(at + axis, some, other=0.0)
        z += tl.load(at + 2 * axis, some, other=0.0)
    mine = matrices + pose * B * 12
    px = tl.zeros((BLOCK,), tl.float32)
    py = tl.zeros((BLOCK,), tl.float32)
    pz = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(K):
        m = mine + 12 * tl.load(bone_index + k * V + v, there, other=0)
        w = tl.load(weight + k * V + v, there, other=0.0)
        px += w * (tl.load(m) * x + tl.load(m + 1) * y + tl.load(m + 2) * z + tl.load(m + 3))
        py += w * (tl.load(m + 4) * x + tl.load(m + 5) * y + tl.load(m + 6) * z + tl.load(m + 7))
        pz += w * (tl.load(m + 8) * x + tl.load(m + 9) * y + tl.load(m + 10) * z + tl.load(m + 11))
    at, root = out + 3 * (pose * V + v), centre + 3 * pose
    tl.store(at, (px.to(tl.float64) + tl.load(root)).to(tl.float32), there)
    tl.store(at + 1, (py.to(tl.float64) + tl.load(root + 1)).to(tl.float32), there)
    tl.store(at + 2, (pz.to(tl.float64) + tl.load(root + 2)).to(tl.float32), there)
