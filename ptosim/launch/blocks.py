"""How many blocks of a launch are timed, and how many run at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptosim.ground.records import replace
from ptosim.language.same_blocks import difference
from ptosim.time.chip import Blocks, at_once

if TYPE_CHECKING:
    from ptosim.launch.launch import Launch


def all_blocks(launch: Launch, differ: str = "") -> Blocks:
    """Return the blocks of a launch, all of which are timed."""
    count = launch.options.block_num
    kinds = [role.kind for role in launch.roles]
    pipes = {op.queue for function in launch.functions for op in function.ops}
    room = at_once(launch.machine.definition.cores, kinds, pipes)
    return Blocks(count, min(room, count), count, differ)


def blocks_to_time(launch: Launch) -> Blocks:
    """Return the blocks of a launch without values: one is timed for all where they do the same."""
    every = all_blocks(launch)
    if every.count == 1:
        return every
    if launch.options.ranks > 1:
        return replace(every, differ="ranks may wait for each other")
    differ = difference(launch.functions, by_data=launch.front.sync == "auto")
    return replace(every, differ=differ) if differ else replace(every, timed=1)
