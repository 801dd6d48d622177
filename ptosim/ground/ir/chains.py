"""Chains of definitions: what is made of what is made of others. A program has longer ones than
Python nests calls, so nothing follows them by calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

_Link = TypeVar("_Link", bound=Hashable)


def add_in_order(
    last: _Link, terms: Callable[[_Link], Sequence[_Link] | None], found: dict[_Link, None]
) -> bool:
    """Add `last` to `found`, each link once and after its terms. Return False, and look no further,
    where `terms` gives None for one; what is complete by then stays in `found`."""
    waiting, opened = [last], set[_Link]()
    while waiting:
        link = waiting[-1]
        if link in found or link in opened:
            found[link] = None
            waiting.pop()
            continue
        needed = terms(link)
        if needed is None:
            return False
        opened.add(link)
        waiting += reversed(needed)
    return True
