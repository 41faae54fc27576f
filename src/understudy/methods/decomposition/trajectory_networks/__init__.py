"""Temporal deep skinning: networks that read how vertices move, the characters they learn from, and
how many bones a motion needs.
"""
