"""The command line."""

from understudy.cli.app import main

__all__ = ["main"]
