"""What the methods with correctives share: the inputs of networks, and their training."""
