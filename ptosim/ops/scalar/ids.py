"""Operations that ask where the program runs."""

from __future__ import annotations

from ptosim.machine.core import SLOT_BLOCK, SLOT_BLOCK_NUM, SLOT_SUBBLOCK, SLOT_SUBBLOCK_NUM
from ptosim.ops.base.context import Action, ValueContext, computed
from ptosim.ops.base.functions import value

_SLOTS = {
    "pto.get_block_idx": SLOT_BLOCK,
    "pto.get_block_num": SLOT_BLOCK_NUM,
    "pto.get_subblock_idx": SLOT_SUBBLOCK,
    "pto.get_subblock_num": SLOT_SUBBLOCK_NUM,
}


@value(*_SLOTS)
def launch_index(ctx: ValueContext) -> Action:
    """Index and number of the core and of its vector sub-block."""
    return computed(lambda number: number, [_SLOTS[ctx.op.name]], ctx.result)
