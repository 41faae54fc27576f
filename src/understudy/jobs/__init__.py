"""The jobs that people come for: learn, compress, compare, measure. They print nothing.

Inputs and outputs are typed, everything is checked before any work, and an interrupted job
continues when it is called again.
"""

from understudy.system import fit_packages  # noqa: F401  # says what is missing

# isort: split
from understudy.jobs.comparing import Compared as Compared
from understudy.jobs.comparing import compare as compare
from understudy.jobs.compressing import Compressed as Compressed
from understudy.jobs.compressing import compress as compress
from understudy.jobs.exporting import export as export
from understudy.jobs.exports import Exported as Exported
from understudy.jobs.fitting import Fit as Fit
from understudy.jobs.fitting import PartOptions as PartOptions
from understudy.jobs.fitting import fit as fit
from understudy.jobs.learning import Result as Result
from understudy.jobs.learning import learn as learn
from understudy.jobs.learning_curves import CurveFound as CurveFound
from understudy.jobs.learning_curves import learning_curve as learning_curve
from understudy.jobs.measuring import Measured as Measured
from understudy.jobs.measuring import Outputs as Outputs
from understudy.jobs.measuring import Trial as Trial
from understudy.jobs.measuring import evaluate as evaluate
from understudy.jobs.measuring import measure as measure
from understudy.jobs.reducing import reduce as reduce
from understudy.jobs.source import CharacterSource as CharacterSource
from understudy.jobs.source import PosesSource as PosesSource
from understudy.jobs.source import RigSource as RigSource
from understudy.jobs.source import SequenceSource as SequenceSource
from understudy.jobs.source import Source as Source
from understudy.jobs.source import read as read
from understudy.jobs.split import Split as Split
from understudy.jobs.split import split_poses as split_poses
