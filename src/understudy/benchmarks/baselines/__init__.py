"""Methods of the papers' tables that need a solve at run time and so are no Deformers: `fit(poses,
...)` gives an object with `deform(poses)`.
"""
