"""Bones of a given number and their weights, by alternating iterations (`decompose`)."""
