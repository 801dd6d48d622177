"""A text that was changed in a few lines: only the statements in them are parsed again.

They are parsed between the statement before and the statement after them, as long as these come out
as they were: then nothing else of the text can be read in another way. All other operations stay
the objects that they are, at their new places; what was known of them (`Kept`) is known still.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Fix, Label, Sink
from ptosim.ground.ir.core import Attr, Block, Kept, Module, Node, Operand, Operation, Tok, walk
from ptosim.ground.records import NamedTuple, replace
from ptosim.ground.source import Source, Span
from ptosim.language.syntax.parser import parse
from ptosim.machine.effects.storage import forget_handed_on, forget_roles

_HEAD, _TAIL = "func.func @f() { //", "\n}\n"
_MOST = 1 << 14
"""Characters of statements that are parsed alone: of more than that all of the text is parsed."""
_LOST = 2
"""So many statements can go with one that is not complete at the end of its line."""


class _Change(NamedTuple):
    """What is between `begin` and `end` of the old text is other text, `moved` characters longer,
    in the new one; both are whole lines."""

    begin: int
    end: int
    moved: int


class _Place(NamedTuple):
    """The operations of a block from `first` on and before `last` are in the changed lines."""

    block: Block
    first: int
    last: int


def reader(before: Module | None) -> Callable[[Source, Sink], Module]:
    """Return what reads a text as `parse` does, and keeps what is found out about the operations
    for the next time. The module that it was read from `before` must not be used any more."""

    def read(source: Source, sink: Sink) -> Module:
        module = _reread(before, source, sink) if before is not None else None
        if module is None:
            module = parse(source, sink)
            module.kept = Kept()
            module.kept.is_whole = not sink.has_errors
        return module

    return read


def _reread(module: Module, source: Source, sink: Sink) -> Module | None:
    """Make the module that of another text; None, with the module as it was, where all of the text
    has to be parsed."""
    kept = module.kept
    if kept is None or not _can_be(module):
        return None
    change = _change(module.source.text, source.text)
    if kept.hole is not None:
        change = _with_hole(change, kept.hole)
    elif not kept.is_whole:
        return None
    place = _place(module, change)
    if place is None:
        return None
    for more in (0, _LOST):
        read = _statements(source, place, more, change.moved)
        if read is not None:
            break
    else:
        return None
    for found in read.faults:
        sink.emit(found)
    kept.hole = read.gap if sink.has_errors else None
    kept.is_whole = not sink.has_errors
    _splice(module, source, read, change.moved)
    kept.renew(module)
    forget_roles()
    forget_handed_on()
    return module


def _can_be(module: Module) -> bool:
    """A module of functions, without what reaches from one statement to others in reading."""
    return not (
        module.kind != "module" or module.repeated or module.attr_aliases or module.source.is_cpp
    )


# -- what was changed ------------------------------------------------------------------------------


def _change(old: str, new: str) -> _Change:
    size = min(len(old), len(new))
    same = _longest(size, lambda n: old[:n] == new[:n])
    tail = _longest(size - same, lambda n: not n or old[-n:] == new[-n:])
    begin = old.rfind("\n", 0, same) + 1
    end = old.find("\n", len(old) - tail)
    return _Change(begin, end if end >= 0 else len(old), len(new) - len(old))


def _longest(most: int, holds: Callable[[int], bool]) -> int:
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _with_hole(change: _Change, hole: tuple[int, int]) -> _Change:
    """The same with what could not be read before."""
    return _Change(min(change.begin, hole[0]), max(change.end, hole[1]), change.moved)


def _place(module: Module, change: _Change) -> _Place | None:
    """Where the changed lines are: in the innermost block that has a statement before and one after
    them, both without regions."""
    found: _Place | None = None
    blocks, is_inside = [Block(module.ops, [])], False
    while blocks:
        here = next((p for b in blocks if (p := _within(b, change)) is not None), None)
        found = here if here is not None and is_inside else found
        outer = [
            op for b in blocks for op in b.ops
            if op.regions and op.start < change.begin and change.end <= op.end
        ]  # fmt: skip
        is_inside = is_inside or any(op.has("function") for op in outer)
        blocks = [block for op in outer for region in op.regions for block in region.blocks]
    return found


def _within(block: Block, change: _Change) -> _Place | None:
    ops = block.ops
    first = next((n for n, op in enumerate(ops) if op.end > change.begin), len(ops))
    last = next((n for n in range(first, len(ops)) if ops[n].start >= change.end), len(ops))
    if not 0 < first <= last < len(ops) or ops[first - 1].regions:
        return None
    return _Place(block, first, last)


# -- the statements in it --------------------------------------------------------------------------


class _Read(NamedTuple):
    """What the statements from `first` on and before `last` of a block have become; `gap` is where
    they are in the new text."""

    block: Block
    first: int
    last: int
    ops: list[Operation]
    module: Module
    faults: list[Diagnostic]
    gap: tuple[int, int]


def _statements(source: Source, place: _Place, more: int, moved: int) -> _Read | None:
    """Parse the changed statements with the one before them, which can go on in them, and the one
    that is so many after them, which must come out as it was; None where it does not."""
    ops, last = place.block.ops, place.last + more
    if last >= len(ops) or any(op.regions for op in ops[place.last : last + 1]):
        return None
    before, after = ops[place.first - 1], ops[last]
    module, faults = _alone(source, before.start, after.end + moved)
    if faults and not _is_closed(source.text[before.start : after.end + moved]):
        return None
    if len(module.ops) != 1 or module.aliases or module.repeated or not module.ops[0].regions:
        return None
    (region,) = module.ops[0].regions
    read = region.ops
    if len(region.blocks) != 1 or len(read) < 2 or read[0].start != before.start:
        return None
    if [p - moved for p in _ends(read[-1])] != _ends(after):
        return None
    is_same = _ends(read[0]) == _ends(before)
    first, new = (place.first, read[1:-1]) if is_same else (place.first - 1, read[:-1])
    begin = before.end if is_same else before.start
    return _Read(place.block, first, last, new, module, faults, (begin, after.start + moved))


_BRACES = re.compile(r'//[^\r\n]*|"(?:\\.|[^"\\\n])*"|([{}])')


def _is_closed(text: str) -> bool:
    """Whether no brace in a text closes what is around it, or stays open."""
    depth = 0
    for found in _BRACES.finditer(text):
        depth += (found[1] == "{") - (found[1] == "}")
        if depth < 0:
            return False
    return depth == 0


def _ends(op: Operation) -> list[int]:
    return [op.start, op.name_end, op.end]


def _alone(source: Source, begin: int, end: int) -> tuple[Module, list[Diagnostic]]:
    """Parse what is between two places of a text as the body of a function."""
    text = source.text
    line = text.rfind("\n", 0, begin) + 1
    if text[line:begin].strip() or line <= len(_HEAD) or end - begin > _MOST:
        return Module(source), []
    sink = Sink()
    written = _HEAD.ljust(line - 1, "-") + "\n" + text[line:end] + _TAIL
    module = parse(Source(source.name, written), sink)
    return module, [_in(source, found) for found in sink]


def _in(source: Source, found: Diagnostic) -> Diagnostic:
    def there(span: Span) -> Span:
        return Span(source, span.start, span.end)

    labels = tuple(Label(there(label.span), label.text) for label in found.labels)
    fixes = tuple(Fix(there(fix.span), fix.replacement) for fix in found.fixes)
    return replace(found, labels=labels, fixes=fixes)


# -- putting them into the module ------------------------------------------------------------------


def _splice(module: Module, source: Source, read: _Read, moved: int) -> None:
    kept = module.kept
    assert kept is not None
    ops = read.block.ops
    begin, end = read.gap[0], ops[read.last].start
    for op in walk(ops[read.first : read.last]):
        kept.places.pop(op, None)
    earlier = [c for c in module.comments if c.start < begin]
    later = [c for c in module.comments if c.start >= end]
    if moved:
        _move(module, end, moved, later)
    inner = [c for c in read.module.comments if begin <= c.start < read.gap[1]]
    module.comments = [*earlier, *inner, *later]
    ops[read.first : read.last] = read.ops
    module.skipped_names = read.module.skipped_names
    module.source = source


def _move(module: Module, cut: int, moved: int, comments: Iterable[Tok]) -> None:
    """Move everything from a place on."""
    kept = module.kept
    assert kept is not None
    for op in walk(module.ops):
        if op.end >= cut:
            _move_op(op, kept.places, cut, moved, whole=op.start >= cut)
    named = (part for pair in module.aliases for part in pair)
    for part in chain(comments, *map(_parts, named)):
        if part.start >= cut:
            part.start += moved


def _move_op(
    op: Operation, places: dict[Operation, list[Any]], cut: int, moved: int, *, whole: bool
) -> None:
    parts = places.get(op)
    if parts is None:
        parts = places[op] = list({id(part): part for part in _parts_of(op)}.values())
    op.end += moved
    if whole:
        op.start += moved
        op.name_end += moved
        if op.result_tokens:
            op.result_tokens = [(name, count, at + moved) for name, count, at in op.result_tokens]
    if op.loc is not None and op.loc[0] >= cut:
        op.loc = (op.loc[0] + moved, op.loc[1] + moved)
    made = (value for region in op.regions for block in region.blocks for value in block.values)
    for part in chain(parts, op.results, made):
        if part.start >= cut:
            part.start += moved
    for region in op.regions:
        if region.end >= cut:
            region.end += moved


def _parts_of(op: Operation) -> Iterator[Any]:
    """Everything with a place that is written in an operation, without what is in its regions."""
    written = (
        op.ins, op.ins_types, op.outs, op.outs_types, op.items, op.types, op.type_list, op.arrow,
        op.attrs, op.props, op.clauses, op.bound, op.attributes,
    )  # fmt: skip
    for one in written:
        if one:
            yield from _parts(one)
    for block in (block for region in op.regions for block in region.blocks):
        yield from _parts((block.label, block.args))


def _parts(one: Any) -> Iterator[Any]:
    kind = one.__class__
    if kind is Tok:
        yield one
    elif kind is Node:
        yield one
        yield from _parts(one.parts)
    elif kind is Attr:
        yield from _parts((one.key, one.atom, one.type))
    elif kind is dict:
        yield from _parts(one.values())
    elif kind is Operand:
        yield from _parts(one.tok)
    elif isinstance(one, Iterable) and kind is not str:
        for part in one:
            yield from _parts(part)
