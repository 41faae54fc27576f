"""How the networks of `temporal` are trained: labels, training characters, training."""
