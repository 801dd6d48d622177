"""Arguments that tell a core where it runs: nobody has to give them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ptosim.engine.core.records import DecodedProgram
from ptosim.ground.ir.program import Function
from ptosim.ground.records import NamedTuple
from ptosim.language.promises import BLOCK, BLOCKS, LANE, told_by
from ptosim.machine.core import SLOT_BLOCK, SLOT_BLOCK_NUM, SLOT_SUBBLOCK, Core

_OF_CORE = {
    BLOCK: (SLOT_BLOCK, "the number of each block"),
    BLOCKS: (SLOT_BLOCK_NUM, "the number of blocks"),
    LANE: (SLOT_SUBBLOCK, "the number of each vector core in its cluster"),
}


class Told(NamedTuple):
    """The slots of arguments with the slots that tell a core the same, and, by name, what is in
    them in words."""

    slots: dict[int, int]
    words: dict[str, str]

    def fill(self, core: Core) -> None:
        """Give a core what it is told."""
        for slot, own in self.slots.items():
            core.slots[slot] = core.slots[own]


def told_arguments(
    launched: Sequence[Function], program: DecodedProgram, given: Collection[str]
) -> Told:
    """Return which arguments of functions tell a core where it runs, but for those that the caller
    gives (`name`, or `name@rank`)."""
    names = {name.partition("@")[0] for name in given}
    found = Told({}, {})
    for value in (v for f in launched for v in f.args if v.name not in names):
        told = told_by(value)
        if told:
            own, words = _OF_CORE[told]
            found.slots[program.slots[value]] = own
            found.words[value.name] = words
    return found
