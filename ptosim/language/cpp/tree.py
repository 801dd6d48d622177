"""The tree of a text in C++, whose parts keep what they were asked: a body is gone through again
for each instance of its template and each round of its loops.

Calls that are written out by the thousand, line after line, are parsed once for each text: what
`f(a, b);` may be, a declaration or a call, takes the grammar longer than everything after it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

from ptosim.language.cpp.comparisons import Comparisons
from ptosim.language.cpp.kinds import SCALARS
from ptosim.language.cpp.state import needs_extra


class _Text:
    """The bytes of a tree, what is known of its comparisons, and by the id of a node the calls in
    it that were parsed apart: where each run of them begins, and its statements."""

    __slots__ = ("apart", "bytes", "told")

    def __init__(self, words: bytes, told: Comparisons) -> None:
        self.bytes, self.told = words, told
        self.apart: dict[int, list[tuple[int, list[Part]]]] = {}


class Part:
    """A node of a tree, with the names that the package's nodes have. `shift` is how far it is
    from where its text was parsed."""

    __slots__ = (
        "_fields", "children", "end_byte", "has_error", "id", "is_missing", "is_named", "named",
        "node", "parent", "prev_sibling", "shift", "start_byte", "string", "text", "type", "whole",
    )  # fmt: skip

    def __init__(self, node: Any, whole: _Text, shift: int = 0) -> None:
        self.node, self.whole, self.shift = node, whole, shift
        self.type: str = node.type

    def __getattr__(self, name: str) -> Any:
        """Ask the node, once for each name."""
        make = _ASKED.get(name)
        if make is None:
            raise AttributeError(name)
        made = make(self)
        setattr(self, name, made)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def like(self, node: Any) -> Part | None:
        """Return another node of the tree as a part."""
        return None if node is None else Part(node, self.whole, self.shift)

    def child_by_field_name(self, name: str) -> Part | None:
        """Return a child by its field, None if it has none."""
        if name not in self._fields:
            self._fields[name] = self.like(self.node.child_by_field_name(name))
        return self._fields[name]

    def children_by_field_name(self, name: str) -> list[Part]:
        """Return all children of a field."""
        found = self.node.children_by_field_name(name)
        return [Part(n, self.whole, self.shift) for n in found]

    def field_name_for_child(self, at: int) -> str | None:
        """Return the field of a child by its number."""
        return self.node.field_name_for_child(at)

    def _text(self) -> bytes:
        found = self.whole.bytes[self.node.start_byte : self.node.end_byte]
        return found.strip() if self.type == "<=" else found  # a `<` with a blank, perhaps

    def _own_id(self) -> Any:
        return (self.node.id, self.shift) if self.shift else self.node.id

    def _children(self) -> list[Part]:
        made = [Part(n, self.whole, self.shift) for n in self.node.children]
        apart = self.whole.apart.get(self.node.id)
        if apart is None:
            return made
        starts = [part.start_byte for part in made]
        found: list[Part] = []
        done = 0
        for start, parts in apart:
            end = bisect_right(starts, start)
            found += made[done:end]
            found += parts
            done = end
        return found + made[done:]


_ASKED: dict[str, Callable[[Part], Any]] = {
    "_fields": lambda part: {},
    "children": Part._children,
    "end_byte": lambda part: part.node.end_byte + part.shift,
    "has_error": lambda part: part.node.has_error,
    "id": Part._own_id,
    "is_missing": lambda part: part.node.is_missing,
    "is_named": lambda part: part.node.is_named,
    "named": lambda part: [c for c in part.children if c.is_named and c.type != "comment"],
    "parent": lambda part: part.like(part.node.parent),
    "prev_sibling": lambda part: part.like(part.node.prev_sibling),
    "start_byte": lambda part: part.node.start_byte + part.shift,
    "string": lambda part: part.text.decode(),
    "text": Part._text,
}


def parser() -> Any:
    """Return a parser of C++; raises UsageError where the extra is not installed."""
    try:
        from tree_sitter import Parser

        return Parser(_grammar())
    except ImportError:
        raise needs_extra() from None


@cache
def _grammar() -> Any:
    from tree_sitter import Language
    from tree_sitter_cpp import language

    return Language(language())


_DEEPEST = 400
"""Template arguments in template arguments; the parser needed 2 GB for 4,000 of them."""
_ANGLES = re.compile(r"<<|[<>]=|->|[<>;{}]")


def _is_too_deep(text: str) -> bool:
    """Are template arguments, or what may be some, inside of more others than are read?"""
    if text.count("<") <= _DEEPEST:
        return False
    depth = 0
    for found in _ANGLES.finditer(text):
        if found[0] == "<":
            depth += 1
        elif found[0] == ">":
            depth = max(depth - 1, 0)
        elif found[0] in ";{}":
            depth = 0
        if depth > _DEEPEST:
            return True
    return False


def parsed(text: str, shift: int = 0, told: Comparisons | None = None) -> Part:
    """Return the root of a text of ASCII, which is as far from the begin of its file, whose
    comparisons are given for a part of it. Raises RecursionError where it is nested too deeply."""
    if _is_too_deep(text):
        raise RecursionError
    told = told or Comparisons(text)
    return _with_calls_apart(text, told) or _whole(text, told, shift)


def _whole(text: str, told: Comparisons, shift: int = 0, ranges: Sequence[Any] = ()) -> Part:
    """Parse a text, or these ranges of it. Its parts have the words of the text as it is."""
    reader = parser()
    if ranges:
        reader.included_ranges = list(ranges)
    words = _PRODUCT.sub(_divided, told.told(text).encode())
    return Part(reader.parse(words).root_node, _Text(text.encode(), told), shift)


_PRODUCT = re.compile(rb"(\(\s*)([A-Za-z_][\w:]*)(\s*)\*(?=\s*\()")


def _divided(found: re.Match[bytes]) -> bytes:
    """`(a * (b * c)) + d`, which the grammar takes for `+d` as the type of a function that returns
    a pointer to `a`: as a division, which is no type, it is what it is meant to be."""
    opened, word, space = found.groups()
    is_type = word.decode() in SCALARS
    return found[0] if is_type else opened + word + space + b"/"


# -- calls that are written out --------------------------------------------------------------------

LEAST_APART = 256
"""Lines of calls after one another that are parsed apart."""
_KEPT = 2
"""Lines at both ends of them that stay: what is in front may be the head of a loop."""
_PLAIN = r"[^(){};\"'$]*"
_CALL = re.compile(
    rf"\s*(\w+(?:(?:\.|->|::)\w+)*(?:<[\w:, ]*>)?\({_PLAIN}(?:\({_PLAIN}\){_PLAIN})*\);)"
)
_CALLS = re.compile(rf"(?:{_CALL.pattern})+\s*")
_BODIES = ("compound_statement", "case_statement")


def _with_calls_apart(text: str, told: Comparisons) -> Part | None:
    """Parse a text without the runs of calls in it, which get their places again; None for one that
    has none, or in which they may be something else."""
    if text.count("\n") < LEAST_APART:
        return None
    lines = text.split("\n")
    runs = _runs(lines)
    if not runs:
        return None
    begins = [0, *accumulate(len(line) + 1 for line in lines)]
    calls: dict[str, list[tuple[int, str]]] = {}
    for first, end in runs:
        for line in set(lines[first:end]):
            calls[line] = [(m.start(1), m[1]) for m in _CALL.finditer(line)]
    known = _templates({call for found in calls.values() for _, call in found}, told)
    if known is None:
        return None
    apart: list[tuple[int, int, list[Part]]] = []
    for first, end in runs:
        made: list[Part] = []
        for line, begin in zip(lines[first:end], begins[first:end], strict=True):
            made += (_moved(known[call], begin + at) for at, call in calls[line])
        apart.append((begins[first], begins[end] - 1, made))
    root = _whole(text, told, ranges=_ranges_between(apart, len(text)))
    for start, end, made in apart:
        body = root.node.descendant_for_byte_range(start, end)
        if body is None or body.type not in _BODIES:
            return None
        root.whole.apart.setdefault(body.id, []).append((start, made))
    return root


def _ranges_between(apart: Sequence[tuple[int, int, Any]], size: int) -> list[Any]:
    """Return the ranges of a text between its runs of calls."""
    from tree_sitter import Range

    begins = [0, *(end for _, end, _ in apart)]
    ends = [*(start for start, _, _ in apart), size]
    return [Range((0, a), (0, b), a, b) for a, b in zip(begins, ends, strict=True)]


def _runs(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return which lines are calls and nothing else, in runs, without the lines at their ends."""
    plain: dict[str, bool] = {}
    found: list[tuple[int, int]] = []
    first = 0
    for i, line in enumerate((*lines, "")):
        is_plain = plain.get(line)
        if is_plain is None:
            is_plain = plain[line] = bool(_CALLS.fullmatch(line)) and "__launch__" not in line
        if not is_plain:
            if i - first >= LEAST_APART:
                found.append((first + _KEPT, i - _KEPT))
            first = i + 1
    return found


def _templates(calls: set[str], told: Comparisons) -> dict[str, Part] | None:
    """Parse calls once; None if some of them may be something else."""
    order = sorted(calls)
    body = "void f() {\n"
    root = _whole("".join((body, *(f"{call}\n" for call in order), "}")), told)
    if root.has_error or len(root.named) != 1:
        return None
    parts = root.named[0].named[-1].named
    if [part.string for part in parts] != order or any(map(_is_no_call, parts)):
        return None
    return dict(zip(order, parts, strict=True))


def _is_no_call(part: Part) -> bool:
    return part.type != "expression_statement" or part.named[0].type != "call_expression"


def _moved(part: Part, start: int) -> Part:
    """Return a statement in another place."""
    made = Part(part.node, part.whole, start - part.node.start_byte)
    made.text, made.has_error = part.text, False
    return made
