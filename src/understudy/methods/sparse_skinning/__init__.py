"""Sparse skins from dense ones: `two_layer`."""
