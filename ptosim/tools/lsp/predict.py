"""The words that a half-typed statement is likely to go on with, the likeliest first.

Which kind of word follows is taken from statements that begin alike (`statements.py`); a value is
chosen among those in scope by the type of the one that is there in the other statement, a type
is the one of the value that it belongs to.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from ptosim.ground.ir.types import ScalarType, TileType, Type
from ptosim.ground.isa.examples import all_examples, example_of
from ptosim.ground.isa.rows import isa
from ptosim.ground.records import dataclass
from ptosim.language.syntax.parser import parse_type
from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.names import (
    Made,
    Piece,
    alike,
    following,
    following_loosely,
    operation_of,
    pieces,
)

# What can be named at a place of a text that was changed since it was checked: the values of the
# checked one as far as they are before the change, and those that the change itself makes.

_MADE = re.compile(r"^[ \t]*(%[\w$.-]+(?:\s*,\s*%[\w$.-]+)*)\s*=([^\n]*)", re.MULTILINE)
_TARGET = re.compile(r'pto\.target_arch\s*=\s*"(a2a3|a5)"')
_ONE = re.compile(r"%[\w$.-]+")


@dataclass(frozen=True, slots=True)
class Offer:
    """A word that fits: what is written for the characters from `start` on. A `snippet` has tab
    stops, in the form of the protocol."""

    label: str
    kind: str  # operation, value, function, type, member, attribute, rest
    detail: str
    start: int
    text: str
    doc: str = ""
    snippet: str = ""

    @property
    def next_word(self) -> str:
        """The first word of what is written."""
        words = pieces(self.text)
        return words[0].text if words else ""


_SPECIAL = re.compile(r"[\\$}]")


def escaped(text: str) -> str:
    """Return a text as it is in a snippet."""
    return _SPECIAL.sub(r"\\\g<0>", text)


@dataclass(slots=True, eq=False)
class Named:
    """A value: its name, its type (None of one that could not be read), and where it is made."""

    name: str
    type: Type | None
    made: Made | None
    written: str = ""


class Scope:
    """The values at an offset of a text, by an older version of it that was checked."""

    def __init__(self, document: Document, text: str, offset: int) -> None:
        self.document = document
        self.text = text
        self.offset = offset

    @cached_property
    def target(self) -> str:
        """The target that is chosen, or that the text says; '' where nobody says one."""
        said = _TARGET.search(self.text)
        return self.document.settings.target or (said[1] if said is not None else "")

    def types_near(self) -> list[str]:
        """The types that were written before the place, the last ones first."""
        near = pieces(self.text[max(self.offset - 4000, 0) : self.offset])
        return list(dict.fromkeys(p.text for p in reversed(near) if p.kind == "type"))

    @cached_property
    def _changed(self) -> tuple[int, int, int]:
        """The first character that differs, and its ends in the old and the new text."""
        return changed(self.document.text, self.text)

    def checked_place(self, offset: int) -> int:
        """Return the place in the text that was checked of one in this text."""
        begin, old_end, new_end = self._changed
        if offset <= begin:
            return offset
        return offset - new_end + old_end if offset >= new_end else begin

    @cached_property
    def values(self) -> Mapping[str, Named]:
        """The values by name, the last ones first."""
        begin, _, new_end = self._changed
        found: dict[str, Named] = {}
        here = self.text.rfind("\n", 0, self.offset) + 1
        fresh = self.text[self.text.rfind("\n", 0, begin) + 1 : min(here, new_end)]
        for line in _MADE.finditer(fresh):
            types = [p.text for p in pieces(line[2]) if p.kind == "type"]
            for one in _ONE.findall(line[1]):
                found[one] = Named(one, None, None, types[-1] if types else "")
        found = dict(reversed(found.items()))
        for made in self.document.names.visible(self.checked_place(self.offset)):
            value = made.value
            kind = value.type if value is not None else None
            known = found.get(made.word.text)
            if known is None or (known.type is None and not known.written):
                found[made.word.text] = Named(made.word.text, kind, made)
        return found

    @cached_property
    def mentions(self) -> Counter[str]:
        """How often each value is named in the text near before the place."""
        return Counter(_ONE.findall(self.text, max(self.offset - 30_000, 0), self.offset))

    def type_of(self, name: str) -> str:
        """Return the type of a value as the text has it, '' if it is not known."""
        named = self.values.get(name)
        if named is None:
            return ""
        if not named.written and named.made is not None:
            named.written = self._written(named, named.made)
        return named.written

    def is_constant(self, name: str) -> bool:
        """Whether a value is the same in every run."""
        named = self.values.get(name)
        value = named.made.value if named is not None and named.made is not None else None
        return value is not None and value.const is not None

    def is_room(self, name: str) -> bool:
        """Whether a value is a tile that is made empty: nothing but addresses makes it."""
        named = self.values.get(name)
        if named is None or not isinstance(named.type, TileType) or named.made is None:
            return False
        op = named.made.op
        return op is not None and all(isinstance(o.type, ScalarType) for _, o in op.operands())

    def kind_of(self, written: str) -> Type:
        """Return the type that a text means, with the aliases of the module."""
        aliases = self.document.resolved.module.type_aliases
        return parse_type(aliases.get(written, written)).type

    def _written(self, named: Named, made: Made) -> str:
        text = self.document.text
        if made.value is not None and made.value.is_argument:
            after = pieces(text[made.word.end : text.find("\n", made.word.end) + 1])
            if len(after) > 1 and after[0].text == ":" and after[1].kind == "type":
                return after[1].text
        elif made.op is None or len(made.op.results) == 1:
            line = text[made.word.end : text.find("\n", made.word.end) + 1]
            kinds = [p.text for p in pieces(line) if p.kind == "type"]
            if kinds:
                return kinds[-1]
        return str(named.type) if named.type is not None else ""


def changed(old: Sequence[Any], new: Sequence[Any]) -> tuple[int, int, int]:
    """Return where two texts, or lists, begin to differ, and where that ends in each."""
    begin = _common_start(old, new)
    tail = _common_start(old[begin:][::-1], new[begin:][::-1])
    return begin, len(old) - tail, len(new) - tail


def _common_start(old: Sequence[Any], new: Sequence[Any]) -> int:
    """Return with how many equal items two of them begin."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


VALUES = 30
"""The most values that are offered for an operand."""
NEAR = 200
"""Of so many values, those made last, the best are looked for."""


@dataclass(frozen=True, slots=True)
class Rest:
    """How a statement goes on: its next word, and all of what follows on the line."""

    word: str
    text: str
    kind: str


def rests(scope: Scope, typed_text: str) -> Iterator[Rest]:
    """Yield how a statement can go on after the words that are typed of it."""
    typed = pieces(typed_text)
    operation = operation_of(typed_text)
    lines = list(lines_of(scope, operation)) if operation else []
    found = following(typed, lines)
    known = {words[0].shape for words in found if words}
    found += [w for w in following_loosely(typed, lines) if w[0].shape not in known]
    for words in found:
        made = filled(scope, typed, words)
        if made:
            yield Rest(made[0].text, _joined(made), made[0].kind)


def lines_of(scope: Scope, operation: str) -> Iterator[str]:
    """Yield statements of an operation: those around, then its example."""
    yield from alike(scope.text, scope.offset, operation)
    row = isa(scope.document.resolved.date).get(operation)
    example = example_of(row) if row is not None else None
    if example is not None:
        yield example.line.removesuffix(" … }")
    yield from alike(all_examples(), len(all_examples()), operation)


def filled(scope: Scope, typed: Sequence[Piece], words: Sequence[Piece]) -> list[Piece]:
    """Return words of another statement, all of which are `typed` and then `words`, with values and
    types of this one. What has one type there has one type here."""
    made = list(typed)
    own = own_types(words)
    chosen: dict[str, str] = {}
    in_brackets = 0
    has_arrow = any(word.text == "->" for word in words)
    for word in words:
        text = word.text
        in_brackets += (text == "[") - (text == "]")
        if word.kind == "value":
            wanted = own.get(text) or scope.type_of(text) or ("index" if in_brackets else "")
            size = _size(scope, text, chosen) if in_brackets else ""
            text = size or _value(scope, made, text, chosen.get(wanted, wanted))
            chosen.setdefault(wanted, scope.type_of(text) or wanted)
        elif word.kind == "type":
            known = type_for(scope, made, through_clauses=has_arrow)
            text = known or _alike_type(text, chosen)
        made.append(Piece(word.kind, text, word.start, word.gap))
    return made[len(typed) :]


_BODY = re.compile(r"<(.*)>\Z")
_DIM = re.compile(r"(\d+)x")
_NUMBERED = re.compile(r"%c(\d+)\Z")


def _alike_type(model: str, chosen: Mapping[str, str]) -> str:
    """A type whose body is that of another one there has the body of that one's here."""
    body = _BODY.search(model)
    for there, here in chosen.items() if body is not None else ():
        if body is not None and there.endswith(body[0]) and _BODY.search(here):
            return model[: body.start()] + here[here.index("<") :]
    return model


def _size(scope: Scope, model: str, chosen: Mapping[str, str]) -> str:
    """The constant here for one that is an extent of a type there; '' if it is none."""
    number = _NUMBERED.match(model)
    for there, here in chosen.items() if number is not None else ():
        pairs = dict(zip(_DIM.findall(there), _DIM.findall(here), strict=False))
        if number is not None and number[1] in pairs:
            name = f"%c{pairs[number[1]]}"
            return name if name in scope.values else ""
    return ""


def _value(scope: Scope, typed: Sequence[Piece], model: str, wanted: str) -> str:
    found = values_for(scope, typed, wanted, model)
    if found and (not wanted or _distance(scope, scope.type_of(found[0]), wanted) < FAR):
        return found[0]
    return model


def own_types(words: Sequence[Piece]) -> dict[str, str]:
    """Return the types of the values of a statement as far as it says them: one type alone is that
    of all values of its list."""
    found: dict[str, str] = {}
    has_arrow = any(word.text == "->" for word in words)
    kinds = [n for n, word in enumerate(words) if word.kind == "type"]
    if len(kinds) == 1 and words[kinds[0] - 1].text == ":":
        return dict.fromkeys(_listed(words[: kinds[0] - 1]), words[kinds[0]].text)
    for place, word in enumerate(words):
        before = words[:place]
        is_type = word.kind == "type"
        name = _typed_by(before, through_clauses=has_arrow) if is_type else ""
        if name:
            found[name] = word.text
    return found


def _joined(words: Sequence[Piece]) -> str:
    return "".join(w.gap + w.text for w in words).strip()


def values_for(
    scope: Scope, typed: Sequence[Piece], wanted: str = "", model: str = ""
) -> list[str]:
    """Return the names of values in scope, those that fit best first: of the type that is wanted,
    the constant that is there elsewhere (`model`), not yet in this statement, not used yet
    (those made first), else made last."""
    used = {p.text for p in typed if p.kind == "value"}
    near = list(scope.values)[:NEAR]

    is_fixed = scope.is_constant(model)
    words = {p.text for p in typed if p.kind == "word"}
    is_read = "ins" in words and "outs" not in words

    def badness(place: int) -> tuple[int, bool, bool, bool, int]:
        name = near[place]
        distance = _distance(scope, scope.type_of(name), wanted) if wanted else 0
        again = not is_fixed and name in used
        is_used = scope.mentions[name] > 1
        if is_read and scope.is_room(name):
            return distance, not is_used, again, not is_used, place
        return distance, is_fixed and name != model, again, is_used, place if is_used else -place

    return [near[place] for place in sorted(range(len(near)), key=badness)][:VALUES]


FAR = 4
"""A type that cannot stand in the place of another."""


def _distance(scope: Scope, kind: str, wanted: str) -> int:
    """How much a type differs from the one that is wanted: nothing, in its sizes, in its elements,
    in its layout, altogether."""
    if kind == wanted:
        return 0
    have, want = scope.kind_of(kind), scope.kind_of(wanted)
    if type(have) is not type(want):
        return FAR
    if have == want:
        return 0
    if isinstance(have, TileType) and isinstance(want, TileType):
        if have.loc != want.loc:
            return FAR
        layouts = (have.blayout, have.slayout) == (want.blayout, want.slayout)
        return (1 if have.dtype == want.dtype else 2) if layouts else 3
    return FAR if isinstance(have, ScalarType) else 1


def type_for(scope: Scope, typed: Sequence[Piece], *, through_clauses: bool = False) -> str:
    """Return the type that belongs at the end of what is typed: of the value as many places into
    its list as types were written of it."""
    return scope.type_of(_typed_by(typed, through_clauses=through_clauses))


def _typed_by(typed: Sequence[Piece], *, through_clauses: bool = False) -> str:
    """The value whose type comes next, '' if it cannot be told."""
    depth, types = 0, 0
    place = len(typed) - 1
    while place >= 0:
        word = typed[place]
        depth += (word.text in ")]}") - (word.text in "([{") if word.kind == "sign" else 0
        if depth < 0:
            return ""
        if depth == 0 and word.text == ":":
            break
        if word.text == "->":
            return ""
        types += word.kind == "type" and depth == 0
        place -= 1
    known = typed[: max(place, 0)]
    listed = _listed(known, through_clauses=through_clauses) if place >= 0 else []
    return listed[types] if types < len(listed) else ""


def _listed(typed: Sequence[Piece], *, through_clauses: bool = False) -> list[str]:
    """The values of the list that a colon ends, without those in brackets of their own."""
    found: list[str] = []
    depth = 0
    for at in range(len(typed) - 1, -1, -1):
        word = typed[at]
        if word.kind == "sign":
            depth += (word.text in ")]}") - (word.text in "([{")
            is_clause = depth == 0 and word.text == "=" and at and typed[at - 1].kind == "word"
            if is_clause and through_clauses:
                found.clear()  # a clause, whose values have no types
            elif depth < 0 or (depth == 0 and word.text in ("=", ":")):
                break
        elif word.kind == "value" and depth == 0:
            found.append(word.text)
    return found[::-1]
