"""Classes of findings to stop at, for `catch` and for the exception filters of an editor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptosim.debug.stops import Breakpoint
from ptosim.ground.errors import UsageError

if TYPE_CHECKING:
    from ptosim.debug.session import Debugger

# Name -> (what it stops at, beginnings of the codes; none: an observer of its own).
FILTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "race": ("data race, missing synchronisation", ("PTO520",)),
    "bounds": (
        "access outside a window, a view or a buffer",
        ("PTO6001", "PTO6013", "PTO6026", "PTO61", "PTO6602"),
    ),
    "uninitialised": ("read of bytes that nothing wrote", ("PTO71",)),
    "nan": ("first NaN", ()),
    "flags": ("flag set twice, or left set", ("PTO521",)),
    "budget": ("memory beyond a space", ("PTO4",)),
    "deadlock": ("a run that cannot go on", ("PTO5006",)),
    "any": ("any finding", ("PTO",)),
}


def catch(session: Debugger, name: str) -> Breakpoint:
    """Stop at a class of findings. Raises UsageError for an unknown one."""
    word = name.strip().lower()
    word = {"uninit": "uninitialised", "oob": "bounds", "races": "race"}.get(word, word)
    if word not in FILTERS:
        raise UsageError(f"`catch` does not take `{name}`", help=f"one of {', '.join(FILTERS)}")
    if word == "nan":
        return session.catch_nan()
    what, codes = FILTERS[word]
    return session.points.add("code", f"catch {word} ({what})", codes=codes)
