"""Ways to make a Deformer: one file per method."""

from understudy.methods.base import Config, Method, config_from_text
from understudy.methods.registry import method_names, method_type

__all__ = ["Config", "Method", "config_from_text", "method_names", "method_type"]
