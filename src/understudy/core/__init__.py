"""What everything else works on: meshes, skeletons, controls, poses, clips, skins and deformers.

Checks, errors and progress are here too.
"""
