"""Many small networks trained as one: their layers are stacked into batched matrix products.

Networks differ in how many inputs they read and coefficients they write, so inputs and outputs are
padded. Networks of similar input width share a stack, which keeps the padding small. A padded input
is always zero and a padded output never enters the loss, so padding changes no result.

Letters: T poses, G networks of a stack, I inputs, P outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

# A network joins a stack if its input width is at least this fraction of the stack's widest. Lower
# values waste products on padding, higher ones make many small stacks.
_FILL = 0.6
# Stacks are trained apart on a cluster, so there are several where that costs little: a stack has
# no more networks than these, unless they are so small that calls would take longer than products.
_MOST_NETWORKS, _FEW_WEIGHTS = 8, 200_000
_LAST_LAYER_SCALE = 0.1  # training starts near the mean shape


@dataclass(frozen=True, eq=False)
class GroupedTask:
    """What one network learns.

    inputs    (n,) columns of the shared feature matrix
    targets   (T,P) float32
    loss_map  (Q,P) or None: the loss is taken of `loss_map @ (output - target)`, e.g. in the space
              that a basis maps to; None: of the difference itself
    beyond    (T,Q) float32 or None: what the targets leave of the truth after `loss_map`; the loss
              is then taken of `loss_map @ output - truth`
    """

    inputs: np.ndarray
    targets: np.ndarray
    loss_map: np.ndarray | None = None
    beyond: np.ndarray | None = None


# Of differences in the units of the scaled targets. Most are far below 1, where `mixed` is close to
# l1; above 1 it is close to l2.
_LOSSES: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "l1": torch.abs,
    "l2": torch.square,
    "mixed": lambda difference: difference.abs() + difference.square(),
}


class Stack(torch.nn.Module):
    """G networks of equal hidden widths, with their data: x (G,T,I) and y (G,T,P)."""

    def __init__(
        self,
        tasks: Sequence[GroupedTask],
        features: torch.Tensor,
        hidden: Sequence[int],
        activation: str,
        generator: torch.Generator,
        target_scale: float | None = None,
    ):
        super().__init__()
        device = features.device
        self.activation = activation
        self.input_counts = [len(task.inputs) for task in tasks]
        self.output_counts = [task.targets.shape[1] for task in tasks]
        widest_in, widest_out = max(self.input_counts), max(self.output_counts)
        samples = len(features)
        self.x = torch.zeros(len(tasks), samples, widest_in, device=device)
        self.y = torch.zeros(len(tasks), samples, widest_out, device=device)
        # One factor per network brings its targets to unit size, so that one learning rate suits a
        # fingertip and a thigh.
        scales = [
            float(
                np.sqrt(np.mean(np.square(task.targets, dtype=np.float64)) * task.targets.shape[1])
            )
            if target_scale is None
            else target_scale
            for task in tasks
        ]
        self.scale = torch.tensor([s if s > 0 else 1.0 for s in scales], device=device)
        for g, task in enumerate(tasks):
            self.x[g, :, : len(task.inputs)] = features[
                :, torch.as_tensor(task.inputs, dtype=torch.long, device=device)
            ]
            self.y[g, :, : task.targets.shape[1]] = (
                torch.as_tensor(task.targets, device=device) / self.scale[g]
            )
        loss_map, beyond = tasks[0].loss_map, tasks[0].beyond
        if loss_map is not None and len(tasks) > 1:
            raise ValueError("a loss map needs a stack with a single network")
        self.loss_map = self.beyond = None
        if loss_map is not None:
            self.loss_map = torch.as_tensor(loss_map.T, dtype=torch.float32, device=device)  # (P,Q)
        if beyond is not None:
            self.beyond = torch.as_tensor(beyond, device=device) / self.scale[0]
        self.output_width = widest_out if self.loss_map is None else self.loss_map.shape[1]
        self.weights, self.biases = torch.nn.ParameterList(), torch.nn.ParameterList()
        self._initialise([widest_in, *hidden, widest_out], generator, device)

    def _initialise(
        self, sizes: Sequence[int], generator: torch.Generator, device: torch.device
    ) -> None:
        """Random weights and zero biases of layers with `sizes` units each, inputs first."""
        count = len(self.input_counts)
        for layer, (rows, columns) in enumerate(zip(sizes, sizes[1:])):
            weight = torch.randn(count, rows, columns, generator=generator)
            for g, inputs in enumerate(self.input_counts):
                # Each network is initialised for its own width. Padding starts at zero and, since
                # it reads zeros, stays there.
                fan_in = inputs if layer == 0 else rows
                # Half of the units of a ReLU layer are inactive, so the variance is doubled.
                gain = 2.0 if self.activation == "relu" and layer < len(sizes) - 2 else 1.0
                weight[g] *= (gain / max(1, fan_in)) ** 0.5
                if layer == 0:
                    weight[g, inputs:] = 0
            if layer == len(sizes) - 2:
                weight *= _LAST_LAYER_SCALE
            self.weights.append(torch.nn.Parameter(weight.to(device)))
            self.biases.append(torch.nn.Parameter(torch.zeros(count, 1, columns, device=device)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(G,n,I) -> (G,n,P), in the units of the scaled targets."""
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            x = torch.baddbmm(bias, x, weight)
            if layer < len(self.weights) - 1:
                x = (
                    getattr(torch.nn.functional, self.activation)(x)
                    if self.activation != "tanh"
                    else torch.tanh(x)
                )
        return x

    def loss(self, poses: torch.Tensor, kind: str) -> torch.Tensor:
        """The loss, summed over networks and outputs, averaged over the poses (n,)."""
        return self.losses(poses, kind).sum()

    def losses(self, poses: torch.Tensor, kind: str) -> torch.Tensor:
        """The loss of each network (G,), summed over outputs, averaged over the poses (n,)."""
        return self._summed(self(self.x[:, poses]) - self.y[:, poses], poses, kind)

    @torch.no_grad()
    def loss_of_zero(self, poses: torch.Tensor, kind: str) -> float:
        """The loss of predicting zero for the poses (n,)."""
        return self._summed(-self.y[:, poses], poses, kind).sum().item()

    def _summed(self, difference: torch.Tensor, poses: torch.Tensor, kind: str) -> torch.Tensor:
        if self.loss_map is not None:
            difference = difference @ self.loss_map
        if self.beyond is not None:
            difference = difference - self.beyond[poses]
        return _LOSSES[kind](difference).sum(dim=(1, 2)) / difference.shape[1]

    def frozen(self) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
        """Each network's weights (out,in) and biases (out,) float64, without padding or scaling."""
        result = []
        last = len(self.weights) - 1
        for g, (inputs, outputs) in enumerate(zip(self.input_counts, self.output_counts)):
            weights = [w[g].detach().cpu().double().numpy().T for w in self.weights]
            biases = [b[g, 0].detach().cpu().double().numpy() for b in self.biases]
            weights[0] = weights[0][:, :inputs]
            weights[last] = weights[last][:outputs] * float(self.scale[g])
            biases[last] = biases[last][:outputs] * float(self.scale[g])
            result.append((weights, biases))
        return result


def stack_order(
    tasks: Sequence[GroupedTask], hidden: Sequence[int] = (), fill: float = _FILL
) -> list[list[int]]:
    """Task numbers grouped into stacks of similar input width, widest first.

    hidden  widths of the hidden layers, which limit the networks of a stack; empty: no limit
    fill    smallest input width as a fraction of the stack's widest; 0: one stack for all
    """
    order = sorted(range(len(tasks)), key=lambda g: (-len(tasks[g].inputs), g))
    stacks: list[list[int]] = []
    for g in order:
        if stacks and len(tasks[g].inputs) >= fill * len(tasks[stacks[-1][0]].inputs):
            stacks[-1].append(g)
        else:
            stacks.append([g])
    if not hidden:
        return stacks
    return [part for stack in stacks for part in _even_parts(stack, _most(stack, tasks, hidden))]


def _most(stack: Sequence[int], tasks: Sequence[GroupedTask], hidden: Sequence[int]) -> int:
    """How many networks like those of a stack are trained as one."""
    widest_in = max(len(tasks[g].inputs) for g in stack)
    widest_out = max(tasks[g].targets.shape[1] for g in stack)
    sizes = [widest_in, *hidden, widest_out]
    weights = sum(rows * columns for rows, columns in zip(sizes, sizes[1:]))
    return max(_MOST_NETWORKS, _FEW_WEIGHTS // max(1, weights))


def _even_parts(stack: Sequence[int], most: int) -> list[list[int]]:
    """A stack in parts of nearly equal size, of at most `most`.

    >>> _even_parts([5, 6, 7], 2)
    [[5, 6], [7]]
    """
    count = -(-len(stack) // most)
    return [part.tolist() for part in np.array_split(np.asarray(stack), count)]
