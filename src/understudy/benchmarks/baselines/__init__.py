"""Baselines of the papers that need a solve or the original rig at run time.

They cannot become a `Deformer`. Each module has `fit(poses, ...)`, whose result has
`deform(poses)`.
"""
