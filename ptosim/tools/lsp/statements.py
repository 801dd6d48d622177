"""Statements as words, and how one that is half typed goes on.

Assembly says the same again and again: what follows the words of a statement is found in the last
statements of the same operation, in its example, and in those that begin in the same way; only the
kinds of the words count (a value, a type, a number), and what stands for them is chosen by what is
in scope (`completion.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ptosim.ground.records import dataclass

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
