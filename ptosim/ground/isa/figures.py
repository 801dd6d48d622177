"""Which values of figures the laws of time can work with."""

from __future__ import annotations

MOST = 1e12
LEAST = 1e-12
"""Of a figure that is not 0; beyond, times are no numbers that floats and cycles count with."""

_DIVISORS = frozenset(("mhz", "gib_per_second", "bytes_per_cycle"))
_PLACES = frozenset(
    f"window.{name}"
    for name in (
        "dispatch.width", "port.depth", "port.width", "in_flight.count", "loads.ports",
        "stores.ports",
    )
)  # fmt: skip
"""What a vector instruction has to find for itself to go on: whole, and one at least."""


def wanted_instead(key: str, value: float) -> str:
    """Return in words what a figure may be that is not this value; nothing if the value is right.
    `key` is the full name of the figure."""
    if key in _PLACES and not 1 <= value <= MOST:
        return f"a number from 1 to {MOST:g}"
    if LEAST <= value <= MOST:
        return ""
    if key.rpartition(".")[2] in _DIVISORS:
        return f"a positive number, from {LEAST:g} to {MOST:g}"
    return "" if value == 0 else f"0 or a positive number, from {LEAST:g} to {MOST:g}"
