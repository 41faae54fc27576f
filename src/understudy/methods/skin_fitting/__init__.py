"""Skins from poses: the best bone of each vertex, weights, blended borders, and the displacements a
skin leaves over.
"""
