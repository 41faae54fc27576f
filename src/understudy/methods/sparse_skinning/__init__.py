"""Fewer blending operations from a dense skin: what `two_layer` and the four reductions it is
compared with share.
"""
