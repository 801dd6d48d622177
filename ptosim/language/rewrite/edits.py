"""Changes of a program's text that leave the rest as its author wrote it: what is inserted was
built (`language/build.py`) and printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import NamedTuple
from ptosim.language.build import Builder, text_of


class Edit(NamedTuple):
    """The characters [start, end) of a text that become other ones."""

    start: int
    end: int
    text: str


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits that do not overlap; insertions at one place are in their order."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]])


def before(text: str, op: Operation, made: Sequence[Operation]) -> Edit:
    """Return the insertion of operations before one."""
    margin = indent_of(text, op.start)
    return Edit(op.start, op.start, f"{text_of(made, margin)}\n{margin}")


def after(text: str, op: Operation, made: Sequence[Operation]) -> Edit:
    """Return the insertion of operations after one, and after the comment on its last line."""
    end = text.find("\n", op.end)
    rest = text[op.end : end if end >= 0 else len(text)]
    at = op.end + len(rest) if rest.strip().startswith(("//", "#")) else op.end
    margin = indent_of(text, op.start)
    return Edit(at, at, f"\n{margin}{text_of(made, margin)}")


def line_of(text: str, op: Operation) -> tuple[int, int]:
    """Return where the line of an operation is, if it has one for itself, else the operation."""
    start = text.rfind("\n", 0, op.start) + 1
    end = text.find("\n", op.end)
    end = len(text) if end < 0 else end + 1
    alone = not text[start : op.start].strip() and not text[op.end : end].strip()
    return (start, end) if alone else (op.start, op.end)


def indent_of(text: str, at: int) -> str:
    """Return the blanks that the line of an offset begins with, as far as the offset."""
    head = text[text.rfind("\n", 0, at) + 1 : at]
    return head[: len(head) - len(head.lstrip())]


def loop_head(counter: str, bounds: Sequence[str]) -> str:
    """Return the line that opens a loop around text that stays as it is; `}` closes it."""
    b = Builder()
    with b.loop(counter, bounds):
        pass
    return text_of(b.ops).splitlines()[0]
