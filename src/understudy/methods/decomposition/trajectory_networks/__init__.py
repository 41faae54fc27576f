"""Networks that read vertex trajectories: inputs and predictions."""
