"""The operands of an operation and what it does with each: its row says, by role."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.isa.schema import Role

READ = (Role.IN, Role.INOUT)
WRITTEN = (Role.OUT, Role.INOUT)
"""Roles of operands whose content an operation reads and of those that are its results; scratch is
neither."""


@lru_cache(maxsize=4096)
def roles(op: Operation) -> tuple[tuple[str, Role], ...]:
    """Return what an operation does with each of its operands, in the order of its row."""
    operands = op.variant.operands if op.variant is not None else ()
    return tuple((o.name, o.role) for o in operands)


@lru_cache(maxsize=4096)
def role_of(op: Operation, name: str) -> Role:
    """Return what an operation does with an operand; it reads what its row does not name."""
    return dict(roles(op)).get(name, Role.IN)


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


def flag_key(op: Operation) -> tuple[str, str, str]:
    """Return the pipes and the event of a flag, as they are written."""
    names = ("src_pipe", "dst_pipe", "event")
    source, target, event = (str(getattr(op.bound.get(n), "const", op.bound.get(n))) for n in names)
    return source, target, event
