"""From loose bones to a character: joints, one tree, motion about them, weights fitted again, rest
frames an artist can pose.
"""
