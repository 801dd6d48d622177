"""Texts of programs in pieces: names that are changed, lines that go, loops with their parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.records import dataclass
from ptosim.ground.source import Source
from ptosim.language.frontend import Front, FrontOptions, run_frontend

_NAME = re.compile(r"%([\w.$-]+)")


class NotApplicable(UsageError):
    """A rewrite has nothing to do in a program, or cannot do it; the text says why."""


@dataclass(frozen=True, slots=True)
class Edit:
    """The characters [start, end) of a text that become other ones."""

    start: int
    end: int
    text: str


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits that do not overlap."""
    for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


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


def line_of(text: str, op: Operation) -> tuple[int, int]:
    """Return where the line of an operation is, if it has one for itself, else the operation."""
    start = text.rfind("\n", 0, op.start) + 1
    end = text.find("\n", op.end)
    end = len(text) if end < 0 else end + 1
    alone = not text[start : op.start].strip() and not text[op.end : end].strip()
    return (start, end) if alone else (op.start, op.end)


def indent_of(text: str, op: Operation) -> str:
    """Return the blanks before an operation on its line."""
    start = text.rfind("\n", 0, op.start) + 1
    head = text[start : op.start]
    return head[: len(head) - len(head.lstrip())]


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
