"""A deformer as stock engines play it: rigid bones, few influences, blend shapes, baked clips."""

from understudy.system import fit_packages  # noqa: F401  # says what is missing

# isort: split
from understudy.export.character import ExportSettings as ExportSettings
from understudy.export.character import make_character as make_character
from understudy.export.clips import SourceClip as SourceClip
from understudy.export.clips import animation_clip as animation_clip
from understudy.export.clips import motion_clips as motion_clips
from understudy.export.clips import own_clips as own_clips
from understudy.export.errors import ErrorRow as ErrorRow
from understudy.export.errors import Errors as Errors
