"""Compiled kernels. Absent where the package was put together without a compiler; see `understudy.decomposition.kernels`."""
