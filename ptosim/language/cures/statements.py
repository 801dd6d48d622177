"""Statements as text, also where they cannot be parsed: operands and types of a group, the type
that the text gives a name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import count, pairwise

from ptosim.ground.diagnostics.model import Fix
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
