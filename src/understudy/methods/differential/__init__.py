"""The machinery behind the methods `differential` and `local`: Laplacian, anchors, regions, labels
and the fold that leaves no solve at run time.
"""
