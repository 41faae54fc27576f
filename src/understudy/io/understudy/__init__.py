"""The `.understudy` file: a deformer as safetensors with a JSON header."""

from understudy.io.understudy.file import SUFFIX, entries_of, load, save, to_bytes
from understudy.io.understudy.shares import byte_shares

__all__ = ["SUFFIX", "byte_shares", "entries_of", "load", "save", "to_bytes"]
