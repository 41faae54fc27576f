"""`differential`, `local` and `pca_regression`: correctives over a deformation subspace.

`differential.py`, `local.py` and `pca_regression.py` have the methods and their options; `fit.py`
has the steps of `differential` in order.
"""
