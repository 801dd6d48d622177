"""What rewrites of programs have in common: names, constants, the program that is read again."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.source import Source
from ptosim.language.frontend import Front, FrontOptions, run_frontend

_NAME = re.compile(r"%([\w.$-]+)")


class NotApplicable(UsageError):
    """A rewrite has nothing to do in a program, or cannot do it; the text says why."""


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a text with other names of values."""
    return _NAME.sub(lambda m: f"%{names.get(m[1], m[1])}", text)


def read(source: Source, options: FrontOptions) -> Front:
    """Return a checked program. Raises NotApplicable if it is refused."""
    front = run_frontend(source, options)
    if front.sink.is_rejected:
        wrong = next(d for d in front.sink if d.is_error)
        raise NotApplicable(f"the rewritten program is refused: {wrong.code} {wrong.message}")
    return front


def bodies(resolved: ResolvedModule) -> list[Function]:
    """Return the functions that have a body."""
    return [f for f in resolved.functions.values() if f.has_body]


def operations(op: Operation) -> list[Operation]:
    """Return all operations inside one, in order."""
    return [inner for inner in op.walk() if inner is not op]


def fresh(front: Front, stem: str) -> str:
    """Return a name that no value of a program begins with."""
    names = set(_NAME.findall(front.source.text))
    for count in range(len(names) + 1):
        found = f"{stem}{count}" if count else stem
        if not any(name.startswith(found) or name.endswith(found) for name in names):
            return found
    raise AssertionError("one of them is free")


def constant_of(op: Operation, name: str) -> int | None:
    """Return the number that an operand is, None if the text does not say."""
    operand = op.bound.get(name)
    number = operand.const if isinstance(operand, Operand) else None
    return number if isinstance(number, int) else None


def values_of(op: Operation) -> list[Value]:
    """Return the values that an operation takes."""
    return list(op.operand_values())
