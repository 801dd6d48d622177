"""How often Python's cycle collector runs."""

from __future__ import annotations

import gc

NEW_OBJECTS = 50_000
"""Objects that are made before the collector looks at them; Python's own number is 700."""
AT_START = 200_000
"""The same while a command is loaded: modules and tables are some 100,000 objects, and all of them
stay. One look at half of them took a twentieth of the time of a small command."""


def at_start() -> None:
    """Keep the collector off a command line while it is loaded, until `keep` or `seldom`."""
    if gc.get_threshold()[0] > 0:
        gc.set_threshold(AT_START)


def seldom() -> tuple[int, int, int]:
    """Let the collector come rarely and return the thresholds there were, for `gc.set_threshold`.

    It would walk every module and program again and again, and neither loading nor executing makes
    cycles: half of the time of a loop over new addresses, a tenth of that of a small command."""
    if gc.get_threshold()[0] == AT_START:
        keep()
    before = gc.get_threshold()
    if 0 < before[0] < NEW_OBJECTS:
        gc.set_threshold(NEW_OBJECTS, *before[1:])
    return before


_frozen: list[bool] = []


def keep() -> None:
    """Keep the collector off what there is, which lives as long as the process: modules, and the
    first program. Once: what a process that loads many programs is done with has to go."""
    if not _frozen:
        _frozen.append(True)
        gc.freeze()
    if gc.get_threshold()[0] == AT_START:
        gc.set_threshold(NEW_OBJECTS)
