"""A deformer as stock engines play it: rigid bones, few influences, blend shapes, baked clips."""

from understudy.system import fit_packages  # noqa: F401  # says what is missing

# isort: split
from understudy.export.character import ExportSettings, make_character
from understudy.export.clips import SourceClip, animation_clip, motion_clips, own_clips
from understudy.export.errors import ErrorRow, Errors

__all__ = [
    "ErrorRow",
    "Errors",
    "ExportSettings",
    "SourceClip",
    "animation_clip",
    "make_character",
    "motion_clips",
    "own_clips",
]
