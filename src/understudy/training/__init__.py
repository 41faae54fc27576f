"""Grouped networks and their trainer (torch)."""
