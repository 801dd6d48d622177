"""Addresses that a reader would write: aligned ones, free ones, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

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
_NUMBER = r"(0x[0-9A-Fa-f]+|\d+)\b"


def placed(source: Source) -> Iterator[Placed]:
    """Yield the tiles whose addresses are constants."""
    for found in _PLACED.finditer(source.text):
        room = _room(source, found[3].strip())
        numbers = re.compile(rf"{re.escape(found[2])}\s*=\s*arith\.constant {_NUMBER}")
        before = list(numbers.finditer(source.text, 0, found.start()))
        if room is not None and before:
            address = Piece(found[2], *found.span(2))
            number = Piece(before[-1][1], *before[-1].span(1))
            yield Placed(found[1], room[0], int(number.text, 0), room[1], found.start(), address,
                         number)  # fmt: skip


def _room(source: Source, type_: str) -> tuple[str, int] | None:
    """The memory of a tile and how many bytes of it, by its type."""
    extents = EXTENTS.search(written_out(source, type_))
    bits = _BITS.search(extents[4]) if extents is not None else None
    if extents is None or bits is None:
        return None
    return extents[1], int(extents[2]) * int(extents[3]) * int(bits.group()) // 8


def address(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """Another address: the next multiple that the rule asks for."""
    here = statement_at(span.source, span.start)
    used = re.search(r"\baddr\s*=\s*(%[\w$.-]+)", here.text)
    if used is None:
        return
    defined = re.compile(rf"{re.escape(used[1])}\s*=\s*arith\.constant {_NUMBER}")
    constant = list(defined.finditer(span.source.text[: here.start]))
    multiple = re.search(r"multiple of (\d+)", f"{found.help} {found.message}") or re.search(
        r"aligned to (\d+)", found.message
    )
    if not constant or multiple is None:
        return
    number, step = int(constant[-1][1], 0), int(multiple[1])
    yield [edit_of(span.source, *constant[-1].span(1), str(-(-number // step) * step))]


def apart(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """One of two tiles that share bytes at an address of its own: the first free one of its
    memory, a multiple of 32."""
    source, tiles = span.source, list(placed(span.source))
    told = [*reversed(names_in(found.message)), str(found.context.get("by", ""))]
    for tile in (t for name in reversed(told) for t in tiles if t.name == name):
        others = [t for t in tiles if t.memory == tile.memory and t.name != tile.name]
        yield _placed_at(source, tile, _first_free(others, tile.size))


_BLOCK = 32


def _first_free(others: Sequence[Placed], size: int) -> int:
    ends = {0, *(-(-(t.start + t.size) // _BLOCK) * _BLOCK for t in others)}
    return next(
        at
        for at in sorted(ends)
        if all(at >= t.start + t.size or at + size <= t.start for t in others)
    )


def free_address(source: Source, type_: str, indent: str) -> tuple[str, str] | None:
    """Return the line of a new constant and its name: a free address for a tile of this type,
    beside those that the text places; None where it places none."""
    tiles, room = list(placed(source)), _room(source, type_)
    if not tiles or room is None:
        return None
    at = _first_free([t for t in tiles if t.memory == room[0]], room[1])
    return _constant_at(source, at, indent)


def _constant_at(source: Source, at: int, indent: str) -> tuple[str, str]:
    new = next(n for n in fresh(f"%at{at}") if n not in source.text)
    return f"{new} = arith.constant {at} : i64\n{indent}", new


def with_address(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A tile without an address beside more that have one gets a free one."""
    here, source = statement_at(span.source, span.start), span.source
    allocated = re.search(r"pto\.alloc_tile(?=[^\n]*:\s*(![^\n/]+))", here.text)
    tiles = re.findall(r"pto\.alloc_tile( addr)?", source.text)
    if allocated is None or tiles.count(" addr") <= tiles.count(""):
        return
    given = free_address(source, allocated[1].strip(), indent_of(here, source))
    if given is not None:
        at = here.start + allocated.end()
        yield [
            edit_of(source, here.start, here.start, given[0]),
            edit_of(source, at, at, f" addr = {given[1]}"),
        ]


def _placed_at(source: Source, tile: Placed, at: int) -> Edits:
    """The constant of a tile's address, or a new one where others have it, too."""
    name, number = tile.address.text, tile.number
    if len(re.findall(rf"{re.escape(name)}(?![\w$.-])", source.text)) == 2:
        return [edit_of(source, number.start, number.end, str(at))]
    indent = indent_of(statement_at(source, tile.statement), source)
    line, new = _constant_at(source, at, indent)
    return [
        edit_of(source, tile.statement, tile.statement, line),
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
