"""Streams of unaligned accesses: an align state begins a stream of loads or of stores, goes on from
one access of its kind to the next, through loops and branches too, and is used once on a path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import HandleType, Type
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.source import Source

LOADS, STORES = "loads", "stores"
_BEGINNINGS = {LOADS: "vldas", STORES: "init_align"}

Owners = dict[Value, Operation]
"""What makes each align state; of an argument of a loop the loop, of a function nothing."""


def check(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report align states of the other kind of stream, and those that are used twice."""
    if "align_streams" not in unit_rules(resolved.date).rules:
        return
    source = resolved.module.source
    for function in resolved.functions.values():
        users: dict[Value, list[Operation]] = defaultdict(list)
        owners: Owners = {}
        for op in function.ops:
            blocks = [block for region in op.regions for block in region.blocks]
            for value in (*op.results, *(v for block in blocks for v in block.values)):
                if _is_align(value.type):
                    owners[value] = op
            for value in op.operand_values():
                if _is_align(value.type):
                    users[value].append(op)
        for value, ops in users.items():
            for op in ops:
                yield from _kind(op, value, owners, source)
            yield from _used_again(value, ops, owners.get(value), source)


def _is_align(type_: Type | None) -> bool:
    return isinstance(type_, HandleType) and type_.kind == "align"


# -- kinds of streams ------------------------------------------------------------------------------


def _kind(op: Operation, value: Value, owners: Owners, source: Source) -> Iterator[Diagnostic]:
    wanted = LOADS if op.has(LOADS) else STORES if op.has(STORES) else None
    found = _stream_of(value, owners) if wanted is not None else None
    if wanted is None or found in (None, wanted):
        return
    yield finding(
        "PTO3032",
        f"'{op.name}' op requires an align state of a stream of {wanted}; "
        f"`%{value.name}` is one of {found}",
        op.span(source),
        more=(Label(value.span(source), "made here"),),
        help=f"begin the stream with `pto.{_BEGINNINGS[wanted]}`",
    )


def _stream_of(value: Value, owners: Owners) -> str | None:
    """Return the kind of stream an align state is of, None where it comes from a caller."""
    waiting, seen = [value], set[Value]()
    while waiting:
        value = waiting.pop()
        owner = owners.get(value)
        if owner is None or value in seen:
            continue
        seen.add(value)
        if owner.regions:
            waiting += reversed(_handed_on(value, owner))
        elif not owner.has("call"):
            return LOADS if owner.has(LOADS) else STORES
    return None


def _handed_on(value: Value, owner: Operation) -> list[Value]:
    """The values that an argument of a loop begins with, or that a region gives for a result."""
    arguments = owner.regions[0].blocks[0].values if owner.regions[0].blocks else []
    if value in arguments:
        given = owner.bound.get("init") or []
        at = arguments.index(value) - (len(arguments) - len(given))
        return [given[at].value] if at >= 0 and given[at].value is not None else []
    at = list(owner.results).index(value) if value in owner.results else None
    lasts = [r.last for r in owner.regions if r.last is not None and r.last.has("yields")]
    given = [last.bound.get("values", [])[at : at + 1] for last in lasts] if at is not None else []
    return [o.value for found in given for o in found if o.value is not None]


# -- one use on each path --------------------------------------------------------------------------


def _used_again(
    value: Value, ops: list[Operation], owner: Operation | None, source: Source
) -> Iterator[Diagnostic]:
    for number, op in enumerate(ops):
        earlier = next((o for o in ops[:number] if not _exclude(o, op)), None)
        if earlier is not None:
            yield _twice(value, op, Label(earlier.span(source), "used before"), source)
            return
        loop = _loop_around(value, owner, op)
        if loop is not None:
            again = Label(loop.span(source), "each round of this loop uses it")
            yield _twice(value, op, again, source)
            return


def _twice(value: Value, op: Operation, where: Label, source: Source) -> Diagnostic:
    return finding(
        "PTO3033",
        f"'{op.name}' op uses the align state `%{value.name}` again",
        op.span(source),
        more=(where,),
        notes=("an align state is what is left of a stream: each is used once on a path",),
        help="use the align state that the operation before gives; carry it through a loop",
    )


def _exclude(first: Operation, second: Operation) -> bool:
    """True if no path goes through both: they are in different regions of a branch, or in different
    blocks, of which the jumps decide."""
    holders = dict(_upwards(first))
    for holder, child in _upwards(second):
        if holder in holders:
            return _block_of(holder, child) != _block_of(holder, holders[holder])
    return True


def _upwards(op: Operation) -> Iterator[tuple[Operation, Operation]]:
    """The operations around one, each with the operation of its regions that it is in."""
    child = op
    for holder in op.around():
        yield holder, child
        child = holder


def _block_of(holder: Operation, child: Operation) -> tuple[int, int]:
    blocks = ((r, b) for r, region in enumerate(holder.regions) for b in range(len(region.blocks)))
    return next(at for at in blocks if child in holder.regions[at[0]].blocks[at[1]].ops)


def _loop_around(value: Value, owner: Operation | None, op: Operation) -> Operation | None:
    """The loop that uses an align state of outside in each of its rounds."""
    is_result = owner is not None and value in owner.results
    holder = owner.parent if owner is not None and is_result else owner
    for around in op.around():
        if around is holder:
            return None
        if around.has("loop"):
            return around
    return None
