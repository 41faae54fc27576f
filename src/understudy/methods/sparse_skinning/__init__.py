"""Sparse skins from dense ones: `two_layer` and the weight reductions it is compared with."""
