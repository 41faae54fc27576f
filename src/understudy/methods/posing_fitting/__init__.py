"""Finding what poses a character without its rig: independent bones, drivers, handles."""

from understudy.methods.posing_fitting.fit import can_pose, fit_posing, with_posing

__all__ = ["can_pose", "fit_posing", "with_posing"]
