"""Ways to make a Deformer. A method and its solver live together; `registry` finds it by name."""

from understudy.core import fit_packages  # noqa: F401  # says what is missing
from understudy.methods.base import (
    Config,
    Method,
    Option,
    Traits,
    config_from_text,
    option_table,
)
from understudy.methods.registry import method_names, method_type

__all__ = [
    "Config",
    "Method",
    "Option",
    "Traits",
    "config_from_text",
    "method_names",
    "method_type",
    "option_table",
]
