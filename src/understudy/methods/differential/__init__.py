"""`differential`: correctives over a deformation subspace. `fit.py` has its steps in order."""
