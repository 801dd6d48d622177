"""Which loads of a vector region use all bytes that they read.

A load of 256 bytes at the end of an array reads more than there is, and a mask leaves those lanes
out later. A load uses its register whole if the text shows it: every lane reaches a store or a
reduction under a mask with all lanes set, or under none."""

from __future__ import annotations

from ptosim.ground.ir.core import Operation, Value

_LOADS = ("pto.vld", "pto.vsld")
_STORES = ("pto.vsts", "pto.vsst", "pto.vsstb", "pto.vscatter")
_REDUCTIONS = ("pto.vcadd", "pto.vcmax", "pto.vcmin", "pto.vcg", "pto.vcpadd")
_SOME_LANES = ("pto.vdup", "pto.vselr", "pto.vperm", "pto.vsunpack", "pto.vzunpack")
_EVERY = ("pto.pset_b", "pto.pge_b")


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
        if op.name.startswith(_LOADS)
        and any(_is_used_whole(value, users, set()) for value in op.results)
    }


def _is_used_whole(value: Value, users: dict[Value, list[Operation]], seen: set[Value]) -> bool:
    if value in seen:
        return False
    seen.add(value)
    for op in users.get(value, ()):
        if _leaves_out(op):
            continue
        if op.name.startswith(_REDUCTIONS):
            return True
        if op.name.startswith(_STORES):
            if not _is_point(op):
                return True
        elif any(_is_used_whole(result, users, seen) for result in op.results):
            return True
    return False


def _leaves_out(op: Operation) -> bool:
    """True if an operation may leave lanes out, or hands them on in a way that is not followed."""
    mask = getattr(op.bound.get("mask"), "value", None)
    if op.name.startswith(_SOME_LANES):
        return True
    if mask is None:
        return bool(op.regions) or not op.name.startswith("pto.")
    owner = mask.owner
    if owner is None or not owner.name.startswith(_EVERY):
        return True
    pattern = getattr(owner.bound.get("pattern"), "const", None)
    return str(getattr(pattern, "member", pattern)) != "PAT_ALL"


def _is_point(op: Operation) -> bool:
    """True for a store of one lane."""
    return "1PT" in str(op.attrs.get("dist", ""))
