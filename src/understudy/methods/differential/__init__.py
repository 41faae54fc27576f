"""`differential` and `local`: correctives over a deformation subspace."""
