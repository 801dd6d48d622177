"""Arrays of event numbers, values of the scalar unit."""

from __future__ import annotations

from ptosim.ground.ir.types import HandleType
from ptosim.machine.values import EventArray
from ptosim.ops.base.binding import OpFault
from ptosim.ops.base.context import Action, ValueContext, computed
from ptosim.ops.base.functions import value


@value("pto.declare_eventid_array")
def declare(ctx: ValueContext) -> Action:
    """An array whose entries are not set yet."""
    type_ = ctx.result_type
    length = type_.length if isinstance(type_, HandleType) and type_.length else 0
    return ctx.constant(EventArray((None,) * length))


@value("pto.eventid_array_get")
def get(ctx: ValueContext) -> Action:
    """The entry of an array; one that was never set is a fault."""

    def entry(array: EventArray, at: int) -> int:
        _check(array.entries, at)
        found = array.entries[at]
        if found is None:
            raise OpFault("PTO5008", f"entry {at} of the event array is read before it is set")
        return found

    return ctx.computed(entry, "array", "index")


@value("pto.eventid_array_set")
def set_entry(ctx: ValueContext) -> Action:
    """Sets an entry; the array itself changes."""

    def changed(array: EventArray, at: int, given: int) -> EventArray:
        entries = array.entries
        _check(entries, at)
        return EventArray((*entries[:at], given, *entries[at + 1 :]))

    slots = [ctx.slots[name] for name in ("array", "index", "value")]
    return computed(changed, slots, slots[0])


def _check(entries: tuple[int | None, ...], at: int) -> None:
    if not 0 <= at < len(entries):
        raise OpFault("PTO5007", f"entry {at} is outside the event array of {len(entries)}")
