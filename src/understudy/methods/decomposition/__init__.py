"""Smooth skinning decomposition, step by step: the motion to explain, bones grown where they help,
weights, transforms, rounds of both.
"""
