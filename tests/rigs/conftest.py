"""The .blend files that tests of rigs read."""

from blend_files import blend_files  # noqa: F401
