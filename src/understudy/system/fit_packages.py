"""SciPy and threadpoolctl, for what fits, measures and converts; its rooms import this first.

Where one is missing, the error names the extra. Loading and playing a deformer never come here.
"""

from understudy.system.errors import MissingDependencyError

try:
    import scipy.linalg  # noqa: F401  # loads its BLAS, which `threadpool_limits` then finds
    from scipy import sparse
    from threadpoolctl import threadpool_limits
except ModuleNotFoundError as problem:
    raise MissingDependencyError(
        f"the package {problem.name} is missing: this install loads and plays deformers; to fit, "
        f"measure, read or convert, pip install 'understudy[fit]'"
    ) from problem

__all__ = ["sparse", "threadpool_limits"]
