"""Networks that read vertex trajectories: inputs, labels, training characters, training."""
