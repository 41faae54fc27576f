"""Finding what poses a character without its rig: independent bones, drivers, handles."""

from understudy.methods.posing_fitting.fit import fit_posing, with_posing

__all__ = ["fit_posing", "with_posing"]
