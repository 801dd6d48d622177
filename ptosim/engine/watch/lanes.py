"""What the text of a vector region shows of its loads: which of them use all bytes that they read,
and which stores they feed.

A load of 256 bytes at the end of an array reads more than there is, and a mask leaves those
lanes out later. A load uses its register whole if the text shows it: every lane reaches a store
or a reduction under a mask with all lanes set, or under none."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.records import NamedTuple


def loads_used_whole(region: Operation) -> set[Operation]:
    """Return the loads of a region whose every lane is used."""
    users = _users(region)
    _, *ops = region.walk()
    return {
        op
        for op in ops
        if op.has("loads")
        and not op.has("indexed")
        and any(_is_used_whole(value, users) for value in op.results)
    }


def _users(region: Operation) -> dict[Value, list[Operation]]:
    users: dict[Value, list[Operation]] = {}
    _, *ops = region.walk()
    for op in ops:
        for value in op.operand_values():
            users.setdefault(value, []).append(op)
    return users


def _is_used_whole(value: Value, users: dict[Value, list[Operation]]) -> bool:
    waiting, seen = [value], set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for op in users.get(value, ()):
            if _leaves_out(op):
                continue
            if op.has("reduces"):
                return True
            if not op.has("stores") or "align" in op.bound:
                waiting += op.results
            elif not _is_point(op):
                return True
    return False


def _leaves_out(op: Operation) -> bool:
    """True if an operation may leave lanes out, or hands them on in a way that is not followed."""
    mask = getattr(op.bound.get("mask"), "value", None)
    if op.has("picks_lanes"):
        return True
    if mask is None:
        return bool(op.regions) or op.has("yields") or op.has("selects")
    pattern = getattr(mask.owner.bound.get("pattern"), "const", None) if mask.owner else None
    return str(getattr(pattern, "member", pattern)) != "PAT_ALL"


class Fed(NamedTuple):
    """How a store gets what a load read: in the same lanes, or a round of a loop later."""

    by_lanes: bool
    later: bool


def stores_fed(region: Operation) -> dict[Operation, dict[Operation, Fed]]:
    """Return for each load of a region the stores of it that what it read takes part in."""
    users = _users(region)
    return {op: _fed_by(op, users) for op in region.walk() if op.has("loads")}


def _fed_by(load: Operation, users: dict[Value, list[Operation]]) -> dict[Operation, Fed]:
    found: dict[Operation, Fed] = {}
    known: dict[Value, Fed] = {}
    waiting = [(value, Fed(by_lanes=True, later=False)) for value in load.results]
    while waiting:
        value, fed = waiting.pop()
        before = known.get(value)
        if before is not None:
            fed = Fed(before.by_lanes and fed.by_lanes, before.later or fed.later)
            if fed == before:
                continue
        known[value] = fed
        for op in users.get(value, ()):
            if op.has("stores"):
                found[op] = fed
            waiting += _handed_on(op, fed)
    return found


def _handed_on(op: Operation, fed: Fed) -> Iterator[tuple[Value, Fed]]:
    """What an operation makes of a value; a loop gives what it yields to its next round."""
    around = op.parent if op.has("yields") else None
    if around is not None:
        later = fed.later or around.has("loop")
        values = [*around.results]
        if around.has("loop"):
            values += [v for r in around.regions for b in r.blocks for v in b.values]
        for value in values:
            yield value, Fed(fed.by_lanes, later)
    by_lanes = fed.by_lanes and not (op.has("picks_lanes") or op.has("reduces"))
    for value in op.results:
        yield value, Fed(by_lanes, fed.later)


def _is_point(op: Operation) -> bool:
    """True for a store of one lane."""
    return "1PT" in str(op.attrs.get("dist", ""))
