"""The operands of an operation and what it does with each: its row says, by role. The row's
`access` adds what roles cannot say: sources that the library destroys, scratch that it uses, pairs
of events and registers of its own, a destination that keeps what is around the window that is
written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.isa.schema import Role, ScratchEffect

READ = (Role.IN, Role.INOUT)
WRITTEN = (Role.OUT, Role.INOUT)
"""Roles of operands whose content an operation reads and of those that are its results; scratch is
neither."""


@lru_cache(maxsize=4096)
def roles(op: Operation) -> tuple[tuple[str, Role], ...]:
    """Return what an operation does with each of its operands, in the order of its row; placed
    scratch that its form has no operand for comes last."""
    operands = op.variant.operands if op.variant is not None else ()
    named = {o.name: o.role for o in operands}
    return tuple((named | {n: Role.SCRATCH for n in op.scratch or () if n not in named}).items())


@lru_cache(maxsize=4096)
def role_of(op: Operation, name: str) -> Role:
    """Return what an operation does with an operand; it reads what its row does not name."""
    return dict(roles(op)).get(name, Role.IN)


def forget_roles() -> None:
    """Operations will be bound anew, some perhaps to other operands."""
    roles.cache_clear()
    role_of.cache_clear()


def named_values(op: Operation) -> Iterator[tuple[str, Role, Value]]:
    """Yield the values that the text of an operation names, with its results: operand, role and
    value, of lists each."""
    for name, operand in op.operands():
        if operand.value is not None:
            yield name, role_of(op, name), operand.value
    for name, value in op.result_values.items():
        yield name, Role.OUT, value


def written_name(op: Operation, name: str) -> str:
    """Return the name that the program gives an operand of a row, with `%`; its own if none."""
    value = getattr(op.bound.get(name), "value", None)
    if value is None:
        value = op.result_values.get(name)
    return f"%{value.name}" if value is not None else name


def bound_values(op: Operation, values: Mapping[str, Any]) -> Iterator[tuple[str, Role, Any]]:
    """Yield operand, role and run-time value of every operand that has one, of lists each."""
    for operand in op.variant.operands if op.variant is not None else ():
        value: Any = values.get(operand.name)
        if operand.variadic and value.__class__ is tuple:
            for entry in value:
                yield operand.name, operand.role, entry
        elif value is not None:
            yield operand.name, operand.role, value
    for name, role in roles(op)[len(op.variant.operands) if op.variant is not None else 0 :]:
        if values.get(name) is not None:
            yield name, role, values[name]


def flag_key(op: Operation) -> tuple[str, str, str]:
    """Return the pipes and the event of a flag, as they are written."""
    names = ("src_pipe", "dst_pipe", "event")
    source, target, event = (str(getattr(op.bound.get(n), "const", op.bound.get(n))) for n in names)
    return source, target, event


def access_entry(op: Operation, key: str, target: str) -> dict[str, Any] | None:
    """What a row says for a target, where its condition on variant, element type or spaces (`vec`:
    the operands that are tiles in UB) holds."""
    row = op.definition.access if op.definition is not None else {}
    table = row.get(key, {})
    entry = table.get(target, table.get("both"))
    if entry is None:
        return None
    if "variant" in entry and getattr(op.variant, "name", "") not in entry["variant"].split():
        return None
    if any(_space(op, name) != "vec" for name in entry.get("vec", "").split()):
        return None
    kind = entry.get("elements")
    return entry if kind is None or _has_elements(op, entry["of"], kind) else None


def are_apart(op: Operation, what: str, target: str) -> bool:
    """True if each row, or each column (`what`: `rows_apart`, `cols_apart`), of its results depends
    on that of its sources alone: a trait, or an access entry where only some variants are so."""
    return op.has(what) or access_entry(op, what, target) is not None


def _space(op: Operation, name: str) -> str | None:
    return getattr(getattr(op.bound.get(name), "type", None), "loc", None)


def _has_elements(op: Operation, names: str, kind: str) -> bool:
    dtype = getattr(getattr(op.bound.get(names.split()[0]), "type", None), "dtype", None)
    return dtype is not None and dtype.is_integer == (kind == "integer")


def destroyed_sources(op: Operation, target: str) -> tuple[str, ...]:
    """Return the inputs that the library's code for an operation overwrites."""
    entry = access_entry(op, "clobbers", target)
    return tuple(entry["of"].split()) if entry is not None else ()


def scratch_effect(op: Operation, name: str, target: str) -> ScratchEffect | None:
    """Return what an operation does with a scratch operand; None for one that is no scratch."""
    if role_of(op, name) is not Role.SCRATCH and name != "tmp":
        return None
    use = (op.scratch or {}).get(name)
    if use is not None and use.definition.effect is not None:
        return use.definition.effect
    if name != "tmp":
        return ScratchEffect.RESULT
    return ScratchEffect.USED if target == "a2a3" else ScratchEffect.KEPT


def uses_scratch(op: Operation, name: str, target: str) -> bool:
    """True if an operand is scratch whose content the library destroys."""
    return scratch_effect(op, name, target) is ScratchEffect.USED


def is_inert(op: Operation, name: str) -> bool:
    """True for a scratch operand that the operation does not touch."""
    use = (op.scratch or {}).get(name)
    return use is not None and use.definition.effect is ScratchEffect.NONE


def is_uncounted(op: Operation, name: str, target: str) -> bool:
    """True for scratch that the planner counts nothing where it does not count all of it."""
    effect = scratch_effect(op, name, target)
    use = (op.scratch or {}).get(name)
    is_real = effect in (None, ScratchEffect.RESULT) or (use is not None and use.definition.counts)
    return not is_real


def library_events(op: Operation, target: str) -> tuple[tuple[str, str, int], ...]:
    """Return the pairs of pipes between which the library's code uses events itself, with their
    numbers: EVENT_ID0, and the next one for a second tile of the list `per`."""
    if op.passes is not None:
        return tuple((source, end, 0) for source, end in op.passes.flags)
    entry = access_entry(op, "events", target)
    if entry is None:
        return ()
    pairs = (pair.partition("-") for pair in entry["pairs"].split())
    tiles = op.bound.get(entry.get("per", ""))
    numbers = range(max(len(tiles), 1) if isinstance(tiles, list | tuple) else 1)
    return tuple((source, end, n) for source, _, end in pairs for n in numbers)


def registers(op: Operation, target: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the registers that an operation reads and those that it writes, of those that more
    than one pipe uses."""
    entry = access_entry(op, "registers", target) or {}
    return tuple(entry.get("reads", "").split()), tuple(entry.get("writes", "").split())


def source_pipe(op: Operation, target: str) -> str | None:
    """Return the pipe that reads the sources, where it is not the pipe that writes: a copy through
    tiles loads before it stores."""
    entry = access_entry(op, "source_pipe", target)
    return entry["pipe"] if entry is not None else None
