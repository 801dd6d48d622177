"""What each name in a text is: values, functions and aliases, where they are made and used.

Names are found in the text and joined with what was resolved by the regions they are in, so that a
half-typed statement costs only what is in it: a value whose statement cannot be read is still known
by the beginning of its line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cached_property

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.records import dataclass
from ptosim.ground.source import Source
from ptosim.language.cpp.entries import names_of
from ptosim.language.cpp.state import CppError

_WORD = re.compile(
    r'(?P<skipped>//[^\n]*|"(?:\\.|[^"\\\n])*"|#(?=[ \t#!\r\n]|$)[^\n]*)'
    r"|(?P<value>%[\w$.-]+)(?:\#\d+)?|(?P<function>@[\w$.-]+)|(?P<alias>![A-Za-z_]\w*(?![\w.<]))"
    r"|(?P<block>\^\w+)",
    re.MULTILINE,
)
_MADE_HERE = re.compile(
    r"^[ \t]*(%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*)\s*=", re.MULTILINE
)
_ONE = re.compile(r"%[\w$.-]+")
_ALIAS_MADE = re.compile(r"^[ \t]*(![A-Za-z_]\w*)\s*=", re.MULTILINE)


class Kind(StrEnum):
    """What a name names."""

    VALUE = "value"
    FUNCTION = "function"
    ALIAS = "alias"
    BLOCK = "block"
    CPP = "cpp"


@dataclass(frozen=True, slots=True)
class Word:
    """A name in the text: its first character is its sign (`%`, `@`, `!`, `^`), but in C++."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset after the last character."""
        return self.start + len(self.text)


@dataclass(slots=True, eq=False)
class Made:
    """Where a name is made, and from where to where it can be used. `value` is what was resolved,
    None for a statement that cannot be read, and for what is no value."""

    word: Word
    begin: int
    end: int
    value: Value | None = None
    op: Operation | None = None


class Names:
    """The names of a text, by what was resolved of it."""

    def __init__(self, text: str, resolved: ResolvedModule) -> None:
        self.text = text
        self.resolved = resolved

    @cached_property
    def words(self) -> list[Word]:
        """Every name outside comments and strings, in the order of the text."""
        found = (m for m in _WORD.finditer(self.text) if m.lastgroup not in (None, "skipped"))
        return [Word(Kind(m.lastgroup or ""), m[m.lastgroup or 0], m.start()) for m in found]

    def at(self, offset: int) -> Word | None:
        """Return the name at an offset; one that ends there is meant too."""
        place = bisect_right(self.words, offset, key=lambda w: w.start) - 1
        if place < 0 or self.words[place].end < offset:
            return None
        return self.words[place]

    @cached_property
    def made(self) -> dict[tuple[Kind, str], list[Made]]:
        """The places where each name is made."""
        found: dict[tuple[Kind, str], list[Made]] = {}
        for one in (*self._values(), *self._functions(), *self._aliases()):
            found.setdefault((one.word.kind, one.word.text), []).append(one)
        for one in self._unread(found):
            found.setdefault((one.word.kind, one.word.text), []).append(one)
        return found

    def definition(self, word: Word) -> Made | None:
        """Return where what a name names is made: of several the innermost one around it."""
        around = [
            m for m in self.made.get((word.kind, word.text), ()) if m.begin <= word.start < m.end
        ]
        return max(around, key=lambda m: m.word.start, default=None)

    def uses(self, made: Made) -> list[Word]:
        """Return every word that names what is made there, its own included."""
        same = (w for w in self.words if w.kind is made.word.kind and w.text == made.word.text)
        return [w for w in same if self.definition(w) is made]

    def visible(self, offset: int) -> list[Made]:
        """Return the values that can be named at an offset, the last ones first."""
        values = (
            m for (kind, _), places in self.made.items() if kind is Kind.VALUE for m in places
        )
        known = {m.word.text: m for m in sorted(values, key=lambda m: m.word.start)
                 if m.begin <= offset < m.end and m.word.end <= offset}  # fmt: skip
        return sorted(known.values(), key=lambda m: -m.word.start)

    def _values(self) -> Iterator[Made]:
        """What operations and blocks make, as far as they could be read."""
        for function in self.resolved.functions.values():
            for argument in function.args:
                yield self._value(argument, function.op.start, function.op.end, function.op)
        for op in self.resolved.ops:
            end = self._end_of_home(op)
            for result in op.results:
                yield self._value(result, op.start, end, op)
            for region in op.regions:
                for block in region.blocks:
                    for value in block.values:
                        yield self._value(value, op.start, region.end or op.end, op)

    def _value(self, value: Value, begin: int, end: int, op: Operation) -> Made:
        name = value.name.partition("#")[0]
        return Made(Word(Kind.VALUE, f"%{name}", value.start), begin, end, value, op)

    def _end_of_home(self, op: Operation) -> int:
        """Where the region that an operation is in ends."""
        if op.parent is None:
            return len(self.text)
        ends = (r.end for r in op.parent.regions if r.end > op.start)
        return min(ends, default=op.parent.end)

    def _functions(self) -> Iterator[Made]:
        for function in self.resolved.functions.values():
            if function.implicit:
                continue
            head = self.text.find(f"@{function.symbol}", function.op.start)
            if head >= 0:
                word = Word(Kind.FUNCTION, f"@{function.symbol}", head)
                yield Made(word, 0, len(self.text) + 1, op=function.op)

    def _aliases(self) -> Iterator[Made]:
        for found in _ALIAS_MADE.finditer(self.text):
            yield Made(Word(Kind.ALIAS, found[1], found.start(1)), 0, len(self.text) + 1)

    def _unread(self, known: dict[tuple[Kind, str], list[Made]]) -> Iterator[Made]:
        """Values at the beginning of statements that could not be read."""
        places = {
            m.word.start for (kind, _), all_ in known.items() if kind is Kind.VALUE for m in all_
        }
        for line in _MADE_HERE.finditer(self.text):
            for one in _ONE.finditer(line[1]):
                start = line.start(1) + one.start()
                if start not in places:
                    end = self._enclosing_end(start)
                    yield Made(Word(Kind.VALUE, one[0], start), start, end)

    def _enclosing_end(self, offset: int) -> int:
        """Where the innermost region around an offset ends."""
        ends = [
            r.end
            for op in self.resolved.ops
            if op.regions and op.start < offset < op.end
            for r in op.regions
            if r.end > offset
        ]
        return min(ends, default=len(self.text))


class CppNames(Names):
    """The names of a kernel in C++: those that the file declares."""

    def __init__(self, source: Source, resolved: ResolvedModule) -> None:
        super().__init__(source.text, resolved)
        try:
            self._all = names_of(source, resolved.target or "a2a3")
        except (CppError, UsageError):  # the check says what cannot be read
            self._all = []

    @cached_property
    def words(self) -> list[Word]:
        """Every name in the code, in the order of the text."""
        return [Word(Kind.CPP, n.text, n.start) for n in self._all]

    @cached_property
    def made(self) -> dict[tuple[Kind, str], list[Made]]:
        """The places where each name is declared."""
        found: dict[tuple[Kind, str], list[Made]] = {}
        for name in self._all:
            if name.is_declared:
                word = Word(Kind.CPP, name.text, name.start)
                made = Made(word, name.begin, name.end)
                found.setdefault((Kind.CPP, name.text), []).append(made)
        return found

    def definition(self, word: Word) -> Made | None:
        """Return where a name is declared: of several the last one that the word is in."""
        around = [
            m for m in self.made.get((word.kind, word.text), ()) if m.begin <= word.start < m.end
        ]
        return max(around, key=lambda m: (m.begin, m.word.start), default=None)

    def values(self, word: Word) -> list[Value]:
        """Return the values of the program that a name is for."""
        values = (v for op in self.resolved.ops for v in op.results)
        arguments = (a for f in self.resolved.functions.values() for a in f.args)
        own = re.compile(rf"{re.escape(word.text)}(?:_\d+)?")
        return [v for v in (*arguments, *values) if own.fullmatch(v.name)]


def innermost(ops: Iterable[Operation], offset: int, *, is_cpp: bool = False) -> Operation | None:
    """Return the operation whose text an offset is in, of several the innermost. In C++ several are
    made of one call: the one that a pipe executes is meant."""
    around = [op for op in ops if op.start <= offset <= op.end]
    if is_cpp:
        return max(around, key=lambda op: (op.start, bool(op.queue) and op.queue != "S"),
                   default=None)  # fmt: skip
    return max(around, key=lambda op: op.start, default=None)


# Statements as words, and how one that is half typed goes on.
#
# Assembly says the same again and again: what follows the words of a statement is found in the last
# statements of the same operation, in its example, and in those that begin in the same way; only
# the kinds of the words count (a value, a type, a number), and what comes in their place is chosen
# by what is in scope (`completion.py`).

_NESTED = r"<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>"
WORD = re.compile(
    r"(?P<comment>//[^\n]*)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<value>%[\w$.-]+(?:\#\d+)?)"
    rf"|(?P<type>![A-Za-z_][\w.]*(?:{_NESTED})?|memref{_NESTED}"
    r"|(?<![\w.])(?:[su]?i\d+|ui\d+|f16|f32|f64|bf16|index)(?![\w.]))"
    rf"|(?P<attribute>\#[A-Za-z_][\w.]*(?:{_NESTED})?|<[A-Za-z]\w*>)"
    r"|(?P<function>@[\w$.-]+)"
    r"|(?P<number>-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?![\w.]))"
    r"|(?P<word>[A-Za-z_][\w.]*|\^\w+)"
    r"|(?P<sign>->|<<<|>>>|[^\s\w])",
)
_RESULTS = re.compile(r"[ \t]*%[\w$.-]+(?::\d+)?(?:\s*,\s*%[\w$.-]+(?::\d+)?)*\s*=")
_OPERATION = re.compile(r"(?<![\w.%@!#])(?:[a-z]\w*\.)+\w+")
_BARE = re.compile(r"\s*(?:module|return)\b(?!\.)")
SEARCHED = 12
"""How many statements of an operation are looked at."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A word of a statement: its kind, its text, where it begins, and the blanks before it."""

    kind: str
    text: str
    start: int
    gap: str = ""

    @property
    def shape(self) -> str:
        """What must be equal in statements that are alike."""
        is_free = self.kind in ("value", "type", "number", "attribute", "string", "function")
        return self.kind if is_free else self.text


def pieces(line: str) -> list[Piece]:
    """Return the words of a line, without comments."""
    made, end = [], 0
    for found in WORD.finditer(line):
        if found.lastgroup != "comment":
            gap = line[end : found.start()]
            made.append(Piece(found.lastgroup or "", found[0], found.start(), gap))
        end = found.end()
    return made


def operation_of(line: str) -> str:
    """Return the name of the operation of a line, '' if there is none yet."""
    results = _RESULTS.match(line)
    begin = results.end() if results is not None else 0
    found = _BARE.match(line, begin) or _OPERATION.search(line, begin)
    return found[0].strip() if found is not None else ""


def results_of(line: str) -> str:
    """Return the results at the beginning of a line, with their `=`."""
    found = _RESULTS.match(line)
    return found[0] if found is not None else ""


def alike(text: str, before: int, operation: str, *, count: int = SEARCHED) -> Iterator[str]:
    """Yield the lines before an offset that have an operation, the last ones first, then the first
    one after it."""
    place, here = before, text.rfind("\n", 0, before) + 1
    for _ in range(count):
        place = text.rfind(operation, 0, place)
        if place < 0:
            break
        line = _line(text, place)
        if place < here and operation_of(line) == operation:
            yield line
    after = text.find(operation, before)
    if after >= 0 and operation_of(_line(text, after)) == operation:
        yield _line(text, after)


def _line(text: str, place: int) -> str:
    end = text.find("\n", place)
    return text[text.rfind("\n", 0, place) + 1 : end if end >= 0 else len(text)].strip()


def following(typed: list[Piece], lines: Iterable[str]) -> list[list[Piece]]:
    """Return how a statement can go on: the words of each line after those that are typed, of the
    lines that begin alike; each continuation once."""
    shapes = [p.shape for p in typed]
    found: dict[tuple[str, ...], list[Piece]] = {}
    for line in lines:
        words = pieces(line)
        if [p.shape for p in words[: len(shapes)]] == shapes:
            rest = words[len(shapes) :]
            found.setdefault(tuple(p.shape for p in rest), rest)
    return list(found.values())


def following_loosely(typed: list[Piece], lines: Iterable[str]) -> list[list[Piece]]:
    """The same for a statement that begins as none does: after the last words that are alike, first
    after three of them, then after two and one."""
    split = [pieces(line) for line in lines]
    found: dict[str, list[Piece]] = {}
    for count in (3, 2, 1):
        last = [p.shape for p in typed[-count:]]
        for words in split:
            for at in range(len(words) - len(last)):
                if [p.shape for p in words[at : at + len(last)]] == last:
                    rest = words[at + len(last) :]
                    found.setdefault(rest[0].shape, rest)
    return list(found.values())
