"""Algorithms 1 and 2 of Le & Deng 2013 in plain NumPy: the reference of the compiled loops."""

from itertools import combinations

import numpy as np


def solve(residuals, atoms):
    """Eq. 6: the error and the affine weights of the combination of residuals nearest to zero.

    residuals  atom -> (q,)
    atoms      one or two of them
    """
    parts = np.stack([residuals[a] for a in atoms])
    if len(atoms) == 1:
        return float(parts[0] @ parts[0]), np.ones(1)
    along = parts[0] - parts[1]
    length = along @ along
    if length <= 1e-6 * (parts[0] @ parts[0] + parts[1] @ parts[1]):
        return np.inf, None
    first = -(parts[1] @ along) / length
    weights = np.array([first, 1 - first])
    residual = weights @ parts
    return float(residual @ residual), weights


class Reference:
    """The state of a factorisation of weights alone.

    dictionary  (m,B)
    chosen      pairs (atom, coefficient) of each vertex
    errors      (V,)
    """

    def __init__(self, weights, neighbours):
        self.weights, self.neighbours = weights, neighbours
        norms = np.sum(weights**2, axis=1)
        first = int(np.argmax(norms))
        second = int(np.argmin(weights @ weights[first]))
        self.dictionary = weights[[first, second]].copy()
        self.chosen = [() for _ in weights]
        self.errors = np.full(len(weights), np.inf)
        for vertex in range(len(weights)):
            self.improve(vertex, [0, 1])

    def improve(self, vertex, candidates):
        """Lines 1, 2 and 4 of Algorithm 2: take the best pair of candidates if it is better."""
        residuals = {a: self.dictionary[a] - self.weights[vertex] for a in candidates}
        trials = [(a,) for a in candidates] + list(combinations(candidates, 2))
        solved = [(solve(residuals, atoms), atoms) for atoms in trials]
        (error, weights), atoms = min(solved, key=lambda one: one[0][0])
        if not error < self.errors[vertex] * (1 - 1e-7):
            return False
        self.errors[vertex] = error
        self.chosen[vertex] = tuple((a, w) for a, w in zip(atoms, weights) if w != 0)
        return True

    def atoms_of(self, vertex):
        return [atom for atom, _ in self.chosen[vertex]]

    def propagate(self, vertex):
        """Lines 3 to 6 of Algorithm 2, recursively."""
        for other in self.neighbours[vertex]:
            own = self.atoms_of(other)
            offered = [atom for atom in self.atoms_of(vertex) if atom not in own]
            if offered and self.improve(other, own + offered):
                self.propagate(other)

    def add_atom(self):
        """Lines 5 to 7 of Algorithm 1."""
        worst = int(np.argmax(self.errors))
        self.dictionary = np.vstack([self.dictionary, self.weights[worst]])
        if self.improve(worst, [*self.atoms_of(worst), len(self.dictionary) - 1]):
            self.propagate(worst)

    def coefficients(self):
        """A as (V,m)."""
        result = np.zeros((len(self.weights), len(self.dictionary)))
        for vertex, pairs in enumerate(self.chosen):
            for atom, weight in pairs:
                result[vertex, atom] = weight
        return result


def update_dictionary(dictionary, coefficients, weights):
    """Eq. 5 for each atom in turn: d_j <- (gamma_j - D phi_j) / Phi_jj + d_j.

    dictionary (m,B), coefficients (V,m), weights (V,B)
    """
    phi, gamma = coefficients.T @ coefficients, coefficients.T @ weights
    dictionary = dictionary.copy()
    for j in range(len(dictionary)):
        if phi[j, j] > 0:
            dictionary[j] += (gamma[j] - phi[j] @ dictionary) / phi[j, j]
    return dictionary
