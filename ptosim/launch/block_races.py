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


def races_of_blocks(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    budget: int | None,
    blocks: int | None,
) -> list[Diagnostic]:
    """Return the races between blocks of an entry that asks which block it is: of a launch of so
    many `blocks`, or of the first two, as a warning, where nobody says how many there are. Of a
    program that does not ask only a number of blocks makes a race."""
    if blocks == 1 or (blocks is None and not _asks(front, entry)):
        return []
    found = follow(front, profile, entry, args, budget=budget, block_num=blocks or 2).findings
    races = [d for d in found if d.code == _RACE and _is_between_blocks(d)]
    if blocks is not None:
        return races
    note = "found with two blocks; a launch of one has no such race (`--blocks 1`)"
    return [recoded(d, _PERHAPS, note) for d in races]


def _asks(front: Front, entry: str) -> bool:
    known = front.plans.get(entry)
    return known is not None and any(map(tells_core, known.reached))


def _is_between_blocks(found: Diagnostic) -> bool:
    sides: list[Any] = [found.context[name] for name in ("first", "second")]
    return sides[0]["block"] != sides[1]["block"]
