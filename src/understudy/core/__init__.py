"""The nouns: meshes, skeletons, controls, poses, clips, skins, networks and the deformer they make
up; checks, errors and progress.
"""
