"""The shape of a program: symbols, folding, and what can be done with each entry."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function
from ptosim.ground.records import dataclass, field
from ptosim.tools.lsp.document import Document


@dataclass(slots=True)
class Symbol:
    """A module, a function, or a value that is made: the text of all of it, and of its name."""

    name: str
    detail: str
    kind: str  # module, function, variable
    start: int
    end: int
    name_start: int
    name_end: int
    children: list[Symbol] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lens:
    """A command over an entry."""

    start: int
    end: int
    title: str
    command: str
    entry: str


def symbols(document: Document) -> list[Symbol]:
    """Return the functions of a program with the tiles and views that they make."""
    found = []
    for function in document.resolved.functions.values():
        if not function.implicit:
            symbol = symbol_of(document, function)
            symbol.children = list(_made(document, function.ops[1:]))
            found.append(symbol)
    return found


def symbol_of(document: Document, function: Function) -> Symbol:
    """Return a function without what it makes."""
    op = function.op
    at = max(document.text.find(f"@{function.symbol}", op.start), op.start)
    is_entry = function.name in document.resolved.entries
    detail = "entry" if is_entry else function.kernel_kind or ""
    name_end = min(at + len(function.symbol) + 1, op.end)
    return Symbol(f"@{function.symbol}", detail, "function", op.start, op.end, at, name_end)


def _made(document: Document, ops: list[Operation]) -> Iterator[Symbol]:
    for op in ops:
        for value in op.results if op.definition is not None and op.traits else ():
            end = value.start + len(value.name) + 1
            yield Symbol(
                f"%{value.name}", str(value.type), "variable", op.start, max(op.end, end),
                value.start, end,
            )  # fmt: skip


def folds(document: Document) -> list[tuple[int, int, str]]:
    """Return first and last line (from 0) of each region and each run of comments, and which."""
    source = document.source
    found: dict[tuple[int, int], str] = {}
    for op in document.resolved.ops:
        for region in op.regions:
            first, last = (source.line_column(at)[0] - 1 for at in (op.start, region.end - 1))
            if last - 1 > first:
                found[first, last - 1] = "region"
    for first, last in _comments(document):
        found[first, last] = "comment"
    return [(first, last, kind) for (first, last), kind in sorted(found.items())]


def _comments(document: Document) -> Iterator[tuple[int, int]]:
    lines = document.text.split("\n")
    first = -1
    for number, line in enumerate([*lines, ""]):
        if line.lstrip().startswith("//"):
            first = number if first < 0 else first
        elif first >= 0:
            if number - 1 > first:
                yield first, number - 1
            first = -1


def around(document: Document, offset: int) -> list[tuple[int, int]]:
    """Return what is around a place, the whole text first, then what is ever smaller."""
    found = {(0, len(document.text))}
    for op in document.resolved.ops:
        if op.start <= offset <= op.end:
            found.add((op.start, op.end))
    word = document.names.at(offset)
    if word is not None:
        found.add((word.start, word.end))
    nested: list[tuple[int, int]] = []
    for begin, end in sorted(found, key=lambda one: (one[0] - one[1], one[0])):
        if not nested or (nested[-1][0] <= begin and end <= nested[-1][1]):
            nested.append((begin, end))
    return nested


def lenses(document: Document) -> list[Lens]:
    """Return "run", "debug", "cost" and "report" for each entry."""
    found = []
    for name in document.resolved.entries:
        op = document.resolved.functions[name].op
        found += [
            Lens(op.start, op.name_end, title, f"ptosim.{title}", name)
            for title in ("run", "debug", "cost", "report")
        ]
    return found
