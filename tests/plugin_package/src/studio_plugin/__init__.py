"""A method, a rig and a format in a package of their own."""
