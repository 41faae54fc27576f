"""Units of length as USD states them, in metres."""

from __future__ import annotations

from understudy.core.coordinates import METRES


def unit_of(meters: float) -> str | None:
    """Return the unit of that many metres; None: it has no name.

    >>> unit_of(0.01), unit_of(0.1)
    ('cm', None)
    """
    for unit, size in METRES.items():
        if unit != "unitless" and abs(meters - size) <= 1e-6 * size:
            return unit
    return None
