"""Playback of a deformer: the compiled runtime, NumPy, torch, and 16-bit storage."""
