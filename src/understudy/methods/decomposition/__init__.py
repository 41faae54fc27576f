"""Mesh sequences to bones and skin weights: `ssdr` and `temporal`, and their solvers.

Each layer imports those before it: `solve` (bones of a given number), `bones` (how many, and
which), `skeleton` (one tree of them), then the methods. `ssdr.py` opens with the problem and the
order in which to read the solver.
"""
