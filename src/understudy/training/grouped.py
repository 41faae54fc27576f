"""Many small networks trained as one: their layers are stacked and every layer is one batched
matrix product.

Nets differ in how many inputs they read and coefficients they write, so inputs and outputs are
padded; nets of similar width share a stack, which keeps the padding small. A padded input is always
zero and a padded output never enters the loss, so padding changes no result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

# A net joins a stack while it is at least this share of the stack's widest; lower wastes products,
# higher makes many small stacks.
_FILL = 0.6


@dataclass(frozen=True)
class GroupedTask:
    """What one net has to learn: inputs (n,) columns of the shared feature matrix, targets (T,P)
    float32.

    measure (Q,P) or None: the loss is taken of `measure @ (output - target)`, e.g. in the space a
    basis maps to; None: of the difference itself.
    """

    inputs: np.ndarray
    targets: np.ndarray
    measure: np.ndarray | None = None


# Of differences in the scaled targets' units. Most are far below 1, where `mixed` is l1; those
# above it, it counts as l2 does.
_LOSSES = {
    "l1": torch.abs,
    "l2": torch.square,
    "mixed": lambda difference: difference.abs() + difference.square(),
}


class Stack(torch.nn.Module):
    """G networks of equal hidden widths. Data is gathered once: x (G,T,I), y (G,T,P)."""

    def __init__(
        self,
        tasks: Sequence[GroupedTask],
        features: torch.Tensor,
        hidden: Sequence[int],
        activation: str,
        generator: torch.Generator,
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
        # One number per net brings its targets to unit size, so that one learning rate suits a
        # fingertip and a thigh.
        scales = [
            float(
                np.sqrt(np.mean(np.square(task.targets, dtype=np.float64)) * task.targets.shape[1])
            )
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
        self.measure = None
        if any(task.measure is not None for task in tasks):
            if len(tasks) > 1:
                raise ValueError("a measure is for a net that has a stack of its own")
            self.measure = torch.as_tensor(tasks[0].measure.T, dtype=torch.float32, device=device)
        self.output_width = widest_out if self.measure is None else self.measure.shape[1]
        sizes = [widest_in, *hidden, widest_out]
        self.weights, self.biases = torch.nn.ParameterList(), torch.nn.ParameterList()
        for layer, (rows, columns) in enumerate(zip(sizes, sizes[1:])):
            weight = torch.randn(len(tasks), rows, columns, generator=generator)
            for g, inputs in enumerate(self.input_counts):
                # Each net is initialised for its own width, and padding starts (and, reading zeros,
                # stays) at zero.
                fan = inputs if layer == 0 else rows
                # Half of a layer of rectifiers is silent, hence twice the variance there.
                gain = 2.0 if activation == "relu" and layer < len(sizes) - 2 else 1.0
                weight[g] *= (gain / max(1, fan)) ** 0.5
                if layer == 0:
                    weight[g, inputs:] = 0
            if layer == len(sizes) - 2:
                weight *= 0.1  # start near the mean shape
            self.weights.append(torch.nn.Parameter(weight.to(device)))
            self.biases.append(
                torch.nn.Parameter(torch.zeros(len(tasks), 1, columns, device=device))
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(G,n,I) -> (G,n,P), in the scaled targets' units."""
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
        """Summed over nets and outputs, averaged over the poses (n,)."""
        return self._summed(self(self.x[:, poses]) - self.y[:, poses], kind)

    @torch.no_grad()
    def loss_of_nothing(self, poses: torch.Tensor, kind: str) -> float:
        """The loss of predicting zero."""
        return self._summed(self.y[:, poses], kind).item()

    def _summed(self, difference: torch.Tensor, kind: str) -> torch.Tensor:
        if self.measure is not None:
            difference = difference @ self.measure
        return _LOSSES[kind](difference).sum() / difference.shape[1]

    def frozen(self) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
        """Per net its (out,in) weights and biases in the targets' own units, padding cut away, as
        float64.
        """
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


def stack_order(tasks: Sequence[GroupedTask], fill: float = _FILL) -> list[list[int]]:
    """Task numbers gathered into stacks of similar input width, widest first; fill 0: one stack."""
    order = sorted(range(len(tasks)), key=lambda g: (-len(tasks[g].inputs), g))
    stacks: list[list[int]] = []
    for g in order:
        if stacks and len(tasks[g].inputs) >= fill * len(tasks[stacks[-1][0]].inputs):
            stacks[-1].append(g)
        else:
            stacks.append([g])
    return stacks
