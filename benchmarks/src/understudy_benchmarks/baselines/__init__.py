"""Baselines of the papers.

`fesam`, `pca_regression`, `temporal_paper` and the weight reductions (`reduction`) are methods like
those of `understudy.methods`. `kpsa`, `rotational_regression` and `wpsd` need a solve or the
original rig at run time, so they cannot become a `Deformer`: each has `fit(poses, ...)`, whose
result has `deform(poses)`.
"""
