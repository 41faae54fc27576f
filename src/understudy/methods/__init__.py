"""Ways to make a Deformer. A method and its solver live together; `registry` finds it by name.

`from understudy.methods import Fdda, FddaConfig` imports that method alone, when it is asked for.
"""

from typing import TYPE_CHECKING

from understudy.system import fit_packages  # noqa: F401  # says what is missing

# isort: split
from understudy.methods.base import (
    Config,
    Method,
    Option,
    Traits,
    config_from_text,
    option_table,
)
from understudy.methods.registry import built_in_class, method_names, method_type

if TYPE_CHECKING:
    from understudy.methods.auto.auto import Auto, AutoConfig
    from understudy.methods.corrected_skin import CorrectedSkin, CorrectedSkinConfig
    from understudy.methods.decomposition.ssdr import Ssdr, SsdrConfig
    from understudy.methods.decomposition.temporal import Temporal, TemporalConfig
    from understudy.methods.differential.config import DifferentialConfig
    from understudy.methods.differential.differential import Differential
    from understudy.methods.fdda import Fdda, FddaConfig
    from understudy.methods.lbs import Lbs, LbsConfig
    from understudy.methods.sparse_skinning.two_layer import TwoLayer, TwoLayerConfig
else:

    def __getattr__(name):
        return built_in_class(name)


__all__ = [
    "Auto",
    "AutoConfig",
    "Config",
    "CorrectedSkin",
    "CorrectedSkinConfig",
    "Differential",
    "DifferentialConfig",
    "Fdda",
    "FddaConfig",
    "Lbs",
    "LbsConfig",
    "Method",
    "Option",
    "Ssdr",
    "SsdrConfig",
    "Temporal",
    "TemporalConfig",
    "Traits",
    "TwoLayer",
    "TwoLayerConfig",
    "config_from_text",
    "method_names",
    "method_type",
    "option_table",
]
