"""A deformer as a torch module, for thousands of poses or characters at once, on a GPU or CPU.

The equations are those of `Deformer.deform_reference`. Bones are in double precision until they are
relative to the root, everything after that in single. For one pose at a time on a CPU, the compiled
runtime is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from understudy.core.bounds import LARGEST_FEATURE
from understudy.core.deformer import Deformer
from understudy.core.networks import stack_bases, stack_nets
from understudy.system.errors import InputError, MissingDependencyError

try:
    import torch
    from torch import Tensor, nn
except ImportError as problem:
    raise MissingDependencyError(
        "the torch module needs torch: pip install 'understudy[fit]'"
    ) from problem

# The most numbers in the blended matrices of one block of poses.
_BLOCK_VALUES = 250_000_000
_FLATTEST = 1e-3


class TorchDeformer(nn.Module):
    """A module that maps world_from_bone (T,B,3,4) and controls (T,C) to vertices (T,V,3) float32.

    An argument that the deformer does not read may be None. All numbers are buffers, and none of
    them can be trained.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Tensor: ...  # the buffers

    def __init__(self, deformer: Deformer):
        super().__init__()
        deformer = deformer.folded
        self.vertex_count = deformer.mesh.vertex_count
        self._reads_controls = deformer.reads_controls
        self._has_bones = deformer.skeleton is not None
        rest = deformer.mesh.vertices
        self._keep("base", rest if deformer.mean is None else rest + deformer.mean)
        self._keep("columns", deformer.features.columns.astype(np.int64))
        self._keep("low", deformer.features.low)
        self._keep("high", deformer.features.high)
        self._coefficient_count = deformer.coefficient_count
        self._activations: list[tuple[str, int]] = []
        for g, (activation, inputs, weights, biases, outputs) in enumerate(
            stack_nets(deformer.nets, deformer.features.count, deformer.coefficient_count)
        ):
            self._activations.append((activation, len(weights)))
            self._keep(f"net{g}_inputs", inputs.astype(np.int64))
            self._keep(f"net{g}_outputs", outputs.reshape(-1).astype(np.int64))
            for layer, (weight, bias) in enumerate(zip(weights, biases)):
                self._keep(f"net{g}_weight{layer}", weight)
                self._keep(f"net{g}_bias{layer}", bias[:, None])
        self._fade_end: float | None = None
        if deformer.bounds is not None:
            self._fade_end = deformer.bounds.fade_end
            for name in ("low", "high", "scale", "centres"):
                self._keep(f"bound_{name}", getattr(deformer.bounds, name))
            for name in ("group", "units", "features"):
                self._keep(f"bound_{name}", getattr(deformer.bounds, name).astype(np.int64))
        self._stacks = 0
        for b, (vertices, matrix, coefficients) in enumerate(stack_bases(deformer.bases)):
            self._stacks = b + 1
            # Padding moves an extra vertex, which is dropped.
            moved = np.where(vertices < 0, self.vertex_count, vertices).reshape(-1)
            self._keep(f"basis{b}_vertices", moved.astype(np.int64))
            self._keep(f"basis{b}_matrix", matrix)
            self._keep(f"basis{b}_coefficients", coefficients.astype(np.int64))
        self.blend: str | None = None
        self._has_virtual_bones = False
        if self._has_bones:
            skeleton, skin = deformer.need_skin()
            self.blend = skin.blend
            self._keep("parents", skeleton.parents.astype(np.int64))
            self._keep("bone_from_rest", skeleton.bone_from_world)
            self._keep("bone_index", skin.bone_index.astype(np.int64))
            self._keep("weight", skin.weight)
            if skin.virtual is not None:
                self._has_virtual_bones = True
                index, weight = skin.virtual
                dense = np.zeros((len(index), skeleton.bone_count), np.float32)
                np.add.at(dense, (np.arange(len(dense))[:, None], index), weight)
                self._keep("virtual", dense)

    def _keep(self, name: str, array: np.ndarray) -> None:
        self.register_buffer(name, torch.tensor(array), persistent=False)

    @torch.no_grad()
    def forward(
        self, world_from_bone: Tensor | None = None, controls: Tensor | None = None
    ) -> Tensor:
        """Return the vertices (T,V,3) float32 of some poses, on the module's device."""
        driver = world_from_bone if self._has_bones else controls
        if driver is None:
            missing = "world_from_bone" if self._has_bones else "controls"
            raise InputError(f"{missing} is missing: it drives this deformer")
        poses = len(driver)
        result = torch.empty(
            (poses, self.vertex_count, 3), dtype=torch.float32, device=self.base.device
        )
        block = max(1, _BLOCK_VALUES // (12 * self.vertex_count))
        for first in range(0, poses, block):
            part = slice(first, first + block)
            result[part] = self._block(
                driver[part] if self._has_bones else None,
                controls[part] if controls is not None else None,
                min(block, poses - first),
            )
        return result

    def _block(self, world: Tensor | None, controls: Tensor | None, poses: int) -> Tensor:
        """Return the vertices of some poses at once."""
        points = self._points(world, controls, poses)
        if world is None:
            return points
        world = world.double()
        centre = world[:, :1, :, 3]
        local = torch.cat([world[..., :3], (world[..., 3] - centre)[..., None]], dim=-1)
        matrices = _compose(local, self.bone_from_rest).float()
        if self._has_virtual_bones:
            matrices = torch.einsum("nb,tbij->tnij", self.virtual, matrices)
        blend = self._linear if self.blend == "linear" else self._dual_quaternion
        return (blend(matrices, points).double() + centre).float()

    def _points(self, world: Tensor | None, controls: Tensor | None, poses: int) -> Tensor:
        """Return rest + d, (T,V,3)."""
        points = self.base.expand(poses, -1, -1)
        if not self._stacks:
            return points
        readings = self._readings(world, controls)
        features = torch.minimum(torch.maximum(readings, self.low), self.high)
        coefficients = self._bounded(self._coefficients(features), readings)
        moved = torch.cat([points, points[:, :1]], dim=1)
        for b in range(self._stacks):
            matrix = getattr(self, f"basis{b}_matrix")
            picked = coefficients[:, getattr(self, f"basis{b}_coefficients")]
            if picked.ndim == 4:  # shared by x, y and z: (T,G,3,P)
                part = torch.einsum("gpn,tgap->tgna", matrix, picked)
            else:
                part = torch.bmm(picked.transpose(0, 1), matrix).transpose(0, 1)
            moved.index_add_(1, getattr(self, f"basis{b}_vertices"), part.reshape(poses, -1, 3))
        return moved[:, :-1]

    def _readings(self, world: Tensor | None, controls: Tensor | None) -> Tensor:
        """Return what the nets read, (T,X), before it is clamped."""
        parts = []
        if world is not None:
            parts.append(_parent_from_bone(world.double(), self.parents).flatten(1).float())
        if controls is not None and self._reads_controls:
            parts.append(controls.float())
        return torch.cat(parts, dim=1)[:, self.columns]

    def _bounded(self, coefficients: Tensor, readings: Tensor) -> Tensor:
        """Return the same as `Bounds.bounded`; without bounds, the coefficients."""
        if self._fade_end is None:
            return coefficients
        coefficients = torch.minimum(torch.maximum(coefficients, self.bound_low), self.bound_high)
        if not len(self.bound_features):
            return coefficients
        held = readings.clamp(-LARGEST_FEATURE, LARGEST_FEATURE)[:, self.bound_features]
        nearest = torch.full(held.shape[:2], torch.inf, device=held.device)
        for k in range(self.bound_centres.shape[1]):
            off = ((held - self.bound_centres[:, k]) ** 2 * self.bound_scale).sum(dim=2)
            nearest = torch.minimum(nearest, off)
        end = self._fade_end**2
        s = ((end - nearest) / (end - 1)).clamp(0, 1)
        of_groups = (s * s * (3 - 2 * s))[:, self.bound_units].amin(dim=2)
        # The last column serves coefficients without a group.
        ones = of_groups.new_ones(len(of_groups), 1)
        return coefficients * torch.cat([of_groups, ones], dim=1)[:, self.bound_group]

    def _coefficients(self, features: Tensor) -> Tensor:
        """Return the coefficients (T,N) of features (T,X)."""
        padded = torch.cat([features, features.new_zeros(len(features), 1)], dim=1)
        result = features.new_zeros(len(features), self._coefficient_count + 1)
        for g, (activation, depth) in enumerate(self._activations):
            hidden = padded[:, getattr(self, f"net{g}_inputs")].transpose(0, 1)
            for layer in range(depth):
                weight = getattr(self, f"net{g}_weight{layer}")
                hidden = torch.baddbmm(getattr(self, f"net{g}_bias{layer}"), hidden, weight)
                if layer < depth - 1:
                    hidden = _ACTIVATIONS[activation](hidden)
            outputs = getattr(self, f"net{g}_outputs")
            result.index_add_(1, outputs, hidden.transpose(0, 1).flatten(1))
        return result[:, :-1]

    def _linear(self, matrices: Tensor, points: Tensor) -> Tensor:
        """Return points (T,V,3) moved by blended matrices (T,B,3,4)."""
        weighted = lambda k: self.weight[:, k, None, None] * matrices[:, self.bone_index[:, k]]
        blended = weighted(0)
        for k in range(1, self.weight.shape[1]):
            blended = blended + weighted(k)
        return (blended[..., :3] * points[:, :, None]).sum(-1) + blended[..., 3]

    def _dual_quaternion(self, matrices: Tensor, points: Tensor) -> Tensor:
        """Return the same as `geometry.skinning.dual_quaternion_blend`."""
        u, sigma, vt = torch.linalg.svd(matrices[..., :3])
        flip = torch.sign(torch.linalg.det(u @ vt))
        signs = torch.stack([torch.ones_like(flip), torch.ones_like(flip), flip], dim=-1)
        rotation = (u * signs[..., None, :]) @ vt
        stretch = vt.transpose(-1, -2) @ ((sigma * signs)[..., None] * vt)
        real = _quaternion_of(rotation)
        shift = torch.cat([torch.zeros_like(matrices[..., :1, 3]), matrices[..., 3]], dim=-1)
        dual = 0.5 * _product(shift, real)
        pivot = real[:, self.bone_index[:, 0]]
        q, e = torch.zeros_like(pivot), torch.zeros_like(pivot)
        s = torch.zeros_like(stretch[:, self.bone_index[:, 0]])
        for k in range(self.weight.shape[1]):
            bone, w = self.bone_index[:, k], self.weight[:, k, None]
            own = real[:, bone]
            turn = torch.where((pivot * own).sum(-1, keepdim=True) < 0, -w, w)
            q, e, s = q + turn * own, e + turn * dual[:, bone], s + w[..., None] * stretch[:, bone]
        norm = torch.linalg.norm(q, dim=-1, keepdim=True)
        q, e = q / norm, e / norm
        w, v, ew, ev = q[..., :1], q[..., 1:], e[..., :1], e[..., 1:]
        stretched = (s * points[:, :, None]).sum(-1)
        twice = 2 * torch.linalg.cross(v, stretched)
        shifted = 2 * (w * ev - ew * v + torch.linalg.cross(v, ev))
        return stretched + w * twice + torch.linalg.cross(v, twice) + shifted


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": nn.functional.gelu,
}


def _compose(a: Tensor, b: Tensor) -> Tensor:
    """Return the same as `geometry.transforms.compose`."""
    return torch.cat([a[..., :3] @ b[..., :3], a[..., :3] @ b[..., 3:] + a[..., 3:]], dim=-1)


def _parent_from_bone(world: Tensor, parents: Tensor) -> Tensor:
    """Return the same as `geometry.transforms.parent_from_bone`."""
    parent = world[:, parents.clamp(min=0)]
    linear = parent[..., :3]
    size = torch.linalg.norm(linear, dim=(-2, -1)).clamp(min=1e-12)
    risky = torch.linalg.det(linear).abs() < 10 * _FLATTEST * size**3
    if risky.any():
        u, sigma, vt = torch.linalg.svd(linear[risky])
        sigma = torch.maximum(sigma, _FLATTEST * sigma[..., :1].clamp(min=1e-12))
        linear = linear.clone()
        linear[risky] = u @ (sigma[..., None] * vt)
    inverse = torch.linalg.inv(linear)
    shift = inverse @ (world[..., 3:] - parent[..., 3:])
    local = torch.cat([inverse @ world[..., :3], shift], dim=-1)
    return torch.where((parents < 0)[:, None, None], world, local)


def _quaternion_of(r: Tensor) -> Tensor:
    """Return the same as `geometry.skinning.quaternion_from_rotation`."""
    xx, yy, zz = r[..., 0, 0], r[..., 1, 1], r[..., 2, 2]
    squares = torch.stack(
        [1 + xx + yy + zz, 1 + xx - yy - zz, 1 - xx + yy - zz, 1 - xx - yy + zz], dim=-1
    )
    a, b, c = r[..., 2, 1] - r[..., 1, 2], r[..., 0, 2] - r[..., 2, 0], r[..., 1, 0] - r[..., 0, 1]
    d, e, f = r[..., 1, 0] + r[..., 0, 1], r[..., 0, 2] + r[..., 2, 0], r[..., 2, 1] + r[..., 1, 2]
    s0, s1, s2, s3 = squares.unbind(-1)
    every = ((s0, a, b, c), (a, s1, d, e), (b, d, s2, f), (c, e, f, s3))
    rows = torch.stack([torch.stack(row, dim=-1) for row in every], dim=-2)
    best = squares.argmax(dim=-1)[..., None, None].expand(*squares.shape[:-1], 1, 4)
    chosen = torch.gather(rows, -2, best)[..., 0, :]
    return chosen / torch.linalg.norm(chosen, dim=-1, keepdim=True)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return the Hamilton product of quaternions, real part first."""
    (s, u), (t, v) = (q.split([1, 3], dim=-1) for q in (a, b))
    real = s * t - (u * v).sum(-1, keepdim=True)
    return torch.cat([real, s * v + t * u + torch.linalg.cross(u, v)], dim=-1)
