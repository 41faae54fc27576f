"""Measuring a stand-in against the original: the catalogue of metrics, pictures and the report."""

from understudy.system import fit_packages  # noqa: F401  # says what is missing
