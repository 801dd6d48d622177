"""Which loads of a vector region use all bytes that they read.

A load of 256 bytes at the end of an array reads more than there is, and a mask leaves those lanes
out later. A load uses its register whole if the text shows it: every lane reaches a store or a
reduction under a mask with all lanes set, or under none."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation, Value


def loads_used_whole(region: Operation) -> set[Operation]:
    """Return the loads of a region whose every lane is used."""
    users: dict[Value, list[Operation]] = {}
    _, *ops = region.walk()
    for op in ops:
        for value in op.operand_values():
            users.setdefault(value, []).append(op)
    return {
        op
        for op in ops
        if op.has("loads")
        and not op.has("indexed")
        and any(_is_used_whole(value, users) for value in op.results)
    }


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


def _is_point(op: Operation) -> bool:
    """True for a store of one lane."""
    return "1PT" in str(op.attrs.get("dist", ""))
