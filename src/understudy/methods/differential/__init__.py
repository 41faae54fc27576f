"""`differential`: correctives over a deformation subspace."""
