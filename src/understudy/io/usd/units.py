"""Units of length as USD states them, in metres."""

from __future__ import annotations

METERS_PER_UNIT = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048, "unitless": 1.0}


def unit_of(meters: float) -> str | None:
    """Return the unit of that many metres; None: it has no name.

    >>> unit_of(0.01), unit_of(0.1)
    ('cm', None)
    """
    for unit, size in METERS_PER_UNIT.items():
        if unit != "unitless" and abs(meters - size) <= 1e-6 * size:
            return unit
    return None
