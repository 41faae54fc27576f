"""`differential` and `local`: correctives over a deformation subspace.

`differential.py` and `local.py` have the methods and their options; `fit.py` has the steps of
`differential` in order.
"""
