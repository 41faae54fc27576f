"""A deformer as a torch module, for thousands of poses or characters at once, on a GPU or CPU.

The equations are those of `Deformer.deform_reference`. Bones are in double precision until they are
relative to the root, everything after that in single. For one pose at a time on a CPU, the compiled
runtime is faster. On a GPU the last step is a kernel of `torch_kernels.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.core.bounds import LARGEST_FEATURE
from understudy.core.deformer import Deformer
from understudy.core.networks import Basis, stack_nets
from understudy.system.errors import InputError, MissingDependencyError

try:
    import torch
    from torch import Tensor, nn
except ImportError as problem:
    raise MissingDependencyError(
        "the torch module needs torch: pip install 'understudy[fit]'"
    ) from problem

try:  # comes with PyTorch for GPUs
    from understudy.runtime.torch_kernels import finish
except ImportError:
    finish = None  # type: ignore[assignment]

_MOST_PADDING = 1.5  # of the vertices of stacked bases
# The most numbers in the blended matrices of one block of poses.
_BLOCK_VALUES = 250_000_000
_FLATTEST = 1e-3


class _Graph:
    """What a GPU does for one block of poses, recorded once and started as one.

    kind       shapes and types of bones and controls
    given      copies of these, from which the graph reads
    result     the vertices that it writes
    flattened  whether a bone had no usable inverse, so that the result is not valid
    """

    def __init__(self, kind: list[tuple[torch.Size, torch.dtype]]):
        self.kind = kind
        self.replay: Any = None  # a torch.cuda.CUDAGraph

    def record(self, module: TorchDeformer, result: Tensor, *drivers: Tensor | None) -> None:
        """Record what `module` does; shapes and types of the arguments are those of the block."""
        copies = [None if values is None else values.clone() for values in drivers]
        self.given = [values for values in copies if values is not None]
        self.result, self.replay = torch.empty_like(result), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.replay):
            module._evaluate(self.result, copies[0], copies[1], False)
            self.flattened = module._flattened(copies[0])


class TorchDeformer(nn.Module):
    """A module that maps world_from_bone (T,B,3,4) and controls (T,C) to vertices (T,V,3) float32.

    An argument that the deformer does not read may be None. All numbers are buffers, and none of
    them can be trained.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Tensor: ...  # the buffers

    def __init__(self, deformer: Deformer):
        super().__init__()
        self._graph = _Graph([])
        deformer = deformer.folded
        self.vertex_count = deformer.mesh.vertex_count
        self._reads_controls = deformer.reads_controls
        self._has_bones = deformer.skeleton is not None
        rest = deformer.mesh.vertices
        self._keep("base", rest if deformer.mean is None else rest + deformer.mean)
        columns = deformer.features.columns.astype(np.int64)
        if deformer.skeleton is not None:
            bones = 12 * deformer.skeleton.bone_count
            read, row = np.unique(columns[columns < bones] // 12, return_inverse=True)
            self._keep("read", read)  # the bones that are read; columns count these alone
            columns[columns < bones] = 12 * row + columns[columns < bones] % 12
            columns[columns >= bones] += 12 * len(read) - bones
        self._keep("columns", columns)
        self._keep("low", deformer.features.low)
        self._keep("high", deformer.features.high)
        self._coefficient_count = deformer.coefficient_count
        self._activations: list[tuple[str, int]] = []
        written = []
        for g, (activation, inputs, weights, biases, outputs) in enumerate(
            stack_nets(deformer.nets, deformer.features.count, deformer.coefficient_count)
        ):
            self._activations.append((activation, len(weights)))
            self._keep(f"net{g}_inputs", inputs.astype(np.int64))
            written.append(outputs.reshape(-1))
            for layer, (weight, bias) in enumerate(zip(weights, biases)):
                self._keep(f"net{g}_weight{layer}", weight)
                self._keep(f"net{g}_bias{layer}", bias[:, None])
        self._keep("writers", _places(written, self._coefficient_count))
        self._fade_end: float | None = None
        if deformer.bounds is not None:
            self._fade_end = deformer.bounds.fade_end
            for name in ("low", "high"):
                self._keep(f"bound_{name}", getattr(deformer.bounds, name))
            centres = deformer.bounds.centres.astype(np.float64)  # (U,K,D)
            middle = centres.mean(axis=1) if centres.size else np.zeros_like(deformer.bounds.scale)
            scale = np.sqrt(deformer.bounds.scale)
            off = (centres - middle[:, None]) * scale[:, None]
            self._keep("bound_scale", scale)
            self._keep("bound_middle", middle.astype(np.float32))
            self._keep("bound_centres", off.astype(np.float32))
            self._keep("bound_sizes", np.square(off).sum(axis=2)[:, None].astype(np.float32))
            for name in ("group", "units", "features"):
                self._keep(f"bound_{name}", getattr(deformer.bounds, name).astype(np.int64))
        self._keep_bases(deformer.bases)
        self.blend: str | None = None
        self._has_virtual_bones = False
        if self._has_bones:
            skeleton, skin = deformer.need_skin()
            self.blend = skin.blend
            self._keep("parents", skeleton.parents.astype(np.int64))
            self._keep("bone_from_rest", skeleton.bone_from_world)
            self._keep("bone_index", skin.bone_index.T.astype(np.int64))  # (K,V)
            self._keep("weight", np.ascontiguousarray(skin.weight.T))
            if skin.virtual is not None:
                self._has_virtual_bones = True
                index, weight = skin.virtual
                dense = np.zeros((len(index), skeleton.bone_count), np.float32)
                np.add.at(dense, (np.arange(len(dense))[:, None], index), weight)
                self._keep("virtual", dense)

    def _keep_bases(self, bases: Sequence[Basis]) -> None:
        """Bases in few stacks of equal size, and the places of every vertex in their products.

        The products of a stack, G bases of n vertices, are (G,T,3n) numbers: x, y, z of a vertex
        one after the other, or of shared bases all x, then all y, then all z. `slots` (S,4,V) has
        for each share of a vertex: numbers per pose before its basis (-1: no share), its place
        in a pose, numbers per pose of its basis, numbers from x to y.
        """
        slots: list[list[tuple[int, int, int, int]]] = [[] for _ in range(self.vertex_count)]
        self._products = 0  # numbers per pose
        self._stacks = 0
        for stack in _basis_stacks(bases):
            height = max(len(basis.vertices) for basis in stack)
            width = max(basis.matrix.shape[1] for basis in stack)
            shared = stack[0].shared
            columns, step, axis = (height, 1, height) if shared else (3 * height, 3, 1)
            matrix = np.zeros((len(stack), width, columns), np.float32)
            read = np.full((len(stack), *stack[0].coefficients.shape[:-1], width), -1)
            for g, basis in enumerate(stack):
                matrix[g, : basis.matrix.shape[1], : len(basis.matrix)] = basis.matrix.T
                read[g, ..., : basis.coefficients.shape[-1]] = basis.coefficients
                for place, v in enumerate(basis.vertices.tolist()):
                    slots[v].append((self._products, step * place, 3 * height, axis))
                self._products += 3 * height
            read[read < 0] = self._coefficient_count  # an extra coefficient, always zero
            self._keep(f"basis{self._stacks}_matrix", matrix)
            self._keep(f"basis{self._stacks}_coefficients", read)
            self._stacks += 1
        table = np.full((max(map(len, slots)), self.vertex_count, 4), -1)
        for v, own in enumerate(slots):
            if own:
                table[: len(own), v] = own
        self._keep("slots", np.moveaxis(table, 1, 2).copy())
        for share, row in enumerate(table):
            self._keep(f"share{share}", np.flatnonzero(row[:, 0] >= 0))

    def _keep(self, name: str, array: np.ndarray) -> None:
        self.register_buffer(name, torch.tensor(np.ascontiguousarray(array)), persistent=False)

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
        most = max(1, _BLOCK_VALUES // (12 * self.vertex_count))
        block = -(-poses // max(1, -(-poses // most)))
        for first in range(0, poses, max(1, block)):
            first = min(first, poses - block)  # all blocks have one size
            part = slice(first, first + block)
            self._block(
                result[part],
                driver[part] if self._has_bones else None,
                controls[part] if controls is not None and self._reads_controls else None,
            )
        return result

    def _block(self, result: Tensor, world: Tensor | None, controls: Tensor | None) -> None:
        """Write the vertices of some poses (t,V,3).

        A hundred small operations take longer to start than to run on a GPU. From the second block
        of one size on they are therefore started together, as a graph.
        """
        given = [values for values in (world, controls) if values is not None]
        kind = [(values.shape, values.dtype) for values in given]
        # Dual quaternions need a decomposition that no graph can hold.
        if not result.is_cuda or self._graph.kind != kind or self.blend == "dual_quaternion":
            self._graph = _Graph(kind)
            self._evaluate(result, world, controls, bool(self._flattened(world)))
            return
        if self._graph.replay is None:
            self._graph.record(self, result, world, controls)
        for kept, values in zip(self._graph.given, given):
            kept.copy_(values)
        self._graph.replay.replay()
        result.copy_(self._graph.result)
        if self._graph.flattened:  # a graph has no branches
            self._evaluate(result, world, controls, True)

    def _apply(self, fn: Any, recurse: bool = True) -> TorchDeformer:
        self._graph = _Graph([])
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_graph": _Graph([])}

    def _flattened(self, world: Tensor | None) -> Tensor | bool:
        """Whether a bone whose children are read has no usable inverse."""
        if world is None or not self._stacks:
            return False
        return _risky(world[:, self.parents[self.read].clamp(min=0), :, :3].double()).any()

    def _evaluate(
        self, result: Tensor, world: Tensor | None, controls: Tensor | None, flattened: bool
    ) -> None:
        """Write the vertices of some poses (t,V,3)."""
        poses = len(result)
        parts = self._parts(world, controls, poses, flattened)
        before, place, step, axis = self.slots.unbind(1)
        slots = torch.stack([before * poses + place, step, axis], dim=1)
        if world is None:
            result.copy_(self._points(parts, slots, poses))
            return
        world = world.double()
        centre = world[:, :1, :, 3]
        local = torch.cat([world[..., :3], (world[..., 3] - centre)[..., None]], dim=-1)
        matrices = _compose(local, self.bone_from_rest).float()
        if self._has_virtual_bones:
            matrices = torch.einsum("nb,tbij->tnij", self.virtual, matrices)
        if self.blend == "linear" and result.is_cuda and finish is not None:
            finish(result, self.base, parts, slots, matrices, centre, self.bone_index, self.weight)
            return
        blend = self._linear if self.blend == "linear" else self._dual_quaternion
        moved = blend(matrices, self._points(parts, slots, poses))
        result.copy_((moved.double() + centre).float())

    def _points(self, parts: Tensor, slots: Tensor, poses: int) -> Tensor:
        """Return rest + d, (T,V,3)."""
        points = self.base.repeat(poses, 1, 1)
        pose = torch.arange(poses, device=points.device)[:, None]
        for share, (begin, step, axis) in enumerate(slots):
            v = getattr(self, f"share{share}")
            first = begin[v] + pose * step[v]  # (T,n)
            points[:, v] += torch.stack([parts[first + a * axis[v]] for a in range(3)], dim=-1)
        return points

    def _parts(
        self, world: Tensor | None, controls: Tensor | None, poses: int, flattened: bool
    ) -> Tensor:
        """Return the products of all bases, one after the other."""
        parts = self.base.new_empty(poses * self._products)
        if not self._stacks:
            return parts
        readings = self._readings(world, controls, flattened)
        features = torch.minimum(torch.maximum(readings, self.low), self.high)
        coefficients = self._bounded(self._coefficients(features), readings)
        padded = nn.functional.pad(coefficients, (0, 1))
        end = 0
        for b in range(self._stacks):
            matrix = getattr(self, f"basis{b}_matrix")
            picked = padded[:, getattr(self, f"basis{b}_coefficients")].transpose(0, 1)
            picked = picked.reshape(len(matrix), -1, matrix.shape[1])
            first, end = end, end + len(matrix) * picked.shape[1] * matrix.shape[2]
            out = parts[first:end].view(len(matrix), picked.shape[1], matrix.shape[2])
            torch.bmm(picked, matrix, out=out)
        return parts

    def _readings(self, world: Tensor | None, controls: Tensor | None, flattened: bool) -> Tensor:
        """Return what the nets read, (T,X), before it is clamped."""
        parts = []
        if world is not None:
            local = _parent_from_bone(world.double(), self.parents, self.read, flattened)
            parts.append(local.flatten(1).float())
        if controls is not None:
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
        off = (held - self.bound_middle) * self.bound_scale
        # |a - b|^2 for all centres of a unit at once.
        products = torch.bmm(off.transpose(0, 1), self.bound_centres.transpose(1, 2))  # (U,T,K)
        squared = self.bound_sizes - 2 * products + (off * off).sum(2).T[..., None]
        nearest = squared.amin(2).T
        end = self._fade_end**2
        s = ((end - nearest) / (end - 1)).clamp(0, 1)
        of_groups = (s * s * (3 - 2 * s))[:, self.bound_units].amin(dim=2)
        # The last column serves coefficients without a group.
        ones = of_groups.new_ones(len(of_groups), 1)
        return coefficients * torch.cat([of_groups, ones], dim=1)[:, self.bound_group]

    def _coefficients(self, features: Tensor) -> Tensor:
        """Return the coefficients (T,N) of features (T,X)."""
        padded = nn.functional.pad(features, (0, 1))
        found = []
        for g, (activation, depth) in enumerate(self._activations):
            hidden = padded[:, getattr(self, f"net{g}_inputs")].transpose(0, 1)
            for layer in range(depth):
                weight = getattr(self, f"net{g}_weight{layer}")
                hidden = torch.baddbmm(getattr(self, f"net{g}_bias{layer}"), hidden, weight)
                if layer < depth - 1:
                    hidden = _ACTIVATIONS[activation](hidden)
            found.append(hidden.transpose(0, 1).flatten(1))
        every = nn.functional.pad(torch.cat(found, dim=1), (0, 1))
        return reduce(torch.add, [every[:, writers] for writers in self.writers])

    def _linear(self, matrices: Tensor, points: Tensor) -> Tensor:
        """Return points (T,V,3) moved by blended matrices (T,B,3,4)."""
        weighted = lambda k: self.weight[k, :, None, None] * matrices[:, self.bone_index[k]]
        blended = weighted(0)
        for k in range(1, len(self.weight)):
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
        pivot = real[:, self.bone_index[0]]
        q, e = torch.zeros_like(pivot), torch.zeros_like(pivot)
        s = torch.zeros_like(stretch[:, self.bone_index[0]])
        for k in range(len(self.weight)):
            bone, w = self.bone_index[k], self.weight[k, :, None]
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


def _places(written: Sequence[np.ndarray], count: int) -> np.ndarray:
    """Where each of some coefficients stands among all outputs, (S,N), one row for each share.

    written  the coefficient of every output, stack by stack; `count`: padding
    What has fewer shares than others is sent to a zero after all outputs.
    """
    flat = np.concatenate([np.zeros(0, np.int64), *written])
    order = np.argsort(flat, kind="stable")
    order = order[flat[order] < count]
    sizes = np.bincount(flat[order], minlength=count)
    share = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = np.full((sizes.max(initial=1), count), len(flat))
    places[share, flat[order]] = order
    return places


def _basis_stacks(bases: Sequence[Basis]) -> list[list[Basis]]:
    """Bases of similar size together: one product for all of a stack, with little padding."""
    stacks: list[list[Basis]] = []
    plain = sorted((b for b in bases if not b.shared), key=lambda b: len(b.vertices))
    for basis in plain:
        if not basis.matrix.shape[1]:
            continue
        if stacks and len(basis.vertices) <= _MOST_PADDING * len(stacks[-1][0].vertices):
            stacks[-1].append(basis)
        else:
            stacks.append([basis])
    return stacks + [[b] for b in bases if b.shared and b.matrix.shape[1]]


def _multiply(a: Tensor, b: Tensor) -> Tensor:
    """a @ b of many small matrices: a library call takes longer than three sums."""
    return reduce(torch.add, [a[..., :, k, None] * b[..., None, k, :] for k in range(3)])


def _compose(a: Tensor, b: Tensor) -> Tensor:
    """Return the same as `geometry.transforms.compose`."""
    moved = _multiply(a, b)
    moved[..., 3] += a[..., 3]
    return moved


def _inverse(a: Tensor) -> Tensor:
    """The inverses of many 3x3 matrices."""
    x, y, z = a.unbind(-2)
    rows = torch.stack([torch.linalg.cross(p, q) for p, q in ((y, z), (z, x), (x, y))], dim=-1)
    return rows / (x * rows[..., 0]).sum(-1)[..., None, None]


def _risky(linear: Tensor) -> Tensor:
    """Which of many 3x3 matrices may be flattened along an axis."""
    x, y, z = linear.unbind(-2)
    size = torch.linalg.norm(linear, dim=(-2, -1)).clamp(min=1e-12)
    return (x * torch.linalg.cross(y, z)).sum(-1).abs() < 10 * _FLATTEST * size**3


def _parent_from_bone(world: Tensor, parents: Tensor, read: Tensor, flattened: bool) -> Tensor:
    """Return the same as `geometry.transforms.parent_from_bone`, of some bones (n,).

    flattened  some parents have no usable inverse
    """
    parents = parents[read]
    parent, world = world[:, parents.clamp(min=0)], world[:, read]
    linear = parent[..., :3]
    if flattened:
        risky = _risky(linear)
        u, sigma, vt = torch.linalg.svd(linear[risky])
        sigma = torch.maximum(sigma, _FLATTEST * sigma[..., :1].clamp(min=1e-12))
        linear = linear.clone()
        linear[risky] = u @ (sigma[..., None] * vt)
    shift = world[..., 3:] - parent[..., 3:]
    local = _multiply(_inverse(linear), torch.cat([world[..., :3], shift], dim=-1))
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
