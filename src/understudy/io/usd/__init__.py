"""USD: characters read from and written to .usd, .usda, .usdc and .usdz files."""

from understudy.io.usd.reading import read_usd
from understudy.io.usd.writing import SUFFIXES, write_usd

__all__ = ["SUFFIXES", "read_usd", "write_usd"]
