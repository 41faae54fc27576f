"""Polynomials that drive a helper bone: which dofs they read, and of which degree.

Inputs are selected one by one, by how much each reduces the error together with those before it. A
polynomial is accepted only if the poses determine it: along a single walk cycle every joint is some
function of every other, but that says nothing about the rig. The test is the smallest eigenvalue of
the products' covariance, in Legendre polynomials of inputs in [-1,1].

Letters: T poses, D dofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.posing import MAX_DEGREE, products, term_count

MAX_SELECTED = 6
_SELECTION_POSES = 400
_POSES_PER_TERM, _MOST_TERMS = 5, 60
_DETERMINED = 1e-3  # smallest eigenvalue of the covariance relative to the largest
_IMPROVES = 0.85  # an input is added if it reduces the error below this share
_FAR = 0.5  # the same for dofs that are not near in the skeleton
_SIZE = 0.02  # what one more input must at least reduce the error by
_RIDGE = 1e-7

Group = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted polynomial.

    inputs  dofs
    degree  0: constant
    error   (k,) root mean square error, the larger of that on poses that were held out and that on
            the others
    """

    inputs: tuple[int, ...]
    degree: int
    error: np.ndarray


class DriverFitter:
    """Fits polynomials of dofs to numbers of the same T poses.

    pose_count  T
    far         whether dofs that are not near may be inputs
    """

    def __init__(self, pose_count: int, far: bool):
        self.far = far
        # Blocks of neighbouring poses are held out: neighbours in an animation are nearly equal.
        block = np.arange(pose_count) * 16 // max(pose_count, 1)
        self.held_out = block % 4 == 2
        self.learned = ~self.held_out
        self.few = np.unique(
            np.linspace(0, pose_count - 1, min(pose_count, _SELECTION_POSES)).astype(np.int64)
        )

    def fit(
        self, x: np.ndarray, y: np.ndarray, base: Sequence[int], near: Sequence[Group], good: float
    ) -> Fit:
        """Return the polynomial that predicts y.

        x     (T,D) all dofs, in [-1,1]
        y     (T,k)
        base  dofs of the same bone, which are always inputs if the poses allow it
        near  groups of dofs of bones near it. The dofs of a ball joint are a group: products of
              two may matter where neither does alone
        good  root mean square error at which no more inputs are added
        """
        chosen = self._select(x, y, list(base), near, good)
        return self._best_degree(x, y, chosen, good)

    def _select(
        self, x: np.ndarray, y: np.ndarray, base: list[int], near: Sequence[Group], good: float
    ) -> list[int]:
        """Return the inputs."""
        x, y = x[self.few], y[self.few]
        chosen = base
        error, residual = self._quick(x, y, chosen)
        close = {j for group in near for j in group}
        while error > good:
            options = [(group, _IMPROVES) for group in near]
            if self.far:
                options += [((j,), _FAR) for j in _correlated(x, residual, 4) if j not in close]
            best = None
            for group, share in options:
                trial = chosen + [j for j in group if j not in chosen]
                if len(trial) == len(chosen) or len(trial) > MAX_SELECTED:
                    continue
                found, left = self._quick(x, y, trial)
                cost = found * (1 + _SIZE * len(trial))
                if found < share * error and (best is None or cost < best[0]):
                    best = (cost, found, left, trial)
            if best is None:
                break
            _, error, residual, chosen = best
        return self._pruned(x, y, chosen, max((1 + _SIZE) * error, good))

    def _pruned(self, x: np.ndarray, y: np.ndarray, chosen: list[int], most: float) -> list[int]:
        """Return the inputs without those that the error needs not to exceed `most`."""
        for j in list(chosen):
            trial = [k for k in chosen if k != j]
            if self._quick(x, y, trial)[0] <= most:
                chosen = trial
        return chosen

    def _quick(self, x: np.ndarray, y: np.ndarray, chosen: list[int]) -> tuple[float, np.ndarray]:
        """Return the error and residual of degree 2 if the poses determine it, else of degree 1."""
        for degree in (2, 1, 0):
            terms = _legendre(x[:, chosen], degree)
            if degree and not _determined(terms):
                continue
            left = y - terms @ _solve(terms, y)
            free = max(len(y) - terms.shape[1], 1)
            return float(np.sqrt((left**2).sum() / free)), left
        raise AssertionError

    def _best_degree(self, x: np.ndarray, y: np.ndarray, chosen: list[int], good: float) -> Fit:
        """Return the fit of the first good degree, or of that with the least held-out error."""
        inputs = x[:, chosen]
        best = None
        for degree in range(MAX_DEGREE + 1 if chosen else 1):
            count = term_count(len(chosen), degree)
            if degree and (count > _MOST_TERMS or count * _POSES_PER_TERM > self.learned.sum()):
                break
            terms = _legendre(inputs, degree)
            if degree and not _determined(terms[self.learned]):
                break
            left = y - terms @ _solve(terms[self.learned], y[self.learned])
            # Held-out poses alone may miss a motion that one clip has.
            error = np.maximum(_rms(left[self.held_out]), _rms(left[self.learned]))
            if best is None or np.linalg.norm(error) < 0.95 * np.linalg.norm(best[1]):
                best = (degree, error)
            if np.linalg.norm(error) <= good:
                break
        assert best is not None
        degree, error = best
        return Fit(tuple(chosen) if degree else (), degree, error)


def is_animation(motion: np.ndarray) -> bool:
    """Return whether poses (T,n) follow each other as frames do, rather than being random."""
    if len(motion) < 3:
        return False
    step = ((motion[1:] - motion[:-1]) ** 2).sum()
    spread = ((motion - motion.mean(axis=0)) ** 2).sum()
    return bool(step < 0.5 * 2 * spread)  # the steps of independent poses are twice the spread


def _rms(values: np.ndarray) -> np.ndarray:
    """Return the root mean square of each column; 0 without rows."""
    return np.sqrt((values**2).mean(axis=0)) if len(values) else np.zeros(values.shape[1])


def refit(x: np.ndarray, y: np.ndarray, degree: int) -> np.ndarray:
    """Return the coefficients (terms,k) of the polynomial of x (T,n) that fits y (T,k)."""
    return _solve(products(x, degree), y)


def _solve(terms: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the coefficients (terms,k) of the least squares fit of y (T,k)."""
    gram = terms.T @ terms
    gram.flat[:: len(gram) + 1] += _RIDGE * max(float(np.trace(gram)) / len(gram), 1e-12)
    return np.linalg.solve(gram, terms.T @ y)


def _legendre(x: np.ndarray, degree: int) -> np.ndarray:
    """Return products of normalised Legendre polynomials, the span of `products`: (T,terms)."""
    if not degree:
        return np.ones((len(x), 1))
    p1 = np.sqrt(3) * x
    n = x.shape[1]
    if degree == 1:
        return np.concatenate([np.ones((len(x), 1)), p1], axis=1)
    p2 = np.sqrt(5) * (1.5 * x**2 - 0.5)
    if degree == 2:
        first, second = np.triu_indices(n, 1)
        return np.concatenate([np.ones((len(x), 1)), p1, p2, p1[:, first] * p1[:, second]], axis=1)
    powers = [np.ones_like(x), p1, p2]
    if degree > 2:
        powers.append(np.sqrt(7) * (2.5 * x**3 - 1.5 * x))
    if degree > 3:
        powers.append(3 * (4.375 * x**4 - 3.75 * x**2 + 0.375))
    columns = []
    for exponents in _exponents(n, degree):
        column = np.ones(len(x))
        for j, power in exponents:
            column = column * powers[power][:, j]
        columns.append(column)
    return np.stack(columns, axis=1)


def _exponents(n: int, degree: int) -> list[tuple[tuple[int, int], ...]]:
    """Return every ((input, power), ...) of total degree at most `degree`."""
    result: list[tuple[tuple[int, int], ...]] = [()]
    for j in range(n):
        result = [
            (*term, (j, power)) if power else term
            for term in result
            for power in range(degree + 1 - sum(p for _, p in term))
        ]
    return result


def _determined(terms: np.ndarray) -> bool:
    """Return whether poses (T,terms) determine the coefficients."""
    if len(terms) < 2 * terms.shape[1]:
        return False
    values = np.linalg.eigvalsh(terms.T @ terms)
    return bool(values[0] > _DETERMINED * values[-1])


def _correlated(x: np.ndarray, residual: np.ndarray, count: int) -> list[int]:
    """Return the dofs with the largest linear correlation with a residual (T,k)."""
    if not x.shape[1]:
        return []
    a = x - x.mean(axis=0)
    b = residual - residual.mean(axis=0)
    a /= np.maximum(np.linalg.norm(a, axis=0), 1e-12)
    b /= max(float(np.linalg.norm(b)), 1e-12)
    strength = np.linalg.norm(a.T @ b, axis=1)
    order = np.argsort(-strength, kind="stable")[:count]
    return [int(j) for j in order if strength[j] > 0.3]
