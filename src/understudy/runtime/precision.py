"""A deformer in 16 bits, or partly in 8: half the bytes to ship and to read at every call, or fewer.

Weights, bases and biases become 16-bit floats, which have 11 significant bits. Where that would hurt, it is made up for:
- A first layer reads raw features, which may lie far from zero beside how much they vary (a bone 90 cm above the ground that moves by 2). There the
  rounding of the weights would act on the 90. Its effect at the middle of each feature's range is moved into the bias, so that only what the
  feature deviates from its middle is multiplied by a rounding error. These biases stay in 32 bits.
- The centres of radial functions stay in 32 bits: they are compared with features, not multiplied.

Rest positions, skin weights and UVs are too coarse as 16-bit floats. They become whole numbers of 16 bits on a grid: `low + number * step`, where the
step is a power of two, so that sums of such numbers are exact. What a grid would round too far stays in 32 bits.

8 bits are whole numbers times one number per row, a coarse grid: a tensor goes there only where that moves no vertex by more than is allowed, judged
on feature vectors from the middle of their ranges; all others stay in 16 bits. First layers mostly do: their columns read features of very
different sizes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.deformer import Deformer, Skin
from understudy.core.errors import InputError
from understudy.core.mesh import Mesh
from understudy.core.networks import Basis, Net, NetGroups

# A weight matrix as (net, layer), or a basis as (None, basis).
Tensor = tuple[int | None, int]
_SAMPLES = 100
_SCALE_BITS = 17  # of a row's number: times a byte it is then exact in a 32-bit float
_TINY = 2.0**-100  # a row of no larger numbers is a row of zeros in 8 bits
_GRID_LAST = 65535
_SMALLEST_STEP = 2.0**-126  # of a normal 32-bit float
# What a grid may cost: rest positions move by at most this share of the height; steps of skin weights, UVs and normals are at most these.
_REST_ERROR, _WEIGHT_STEP, _UV_STEP, _NORMAL_STEP = 3e-5, 2.0**-14, 2.0**-15, 2.0**-14


def halved(deformer: Deformer) -> Deformer:
    """The same deformer with its numbers rounded to 16 bits, and kept so in files and by the runtime."""
    if deformer.storage != "float32":
        return deformer
    nets = tuple(_round_net(net, _middle(deformer)) for net in deformer.nets)
    bases = tuple(Basis(b.vertices, round_to_half(b.matrix, f"basis {number}"), b.coefficients) for number, b in enumerate(deformer.bases))
    mesh, mean = _round_rest(deformer)
    return replace(deformer, mesh=mesh, mean=mean, skin=_round_skin(deformer.skin), nets=nets, bases=bases, storage="float16")


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


def is_half(values: np.ndarray) -> bool:
    """Whether 16-bit floats hold these numbers exactly."""
    with np.errstate(over="ignore"):
        return np.array_equal(values.astype(np.float16).astype(np.float32), values)


def grid_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(n,d) float32 -> whole numbers (n,d) uint16 and the grid (2,d) float32 of lows and steps that give the values back; None: there is none.

    >>> numbers, grid = grid_of(np.array([[1.5], [1.25], [2.0]], np.float32))
    >>> from_grid(numbers, grid).tolist()
    [[1.5], [1.25], [2.0]]
    """
    if not values.size:
        return None
    low = values.min(axis=0).astype(np.float64)
    step = _grid_step(values.max(axis=0) - low)
    numbers = np.rint((values - low) / step).astype(np.uint16)
    grid = np.stack([low, step]).astype(np.float32)
    return (numbers, grid) if np.array_equal(from_grid(numbers, grid), values) else None


def from_grid(numbers: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """(n,d) float32. A number times a power of two is exact, so that the sum alone is rounded: the same on every processor."""
    with np.errstate(over="ignore", invalid="ignore"):  # of a damaged file; what it gives is looked at
        return grid[0] + numbers.astype(np.float32) * grid[1]


def _grid_step(extent: np.ndarray, spare: int = 0) -> np.ndarray:
    """The smallest powers of two of which 65535, less some to spare, reach over each extent."""
    mantissa, exponent = np.frexp(extent / (_GRID_LAST - spare))
    step = np.ldexp(1.0, np.where(mantissa == 0.5, exponent - 1, exponent))
    return np.where(extent > 0, np.maximum(step, _SMALLEST_STEP), _SMALLEST_STEP)


def _to_steps(values: np.ndarray, step: np.ndarray) -> np.ndarray:
    return (np.rint(values / step) * step).astype(np.float32)


def _on_grid(values: np.ndarray | None, coarsest: float) -> np.ndarray | None:
    """values (n,d) on the grid of their own extents, or as they are where that would be coarser than allowed."""
    if values is None or not values.size:
        return values
    step = _grid_step(np.ptp(values.astype(np.float64), axis=0), spare=1)
    return _to_steps(values, step) if (step <= coarsest).all() else values


def _round_rest(deformer: Deformer) -> tuple[Mesh, np.ndarray | None]:
    """The mesh, and the mean displacement, on one grid: the runtime adds the two, and their sum is on that grid again."""
    mesh, mean = deformer.mesh, deformer.mean
    mesh = replace(mesh, corner_uvs=_on_grid(mesh.corner_uvs, _UV_STEP), corner_normals=_on_grid(mesh.corner_normals, _NORMAL_STEP))
    rest = mesh.vertices.astype(np.float64)
    moved = rest if mean is None else rest + mean
    step = _grid_step(np.maximum(np.ptp(rest, axis=0), np.ptp(moved, axis=0)), spare=1)
    if np.linalg.norm(step) / 2 > _REST_ERROR * mesh.height:
        return mesh, mean
    mesh = replace(mesh, vertices=_to_steps(rest, step))
    return mesh, None if mean is None else _to_steps(moved, step) - mesh.vertices


def _round_skin(skin: Skin | None) -> Skin | None:
    """Weights on a grid; each row keeps its sum, which its largest weight makes up for."""
    if skin is None:
        return None
    weight = skin.weight.astype(np.float64)
    step = float(_grid_step(np.ptp(weight), spare=skin.influences))
    if step > _WEIGHT_STEP:
        return skin
    steps = np.rint(weight / step)
    rows, largest = np.arange(len(weight)), np.abs(weight).argmax(axis=1)
    steps[rows, largest] += np.rint(weight.sum(axis=1) / step) - steps.sum(axis=1)
    return replace(skin, weight=(steps * step).astype(np.float32))


def _middle(deformer: Deformer) -> np.ndarray:
    """(X,) the middle of each feature's range; 0 where it has no end."""
    low, high = (bound.astype(np.float64) for bound in (deformer.features.low, deformer.features.high))
    bounded = np.isfinite(low) & np.isfinite(high)
    return np.where(bounded, np.where(bounded, low, 0) / 2 + np.where(bounded, high, 0) / 2, 0.0)


def _round_net(net: Net, middle: np.ndarray) -> Net:
    if net.activation == "rbf":
        return net
    weights = [round_to_half(weight, "net weights") for weight in net.weights]
    moved = (net.weights[0].astype(np.float64) - weights[0]) @ middle[net.inputs]
    biases = ((net.biases[0] + moved).astype(np.float32), *(_round_bias(bias) for bias in net.biases[1:]))
    return Net(net.inputs, tuple(weights), biases, net.outputs, net.activation)


def _round_bias(bias: np.ndarray) -> np.ndarray:
    """As a 16-bit float, or as it is where that is too small for it: biases are few."""
    return bias if np.abs(bias).max(initial=0) > np.finfo(np.float16).max else round_to_half(bias, "net biases")


def in_bytes(deformer: Deformer, error: float = 5e-5) -> Deformer:
    """The same deformer with those weights and bases in 8 bits whose rounding, all together, moves no vertex by more than `error` times the height,
    and the others in 16; rest and skin, in 16 bits, are rounded besides (`halved`). Where a feature has no range there is nothing to judge by: then
    all are in 16 bits."""
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
    return replace(coarse, nets=tuple(nets), bases=tuple(bases), storage="int8")


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
