"""Skins fitted to poses: best bones, weights, blended borders, and the displacements they leave."""
