"""Fast and Deep Deformation Approximations: rigid skinning plus one small network per bone."""
