"""`JoinedFit`: bones in a tree, as both ways to find a skeleton return them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.methods.decomposition.fit import Fit
from understudy.methods.decomposition.skeletons.articulation import Tree


@dataclass(frozen=True, eq=False)
class JoinedFit:
    """Bones with joints between them.

    tree    the hierarchy
    joints  (B,3) at rest, in the solver's units
    fit     transforms (3F,4B), weights and errors
    rest    (V,4) homogeneous rest shape
    errors  squared errors after each of the last iterations
    """

    tree: Tree
    joints: np.ndarray
    fit: Fit
    rest: np.ndarray
    errors: tuple[float, ...]
