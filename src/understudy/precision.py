"""Weights and bases in 16 bits, or partly in 8: half the bytes to ship and to read at every call, or fewer.

A 16-bit float has 11 significant bits. Where that would hurt, it is made up for:
- Biases stay in 32 bits; they are few.
- A first layer reads raw features, which may lie far from zero beside how much they vary (a bone 90 cm above the ground that moves by 2). There the
  rounding of the weights would act on the 90. Its effect at the middle of each feature's range is moved into the bias, so that only what the
  feature deviates from its middle is multiplied by a rounding error.
- The centres of radial functions stay in 32 bits: they are compared with features, not multiplied.

8 bits are whole numbers times one number per row, a coarse grid: a tensor goes there only where that moves no vertex by more than is allowed, judged
on feature vectors from the middle of their ranges; all others stay in 16 bits. First layers mostly do: their columns read features of very
different sizes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.deformer import Deformer
from understudy.errors import InputError
from understudy.networks import Basis, Net, NetGroups

# A weight matrix as (net, layer), or a basis as (None, basis).
Tensor = tuple[int | None, int]
_SAMPLES = 100
_SCALE_BITS = 17  # of a row's number: times a byte it is then exact in a 32-bit float
_TINY = 2.0**-100  # a row of no larger numbers is a row of zeros in 8 bits


def halved(deformer: Deformer) -> Deformer:
    """The same deformer with its weights and bases rounded to 16-bit floats and kept so in files and by the runtime."""
    if deformer.storage != "float32":
        return deformer
    nets = tuple(_round_net(net, _middle(deformer)) for net in deformer.nets)
    bases = tuple(Basis(b.vertices, round_to_half(b.matrix, f"basis {number}"), b.coefficients) for number, b in enumerate(deformer.bases))
    return replace(deformer, nets=nets, bases=bases, storage="float16")


def round_to_half(values: np.ndarray, name: str) -> np.ndarray:
    """The nearest numbers that a 16-bit float holds, as float32.

    >>> round_to_half(np.array([0.1], np.float32), "weights").tolist()
    [0.0999755859375]
    """
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16).astype(np.float32)
    if not np.isfinite(rounded).all():
        raise InputError(f"{name}: holds {float(np.abs(values).max()):g}; a 16-bit float ends at 65504. Keep this deformer in float32")
    return rounded


def _middle(deformer: Deformer) -> np.ndarray:
    """(X,) the middle of each feature's range; 0 where it has no end."""
    low, high = (bound.astype(np.float64) for bound in (deformer.features.low, deformer.features.high))
    bounded = np.isfinite(low) & np.isfinite(high)
    return np.where(bounded, np.where(bounded, low, 0) / 2 + np.where(bounded, high, 0) / 2, 0.0)


def _round_net(net: Net, middle: np.ndarray) -> Net:
    if net.activation == "rbf":
        return net
    weights = [round_to_half(weight, "net weights") for weight in net.weights]
    biases = list(net.biases)
    moved = (net.weights[0].astype(np.float64) - weights[0]) @ middle[net.inputs]
    biases[0] = (biases[0] + moved).astype(np.float32)
    return Net(net.inputs, tuple(weights), tuple(biases), net.outputs, net.activation)


def in_bytes(deformer: Deformer, error: float = 5e-5) -> Deformer:
    """The same deformer with those weights and bases in 8 bits whose rounding, all together, moves no vertex by more than `error` times the height,
    and the others in 16. Where a feature has no range there is nothing to judge by: then all are in 16 bits."""
    if deformer.storage != "float32":
        return deformer
    coarse = halved(deformer)
    features = _sampled_features(deformer)
    tensors = [(g, layer) for g, net in enumerate(deformer.nets) if net.activation != "rbf" for layer in range(len(net.weights))]
    tensors += [(None, number) for number in range(len(deformer.bases))]
    if features is None:
        tensors = []
    judge = _Judge(deformer, features) if tensors else None
    alone = [judge.moved(*_with_bytes(deformer, deformer, [tensor]), tensor) for tensor in tensors]
    order = [tensors[i] for i in np.argsort(alone, kind="stable")]
    kept, over = 0, len(order) + 1  # the first `kept` are fine together, the first `over` are not
    while over - kept > 1:
        middle = (kept + over) // 2
        if judge.moved(*_with_bytes(deformer, coarse, order[:middle])) <= error * deformer.mesh.height:
            kept = middle
        else:
            over = middle
    nets, bases = _with_bytes(deformer, coarse, order[:kept])
    return replace(deformer, nets=tuple(nets), bases=tuple(bases), storage="int8")


def round_to_bytes(values: np.ndarray) -> np.ndarray:
    """(n,m) -> float32: each row the nearest whole numbers from -127 to 127 times one number of the row's own.

    >>> round_to_bytes(np.array([[127.0, -3.6]], np.float32)).tolist()
    [[127.0, -4.0]]
    """
    largest = np.abs(values).max(axis=1, initial=0).astype(np.float64)
    largest[largest < _TINY] = 0  # float32 holds no number for such a row
    mantissa, exponent = np.frexp(largest / 127)
    scales = np.ldexp(np.ceil(np.ldexp(mantissa, _SCALE_BITS)), exponent - _SCALE_BITS)[:, None]
    return (np.rint(values / np.where(scales > 0, scales, 1)) * scales).astype(np.float32)


def bytes_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The whole numbers (n,m) int8 and row numbers (n,) float32 that `round_to_bytes` made values from; None: they are not of that kind."""
    scales = np.abs(values).max(axis=1, initial=0) / np.float32(127)
    numbers = np.rint(values / np.where(scales > 0, scales, 1)[:, None])
    if not np.array_equal((numbers * scales[:, None]).astype(np.float32), values):
        return None
    return numbers.astype(np.int8), scales


def _sampled_features(deformer: Deformer) -> np.ndarray | None:
    """(S,X) float32 in the middle half of each range, which is what training saw where the clamp was widened; None: some range has no end."""
    low, high = deformer.features.low.astype(np.float64), deformer.features.high.astype(np.float64)
    if not np.isfinite(low).all() or not np.isfinite(high).all():
        return None
    share = np.random.default_rng(0).uniform(0.25, 0.75, (_SAMPLES, len(low)))
    return (low + share * (high - low)).astype(np.float32)


def _with_bytes(exact: Deformer, others: Deformer, tensors: list[Tensor]) -> tuple[list[Net], list[Basis]]:
    """The nets and bases of `others` with some tensors of `exact` rounded to 8 bits."""
    middle = _middle(exact)
    nets, bases = list(others.nets), list(others.bases)
    for net, number in tensors:
        if net is None:
            basis = exact.bases[number]
            bases[number] = Basis(basis.vertices, round_to_bytes(basis.matrix), basis.coefficients)
            continue
        now = nets[net]
        weights, biases = list(now.weights), list(now.biases)
        weights[number] = round_to_bytes(exact.nets[net].weights[number])
        if number == 0:
            moved = (exact.nets[net].weights[0].astype(np.float64) - weights[0]) @ middle[now.inputs]
            biases[0] = (exact.nets[net].biases[0] + moved).astype(np.float32)
        nets[net] = Net(now.inputs, tuple(weights), tuple(biases), now.outputs, now.activation)
    return nets, bases


class _Judge:
    """How far other weights and bases move vertices from where a deformer's own put them, at some feature vectors."""

    def __init__(self, deformer: Deformer, features: np.ndarray):
        self._deformer, self._features = deformer, features
        self._coefficients = self._played(deformer.nets)
        self._displaced = [_displaced(basis, self._coefficients) for basis in deformer.bases]
        self._readers: dict[int, list[int]] = {}
        for number, basis in enumerate(deformer.bases):
            for c in np.unique(basis.coefficients):
                self._readers.setdefault(int(c), []).append(number)

    def _played(self, nets) -> np.ndarray:
        return NetGroups(nets, self._features.shape[1], self._deformer.coefficient_count)(self._features)

    def moved(self, nets: list[Net], bases: list[Basis], only: Tensor | None = None) -> float:
        """The largest distance, in model units. only: the one tensor that differs from the deformer's own."""
        own, coefficients, which = self._deformer, self._coefficients, range(len(bases))
        if only is None:
            coefficients = self._played(nets)
        elif only[0] is None:
            which = [only[1]]
        else:
            net = only[0]
            coefficients = coefficients + self._played([nets[net]]) - self._played([own.nets[net]])
            which = sorted({number for c in own.nets[net].outputs for number in self._readers.get(int(c), ())})
        if len(which) == 1:
            distance = _displaced(bases[which[0]], coefficients) - self._displaced[which[0]]
        else:
            distance = np.zeros((_SAMPLES, own.mesh.vertex_count, 3), np.float32)
            for number in which:
                distance[:, bases[number].vertices] += _displaced(bases[number], coefficients) - self._displaced[number]
        return float(np.linalg.norm(distance, axis=2).max(initial=0))


def _displaced(basis: Basis, coefficients: np.ndarray) -> np.ndarray:
    """(S,n,3)."""
    if basis.shared:
        return np.stack([coefficients[:, of] @ basis.matrix.T for of in basis.coefficients], axis=2)
    return (coefficients[:, basis.coefficients] @ basis.matrix.T).reshape(len(coefficients), -1, 3)
