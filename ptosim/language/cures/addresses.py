"""Addresses that a reader would write: aligned ones, free ones, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source, Span
from ptosim.language.cures.statements import (
    EXTENTS,
    Edits,
    Piece,
    edit_of,
    fresh,
    indent_of,
    names_in,
    statement_at,
    written_out,
)


class Placed(NamedTuple):
    """A tile that the text places: its memory and bytes, where its statement and the name of its
    address are, and the constant of that name."""

    name: str
    memory: str
    start: int
    size: int
    statement: int
    address: Piece
    number: Piece


_PLACED = re.compile(
    r"(%[\w$.-]+)\s*=\s*pto\.alloc_tile addr\s*=\s*(%[\w$.-]+)[^\n]*?:\s*(![^\n/]+)"
)
_BITS = re.compile(r"\d+")


def placed(source: Source) -> Iterator[Placed]:
    """Yield the tiles whose addresses are constants."""
    for found in _PLACED.finditer(source.text):
        extents = EXTENTS.search(written_out(source, found[3].strip()))
        numbers = re.compile(rf"{re.escape(found[2])}\s*=\s*arith\.constant (\d+)")
        before = list(numbers.finditer(source.text, 0, found.start()))
        bits = _BITS.search(extents[4]) if extents is not None else None
        if extents is not None and bits is not None and before:
            size = int(extents[2]) * int(extents[3]) * int(bits.group()) // 8
            address = Piece(found[2], *found.span(2))
            number = Piece(before[-1][1], *before[-1].span(1))
            start = int(number.text)
            yield Placed(found[1], extents[1], start, size, found.start(), address, number)


def address(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """Another address: the next multiple that the rule asks for."""
    here = statement_at(span.source, span.start)
    used = re.search(r"\baddr\s*=\s*(%[\w$.-]+)", here.text)
    if used is None:
        return
    defined = re.compile(rf"{re.escape(used[1])}\s*=\s*arith\.constant (\d+)")
    constant = list(defined.finditer(span.source.text[: here.start]))
    multiple = re.search(r"multiple of (\d+)", f"{found.help} {found.message}") or re.search(
        r"aligned to (\d+)", found.message
    )
    if not constant or multiple is None:
        return
    number, step = int(constant[-1][1]), int(multiple[1])
    yield [edit_of(span.source, *constant[-1].span(1), str(-(-number // step) * step))]


def apart(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """One of two tiles that share bytes at an address of its own: the first free one of its
    memory, a multiple of 32."""
    source, tiles = span.source, list(placed(span.source))
    told = [*reversed(names_in(found.message)), str(found.context.get("by", ""))]
    for tile in (t for name in reversed(told) for t in tiles if t.name == name):
        others = [t for t in tiles if t.memory == tile.memory and t.name != tile.name]
        for at in sorted({0, *(-(-(t.start + t.size) // _BLOCK) * _BLOCK for t in others)}):
            if all(at >= t.start + t.size or at + tile.size <= t.start for t in others):
                yield _placed_at(source, tile, at)
                break


_BLOCK = 32


def _placed_at(source: Source, tile: Placed, at: int) -> Edits:
    """The constant of a tile's address, or a new one where others have it, too."""
    name, number = tile.address.text, tile.number
    if len(re.findall(rf"{re.escape(name)}(?![\w$.-])", source.text)) == 2:
        return [edit_of(source, number.start, number.end, str(at))]
    new = next(n for n in fresh(f"%at{at}") if n not in source.text)
    line = f"{new} = arith.constant {at} : i64\n"
    indent = indent_of(statement_at(source, tile.statement), source)
    return [
        edit_of(source, tile.statement, tile.statement, line + indent),
        edit_of(source, tile.address.start, tile.address.end, new),
    ]


def without_address(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """Without an address the planner gives one."""
    edits = [
        edit_of(span.source, m.start(), m.end(), "")
        for m in re.finditer(r"[ \t]+addr\s*=\s*%[\w$.-]+", span.source.text)
    ]
    if edits:
        yield edits
