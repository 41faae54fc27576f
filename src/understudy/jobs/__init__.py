"""The jobs that people come for: learn, compress, compare, measure. They print nothing.

Inputs and outputs are typed, everything is checked before any work, and an interrupted job
continues when it is called again.
"""

from understudy.system import fit_packages  # noqa: F401  # says what is missing

# isort: split
from understudy.jobs.comparing import Compared, compare
from understudy.jobs.compressing import Compressed, compress
from understudy.jobs.exporting import export
from understudy.jobs.exports import Exported
from understudy.jobs.fitting import Fit, PartOptions, fit
from understudy.jobs.learning import Result, learn
from understudy.jobs.learning_curves import CurveFound, learning_curve
from understudy.jobs.measuring import Measured, Outputs, Trial, evaluate, measure
from understudy.jobs.reducing import reduce
from understudy.jobs.source import (
    CharacterSource,
    PosesSource,
    RigSource,
    SequenceSource,
    Source,
    read,
)
from understudy.jobs.split import Split, split_poses

__all__ = [
    "CharacterSource",
    "Compared",
    "Compressed",
    "CurveFound",
    "Exported",
    "Fit",
    "Measured",
    "Outputs",
    "PartOptions",
    "PosesSource",
    "Result",
    "RigSource",
    "SequenceSource",
    "Source",
    "Split",
    "Trial",
    "compare",
    "compress",
    "evaluate",
    "export",
    "fit",
    "learn",
    "learning_curve",
    "measure",
    "read",
    "reduce",
    "split_poses",
]
