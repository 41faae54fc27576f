"""Pure NumPy geometry: one idea a file."""
