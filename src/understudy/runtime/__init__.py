"""Playing a deformer: the compiled runtime, the NumPy reference, torch, and 16-bit storage."""
