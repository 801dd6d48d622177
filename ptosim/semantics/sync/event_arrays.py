"""Arrays of event numbers, values of the scalar unit."""

from __future__ import annotations

from ptosim.ground.ir.types import HandleType
from ptosim.machine.core import Core
from ptosim.machine.values import EventArray
from ptosim.semantics.base.binding import OpFault
from ptosim.semantics.base.functions import value
from ptosim.semantics.base.scalar_unit import Action, ValueContext


@value("pto.declare_eventid_array")
def declare(ctx: ValueContext) -> Action:
    """An array whose entries are not set yet."""
    result = ctx.result
    type_ = ctx.result_type
    length = type_.length if isinstance(type_, HandleType) and type_.length else 0
    empty = EventArray((None,) * length)

    def run(core: Core) -> None:
        core.slots[result] = empty

    return run


@value("pto.eventid_array_get")
def get(ctx: ValueContext) -> Action:
    """The entry of an array; one that was never set is a fault."""
    array, index, result = ctx.slots["array"], ctx.slots["index"], ctx.result

    def run(core: Core) -> None:
        slots = core.slots
        entries, at = slots[array].entries, slots[index]
        _check(entries, at)
        if entries[at] is None:
            raise OpFault("PTO5008", f"entry {at} of the event array is read before it is set")
        slots[result] = entries[at]

    return run


@value("pto.eventid_array_set")
def set_entry(ctx: ValueContext) -> Action:
    """Sets an entry; the array itself changes."""
    array, index, given = ctx.slots["array"], ctx.slots["index"], ctx.slots["value"]

    def run(core: Core) -> None:
        slots = core.slots
        entries, at = slots[array].entries, slots[index]
        _check(entries, at)
        slots[array] = EventArray((*entries[:at], slots[given], *entries[at + 1 :]))

    return run


def _check(entries: tuple[int | None, ...], at: int) -> None:
    if not 0 <= at < len(entries):
        raise OpFault("PTO5007", f"entry {at} is outside the event array of {len(entries)}")
