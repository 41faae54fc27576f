"""Mesh sequences to bones and skin weights: `ssdr` and `temporal`, and their solvers.

`ssdr.py` opens with the problem and the order in which to read the solver.
"""
