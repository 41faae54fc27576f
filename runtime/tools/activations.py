"""Fits the constants of `tanh_of` and `gelu_of` in src/kernels_body.h.

    python runtime/tools/activations.py

Both functions are x P(x^2) / Q(x^2) up to where they saturate. P and Q are found by iterated least
squares: each round divides the error by the previous Q, so that it is the error of the ratio, and
weights it by its size, so that it becomes even. Prints the constants with the largest error in
exact arithmetic and in single precision.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erf

POINTS, ROUNDS = 4000, 100
ACTIVATIONS = {
    # name: function, weight of its error, degree, end
    "tanh": (np.tanh, lambda x: np.ones_like(x), 4, 8.5),
    "gelu, Phi(x) - 1/2": (lambda x: erf(x / np.sqrt(2)) / 2, lambda x: x, 5, 5.6),
}


def ratio(function, weight, degree: int, end: float) -> tuple[np.ndarray, np.ndarray, float]:
    """P, Q (rising powers of x^2, Q[0] = 1) and the largest weighed error on (0, end)."""
    x = end / 2 * (1 - np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS))
    wanted, powers = function(x), (x[:, None] / end) ** (2 * np.arange(degree + 1))
    rows = np.concatenate([x[:, None] * powers, -wanted[:, None] * powers[:, 1:]], axis=1)
    emphasis, bottom, best = np.ones(POINTS), np.ones(POINTS), (None, None, np.inf)
    for _ in range(ROUNDS):
        scale = weight(x) * emphasis / bottom
        size = np.linalg.norm(rows * scale[:, None], axis=0)
        found = np.linalg.lstsq(rows * scale[:, None] / size, wanted * scale, rcond=None)[0] / size
        p, q = found[: degree + 1], np.concatenate([[1], found[degree + 1 :]])
        bottom = powers @ q
        error = weight(x) * np.abs(x * (powers @ p) / bottom - wanted)
        if bottom.min() > 0 and error.max() < best[2]:
            shrink = end ** -(2.0 * np.arange(degree + 1))
            best = (p * shrink, q * shrink, float(error.max()))
        emphasis *= np.sqrt(0.3 + error / error.max())
        emphasis /= emphasis.mean()
    return best


def single_precision_error(function, weight, p: np.ndarray, q: np.ndarray, end: float) -> float:
    x = np.linspace(0, end, 1_000_001).astype(np.float32)
    square = (x * x).astype(np.float64)

    def polynomial(numbers: np.ndarray) -> np.ndarray:
        result = np.full_like(x, np.float32(numbers[-1]))
        for number in numbers[-2::-1]:  # fused: one rounding for product and sum
            result = (result * square + np.float32(number)).astype(np.float32)
        return result

    exact = x.astype(np.float64)
    return float(
        (weight(exact) * np.abs(x * polynomial(p) / polynomial(q) - function(exact))).max()
    )


if __name__ == "__main__":
    for name, (function, weight, degree, end) in ACTIVATIONS.items():
        p, q, error = ratio(function, weight, degree, end)
        print(
            f"{name}, up to {end}: error {error:.1e}, in single precision "
            f"{single_precision_error(function, weight, p, q, end):.1e}"
        )
        for label, numbers in (("P", p), ("Q", q)):
            print(f"    {label} " + ", ".join(f"{number:.9g}f" for number in numbers))
