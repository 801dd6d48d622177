"""Whether the blocks of a launch reach each other's bytes, as far as no values are needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, recoded
from ptosim.ground.isa.profiles import Profile
from ptosim.language.frontend import Front
from ptosim.language.promises import tells_core
from ptosim.launch.dry_run import follow

_RACE, _PERHAPS = "PTO5205", "PTO5207"
_FARTHER = (0, 2, 3, 4, 5, 8, 16)
"""Blocks that the first one may meet where its neighbour does not: rows that are taken modulo a
number, steps of a few blocks."""
_MOST_STEPS = 50_000
"""Instructions of them that are followed."""


def races_of_blocks(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    budget: int | None,
    blocks: int | None,
) -> list[Diagnostic]:
    """Return the races between blocks of an entry that asks which block it is: of a launch of so
    many `blocks`; where nobody says how many there are, of the first two, or of the first and some
    farther ones, as a warning. Of a program that does not ask only a number of blocks makes a
    race."""
    if blocks == 1 or (blocks is None and not _asks(front, entry)):
        return []
    found = follow(front, profile, entry, args, budget=budget, block_num=blocks or 2).findings
    races = [d for d in found if d.code == _RACE and _is_between_blocks(d)]
    if blocks is not None:
        return races
    if not races:
        races = _farther(front, profile, entry, args, budget)
    return [recoded(d, _PERHAPS, _fewer(d)) for d in races]


def _farther(
    front: Front, profile: Profile, entry: str, args: Mapping[str, Any], budget: int | None
) -> list[Diagnostic]:
    """The races of the first block with ones that are not its neighbour. Those of two others say
    nothing: where the rows end, the last blocks of a launch that is too large do the same."""
    budget = min(budget or _MOST_STEPS, _MOST_STEPS)
    how: dict[str, Any] = {"budget": budget, "block_num": _FARTHER[-1] + 1, "chosen": _FARTHER}
    found = follow(front, profile, entry, args, **how).findings
    return [d for d in found if d.code == _RACE and _is_between_blocks(d) and 0 in _blocks(d)]


def _fewer(found: Diagnostic) -> str:
    last = max(_blocks(found))
    many = "two blocks; a launch of one" if last == 1 else f"block {last}; a launch of {last}"
    return f"found with {many} has no such race (`--blocks {last}`)"


def _asks(front: Front, entry: str) -> bool:
    known = front.plans.get(entry)
    return known is not None and any(map(tells_core, known.reached))


def _is_between_blocks(found: Diagnostic) -> bool:
    one, other = _blocks(found)
    return one != other


def _blocks(found: Diagnostic) -> list[int]:
    """The blocks of the two accesses."""
    sides: list[Any] = [found.context[name] for name in ("first", "second")]
    return [side["block"] for side in sides]
