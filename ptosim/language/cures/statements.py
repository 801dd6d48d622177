"""Statements as text, also where they cannot be parsed: operands and types of a group, the type
that the text gives a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, pairwise

from ptosim.ground.diagnostics.model import Diagnostic, Fix
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.ground.source import Source, Span

_OPEN, _CLOSE = "([{<", ")]}>"
_GROUP = re.compile(r"\b(ins|outs)\s*\(")
_DEFINED = re.compile(r"^[ \t]*(%[\w$.-]+)(?::\d+)?\s*=\s*[^\n]*", re.MULTILINE)
_ARGUMENT = re.compile(r"(%[\w$.-]+)\s*:\s*(?=[!\w])")
_HEAD = re.compile(r"\bfunc\.func\b[^{\n]*|^\s*\^\w+\([^\n]*", re.MULTILINE)
"""What names values with their types: functions and blocks."""
_NAME = re.compile(r"%[\w$.-]+")
_COMMENT = re.compile(r'\s*//[^"\n]*$')


class Piece(NamedTuple):
    """A piece of the text, and where it is."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Group:
    """Operands and their types: `ins(%a, %b : !t, !t)`, or those of a statement without groups."""

    word: str
    operands: tuple[Piece, ...]
    types: tuple[Piece, ...]
    start: int
    end: int

    def text(self, operands: list[str], types: list[str]) -> str:
        """Return the inside with other operands and types."""
        return ", ".join(operands) + (f" : {', '.join(types)}" if types else "")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement: its text from the first character on, and what is in its groups."""

    text: str
    start: int
    end: int
    groups: tuple[Group, ...]

    def group(self, word: str) -> Group | None:
        """Return a group by its word."""
        return next((g for g in self.groups if g.word == word), None)


def statement_at(source: Source, at: int) -> Statement:
    """Return the statement around a place: its line, and those that its brackets go on to."""
    text = source.text
    start = text.rfind("\n", 0, at) + 1
    start += len(text[start:]) - len(text[start:].lstrip(" \t"))
    end = start
    while True:
        end = text.find("\n", end + 1)
        end = len(text) if end < 0 else end
        if end == len(text) or _depth(text[start:end]) <= 0 or end - start > 4000:
            break
    body = _COMMENT.sub("", text[start:end])
    return Statement(body, start, start + len(body), tuple(_groups(body, start)))


def indent_of(here: Statement, source: Source) -> str:
    """Return the blanks that a statement's line begins with."""
    return source.text[source.text.rfind("\n", 0, here.start) + 1 : here.start]


def fresh(stem: str) -> Iterator[str]:
    """Yield names from a stem on."""
    yield stem
    yield from (f"{stem}{n}" for n in count(1))


def names_in(text: str) -> list[str]:
    """Return the names of values in a text."""
    return _NAME.findall(text)


class Types:
    """What the text says of the types of names; of a name that several functions have, what is
    nearest before a place."""

    def __init__(self, source: Source) -> None:
        self._known: dict[str, list[Piece]] = {}
        for found in _DEFINED.finditer(source.text):
            piece = _last_type(found.group(), found.start())
            if piece is not None:
                self._known.setdefault(found[1], []).append(piece)
        heads = _HEAD.finditer(source.text)
        for found in (f for h in heads for f in _ARGUMENT.finditer(source.text, *h.span())):
            end = _type_end(source.text, found.end())
            piece = Piece(source.text[found.end() : end], found.end(), end)
            self._known.setdefault(found[1], []).append(piece)

    def of(self, name: str, at: int) -> Piece | None:
        """Return the type of a name at a place, and where it is written."""
        before = [piece for piece in self._known.get(name, ()) if piece.start < at]
        return max(before, key=lambda piece: piece.start, default=None)

    def of_all(self, operands: Iterable[Piece], at: int) -> list[str] | None:
        """Return the types of operands at a place; None if one of them is not known."""
        names = [next(iter(names_in(operand.text)), "") for operand in operands]
        known = [piece.text for piece in (self.of(name, at) for name in names) if piece is not None]
        return known if len(known) == len(names) else None

    def named(self, wanted: str, at: int) -> list[str]:
        """Return the names of a type before a place, the nearest first."""
        found = [(n, self.of(n, at)) for n in self._known]
        known = [(p.start, n) for n, p in found if p is not None and p.text == wanted]
        return [name for _, name in sorted(known, reverse=True)]


def zero_at(source: Source, at: int) -> str | None:
    """Return the name of an index of 0 that is known at a place."""
    return constant(source, 0, at)


def constant(source: Source, number: int, at: int) -> str | None:
    """Return the name of an index of this value that is known at a place."""
    wanted = rf"(%[\w$.-]+)\s*=\s*arith\.constant {number} : index"
    found = re.findall(wanted, source.text[:at])
    return found[-1] if found else None


def region_around(text: str, at: int) -> tuple[int, int]:
    """Return where the innermost braces around a place are: -1 and -1 if there are none."""
    depth = 0
    for begin in range(at - 1, -1, -1):
        depth += (text[begin] == "}") - (text[begin] == "{")
        if depth < 0:
            end = next((e for e in range(at, len(text)) if _balance(text[at : e + 1]) < 0), -1)
            return (begin, end) if end >= 0 else (-1, -1)
    return -1, -1


def _balance(text: str) -> int:
    return text.count("{") - text.count("}")


def _groups(body: str, start: int) -> Iterator[Group]:
    found = False
    for match in _GROUP.finditer(body):
        found = True
        inside = body[match.end() : _closing(body, match.end())]
        yield _group(match[1], inside, start + match.end())
    if not found and ":" in body:
        yield _plain(body, start)


def _group(word: str, inside: str, start: int) -> Group:
    colon = _top(inside, ":")
    cut = colon[0] if colon else len(inside)
    types = tuple(_split(inside, cut + 1, len(inside), start)) if colon else ()
    operands = tuple(_split(inside, 0, cut, start))
    return Group(word, operands, types, start, start + len(inside))


def _plain(body: str, start: int) -> Group:
    """Operands between the name of an operation and the colon, types up to the arrow."""
    equals = body.find("=") + 1 if re.match(r"%[\w$.:-]+\s*=", body) else 0
    name = re.compile(r'\s*"?[\w.$]+"?\s*').match(body, equals)
    begin = name.end() if name is not None else equals
    colon = _top(body, ":", begin)
    cut = colon[-1] if colon else len(body)
    arrow = body.find("->", cut)
    end = arrow if arrow >= 0 else len(body)
    operands = tuple(_split(body, begin, cut, start))
    types = tuple(_split(body, cut + 1, end, start))
    last = [*operands, *types]
    return Group("", operands, types, start + begin, last[-1].end if last else start + end)


def _split(text: str, begin: int, end: int, offset: int) -> Iterator[Piece]:
    """The pieces between commas that no bracket holds."""
    cuts = [begin - 1, *(c for c in _top(text[:end], ",", begin)), end]
    for a, b in pairwise(cuts):
        piece = text[a + 1 : b]
        if piece.strip():
            at = a + 1 + len(piece) - len(piece.lstrip())
            yield Piece(piece.strip(), offset + at, offset + at + len(piece.strip()))


def _top(text: str, sign: str, begin: int = 0) -> list[int]:
    """Where a sign is outside of all brackets and strings."""
    found, depth, quoted = [], 0, False
    for at in range(begin, len(text)):
        character = text[at]
        if character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE and text[at - 1 : at + 1] != "->":
            depth -= 1
        elif character == sign and depth == 0:
            found.append(at)
    return found


def _depth(text: str) -> int:
    plain = re.sub(r'"[^"\n]*"|//[^\n]*|->', "", text)
    return sum(plain.count(c) for c in "([<") - sum(plain.count(c) for c in ")]>")


def _closing(text: str, begin: int) -> int:
    depth = 0
    for at in range(begin, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth < 0:
            return at
    return len(text)


def _last_type(line: str, start: int) -> Piece | None:
    """The type of the result: after the last arrow, or the last colon."""
    line = _COMMENT.sub("", line).rstrip(" \t{")
    arrow = line.rfind("->")
    colons = _top(line, ":")
    at = arrow + 2 if arrow >= 0 else colons[-1] + 1 if colons else -1
    text = line[at:].strip() if at >= 0 else ""
    if not text or text.startswith("("):
        return None
    begin = start + at + len(line[at:]) - len(line[at:].lstrip())
    return Piece(text, begin, begin + len(text))


def _type_end(text: str, at: int) -> int:
    depth = 0
    for end in range(at, len(text)):
        if text[end] in _OPEN:
            depth += 1
        elif text[end] in _CLOSE:
            if depth == 0:
                return end
            depth -= 1
        elif text[end] in ",\n" and depth == 0:
            return end
    return len(text)


_COLUMN = re.compile(r"(\d+)x1x(\w+)((?:, ?(?!blayout)[\w=?]+)*), ?blayout ?= ?col_major")


def row_of(type_: str) -> str | None:
    """Return the type of a column of elements as one row; None if it is none."""
    row = _COLUMN.sub(r"1x\1x\2\3", type_)
    return row if row != type_ else None


# -- edits of types --------------------------------------------------------------------------------


Edits = list[Fix]
EXTENTS = re.compile(r"(\w+), ?(\d+)x(\d+)x(\w+)")


def edit_of(source: Source, start: int, end: int, text: str) -> Fix:
    """Return the edit of a place."""
    return Fix(Span(source, start, end), text)


def all_of(source: Source, old: str, new: str) -> Edits:
    """A type wherever the text has it."""
    places = re.finditer(re.escape(old), source.text)
    return [edit_of(source, place.start(), place.end(), new) for place in places]


def everywhere(source: Source, here: Statement, old: str, new: str) -> Edits:
    """The type of a value in its definition and wherever the text gives it to the value."""
    at = here.start + here.text.find(old)
    edits = [edit_of(source, at, at + len(old), new)]
    name = names_in(here.text)[0]
    for line in re.finditer(rf"^.*{re.escape(name)}(?![\w$.-]).*$", source.text, re.MULTILINE):
        if line.start() <= here.start < line.end():
            continue
        for group in statement_at(source, line.start() + 1).groups:
            pairs = zip(group.operands, group.types, strict=False)
            edits += [
                edit_of(source, type_.start, type_.end, new)
                for operand, type_ in pairs
                if operand.text == name and type_.text == old
            ]
    return edits


def written_out(source: Source, type_: str) -> str:
    """The type that an alias names."""
    named = re.search(rf"^{re.escape(type_)}\s*=\s*(!.*)$", source.text, re.MULTILINE)
    return named[1].strip() if named is not None else type_


def facets(old: str, model: str) -> Iterator[str]:
    """A tile's type with one thing of another one: valid shape, element type, memory."""
    valid, bare = re.search(r", ?valid=[\d?x]+", model), re.sub(r", ?valid=[\d?x]+", "", old)
    mine, theirs = EXTENTS.search(old), EXTENTS.search(model)
    if mine is None or theirs is None:
        return
    end = re.search(r"<[^,>]*, ?[^,>]*", bare)
    if end is not None:
        yield bare[: end.end()] + (valid.group() if valid is not None else "") + bare[end.end() :]
    start, stop = mine.span(4)
    yield f"{old[:start]}{theirs[4]}{old[stop:]}"
    start, stop = mine.span(1)
    yield f"{old[:start]}{theirs[1]}{old[stop:]}"


# Addresses that a reader would write: aligned ones, free ones, or none.


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
