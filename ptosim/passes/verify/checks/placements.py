"""Small things that the checks share: spans of operations, constants, users of a value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.source import Source, Span


def name_span(op: Operation, source: Source) -> Span:
    """Return the place of an operation's name and results."""
    return Span(source, op.start, op.name_end)


def operand_span(operand: Operand | None, op: Operation, source: Source) -> Span:
    """Return the place of an operand, of the operation's name where it has none."""
    tok = getattr(operand, "tok", None)
    if tok is None or not hasattr(tok, "end"):
        return name_span(op, source)
    return Span(source, tok.start, tok.end)


def constant(operand: Any) -> int | None:
    """Return the value of an operand that the text fixes, None for any other."""
    value = operand.const if isinstance(operand, Operand) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def operands(op: Operation) -> Iterator[tuple[str, Operand]]:
    """Yield every operand with its name in the row."""
    for name, bound in op.bound.items():
        for one in bound if isinstance(bound, list) else (bound,):
            if isinstance(one, Operand):
                yield name, one


def users(resolved: ResolvedModule) -> dict[Value, list[tuple[Operation, str]]]:
    """Return the operations that use each value, with the name of the operand."""
    found: dict[Value, list[tuple[Operation, str]]] = defaultdict(list)
    for op in resolved.module.walk():
        for name, operand in operands(op):
            if operand.value is not None:
                found[operand.value].append((op, name))
    return found
