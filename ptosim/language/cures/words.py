"""What a reader would write where a name, a sign or an attribute is missing or misspelled.

As in `proposals.py` a proposal may be wrong: `offer.py` tries each."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Mapping

from ptosim.ground.diagnostics.model import Diagnostic, Fix
from ptosim.ground.isa.dates import DEFAULT_DATE
from ptosim.ground.isa.enums import enums
from ptosim.ground.isa.rows import isa
from ptosim.ground.source import Source, Span
from ptosim.language.cures.statements import (
    Edits,
    Piece,
    Statement,
    constant,
    edit_of,
    indent_of,
    statement_at,
    written_out,
    zero_at,
)

_LIKE, _SURE = 0.6, 0.7
"""Likeness from which on a name, or a key, may be meant for another one."""
_MOST = 4
_SYNTAX = (
    "step", "to", "attributes", "iter_args", "ins", "outs", "else", "module", "return", "shape",
    "strides", "offsets", "sizes", "addr", "valid_row", "valid_col",
)  # fmt: skip
"""Words without which a statement cannot be read, or is read as another one."""

_NAMED = re.compile(r"%([A-Za-z_][\w$.-]*|\d+)")
_BARE = re.compile(r"(?<![\w.%@#!\"<-])[A-Za-z_]\w*(?![\w.(<\"]|\s*=[^=])")
_TYPED = re.compile(r"(?<=[\w\])}])[ \t]+(?=!(?:pto\.)?\w)(?<!:)")
_TAKES_TYPE = re.compile(r"(?:->|:|,|=|\(|to|<)\s*$")


# -- names -----------------------------------------------------------------------------------------


def other_name(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A value that nobody defines: one with a name like it, the definition of which may be what is
    misspelled; `%c64` is the constant."""
    source, name = span.source, span.text.removeprefix("%")
    before = [m[1] for m in _NAMED.finditer(source.text) if m[1] != name]
    if (number := re.fullmatch(r"c(\d+)", name)) is not None:
        yield _new_constant(source, span, int(number[1]))
    for other in difflib.get_close_matches(name, dict.fromkeys(before), n=_MOST, cutoff=_LIKE):
        if before.count(other) == 1:  # it has a definition and no use
            yield _renamed(source, other, name)
        yield _renamed(source, name, other)


def _new_constant(source: Source, span: Span, number: int) -> Edits:
    here = statement_at(source, span.start)
    line = f"{span.text} = arith.constant {number} : index\n{indent_of(here, source)}"
    return [edit_of(source, here.start, here.start, line)]


def _renamed(source: Source, old: str, new: str) -> Edits:
    places = (m for m in _NAMED.finditer(source.text) if m[1] == old)
    return [edit_of(source, *place.span(1), new) for place in places]


# -- signs, words of the syntax --------------------------------------------------------------------


def other_word(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """What cannot be read: a missing colon or percent sign, an operation without its `pto.`, a
    misspelled word of the syntax."""
    source, word = span.source, span.text
    yield from signs(found, span)
    if word.startswith(("%", "!")):
        at = len(source.text[: span.start].rstrip())
        yield [edit_of(source, at, at, ",")]
    if not re.fullmatch(r"[A-Za-z_]\w*", word):
        return
    if re.match(r"\s*=(?!=)", source.text[span.end :]):
        yield [Fix(span, f"%{word}")]
    if f"pto.{word}" in isa(DEFAULT_DATE).names():
        yield [Fix(span, f"pto.{word}")]
    for other in difflib.get_close_matches(word, _SYNTAX, n=2, cutoff=_LIKE):
        yield [Fix(span, other)]


def signs(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A colon before types, no comma before what ends a list, a percent sign before the name of a
    value; `pto.` before the operation of the next line, which is taken for more of this one."""
    here, source = statement_at(span.source, span.start), span.source
    for place in _TYPED.finditer(here.text):
        if not _TAKES_TYPE.search(here.text[: place.start()]):
            yield [edit_of(source, here.start + place.start(), here.start + place.end(), " : ")]
    for place in re.finditer(r",(?=\s*[:)\]])", here.text):
        yield [edit_of(source, here.start + place.start(), here.start + place.end(), "")]
    known = {m[1] for m in _NAMED.finditer(source.text)}
    for word in _BARE.finditer(here.text):
        if word.group() in known:
            at = here.start + word.start()
            yield [edit_of(source, at, at, "%")]
    below = re.compile(r"\s*(?://[^\n]*\n\s*)*([a-z]\w*)").match(source.text, here.end)
    if below is not None and f"pto.{below[1]}" in isa(DEFAULT_DATE).names():
        yield [edit_of(source, below.start(1), below.start(1), "pto.")]


# -- attributes ------------------------------------------------------------------------------------


def key_of_message(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A key of the statement that is most like a word of the message is this word misspelled."""
    here = statement_at(span.source, span.start)
    keys = list(re.finditer(r"(?<=[{,\s])([A-Za-z_]\w{2,})(?= ?= ?)", here.text))
    told = re.findall(r"[A-Za-z_]\w{2,}", f"{found.message} {found.help or ''}")
    for key in keys:
        for word in difflib.get_close_matches(key[1], dict.fromkeys(told), n=1, cutoff=_SURE):
            if word != key[1] and not any(k[1] == word for k in keys):
                start = here.start + key.start()
                yield [edit_of(span.source, start, start + len(key[1]), word)]


def added_attribute(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """An attribute that the help line spells out: in the braces of the statement, or after it."""
    told = re.search(r"add `\{([^`]*)\}`", found.help or "")
    for text in _alternatives(told[1]) if told is not None else ():
        yield from _with_attribute(text, span)


def _alternatives(told: str) -> Iterator[str]:
    """An attribute as it is told, and with the other members of its enum."""
    yield told
    member = re.search(r"#pto<(\w+) (\w+)>$", told)
    known = enums().get(member[1]) if member is not None else None
    if member is not None and known is not None:
        others = (word for word in known.members if word != member[2])
        yield from (f"{told[: member.start(2)]}{word}>" for word in others)


def _with_attribute(text: str, span: Span) -> Iterator[Edits]:
    here, source = statement_at(span.source, span.start), span.source
    braces = re.search(r"\{(?=\s*[A-Za-z_]\w* ?=)", here.text)
    if braces is not None:
        at = here.start + braces.end()
        yield [edit_of(source, at, at, f"{text}, ")]
    ends = (m.start() for m in re.finditer(r"\s+(?:->|:)\s", here.text))
    for end in itertools.chain((len(here.text),), list(ends)[::-1]):
        at = here.start + end
        yield [edit_of(source, at, at, f" {{{text}}}")]


def on_function(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """An attribute that the help line gives the function around the statement."""
    source = span.source
    told = re.search(r"give the function `\{(.*)\}`", found.help or "")
    heads = list(re.finditer(r"\bfunc\.func\b[^{\n]*", source.text[: span.start]))
    if told is None or not heads:
        return
    head = heads[-1]
    at = head.end() if head.group().rstrip().endswith("attributes") else -1
    if at >= 0:
        yield [edit_of(source, at + 1, at + 1, f"{told[1]}, ")]
    else:
        at = head.start() + len(head.group().rstrip())
        yield [edit_of(source, at, at, f" attributes {{{told[1]}}}")]


# -- lists of a view -------------------------------------------------------------------------------


def whole_lists(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """Lists as long as the rank: sizes and shape are the extents of the type, strides those of
    rows one after the other, offsets 0."""
    here, source = statement_at(span.source, span.start), span.source
    lists = {
        m[1]: Piece(m[2], here.start + m.start(2), here.start + m.end(2))
        for m in re.finditer(r"\b(shape|strides|offsets|sizes)\s*=\s*\[([^\]]*)\]", here.text)
    }
    end = re.search(r"(?:->|:)\s*(![\w.<>?, ]+)\s*$", here.text)
    shape = re.search(r"<([\d?x]+)x!?\w[\w.]*>", written_out(source, end[1])) if end else None
    if shape is None:
        return
    extents = shape[1].split("x")
    for word, names in _lists(lists, extents, here, source):
        if word in lists and all(names):
            piece = lists[word]
            yield [edit_of(source, piece.start, piece.end, ", ".join(map(str, names)))]


def _lists(
    lists: Mapping[str, Piece], extents: list[str], here: Statement, source: Source
) -> Iterator[tuple[str, list[str | None]]]:
    def index(number: int) -> str | None:
        return constant(source, number, here.start)

    known = [index(int(n)) if n.isdigit() else None for n in extents]
    yield from (("sizes", known), ("shape", known))
    yield "offsets", [index(0)] * len(extents)
    given = [n.strip() for n in lists["shape"].text.split(",")] if "shape" in lists else []
    if len(given) == len(extents) <= 2:
        yield "strides", [*given[1:], index(1)]


def literal(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A literal of the other kind: `2.0 : i32` is `2 : i32`, or `2.0 : f32`."""
    here = statement_at(span.source, span.start)
    number = re.search(r"(?<![\w.%])-?\d+(\.\d*)?(?=\s*:\s*(\w+))", here.text)
    if number is None:
        return
    start, value = here.start + number.start(), float(number.group())
    is_whole = "." not in number.group()
    if value.is_integer():
        other = f"{value}" if is_whole else f"{int(value)}"
        yield [edit_of(span.source, start, start + len(number.group()), other)]
    for type_ in ("i32", "i64", "index") if is_whole else ("f32", "f16", "bf16"):
        begin, end = here.start + number.start(2), here.start + number.end(2)
        yield [edit_of(span.source, begin, end, type_)]


_WINDOW = re.compile(r"offset \d+ \+ size (\d+) exceeds static source dim \((\d+)\) at dim (\d+)")


def at_the_start(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A window that is as long as its source begins at 0."""
    told, here = _WINDOW.search(found.message), statement_at(span.source, span.start)
    listed = re.search(r"\boffsets\s*=\s*\[([^\]]*)\]", here.text)
    if told is None or listed is None or told[1] != told[2]:
        return
    names, zero = listed[1].split(","), zero_at(span.source, here.start)
    if zero is None or int(told[3]) >= len(names):
        return
    names[int(told[3])] = zero
    start, end = here.start + listed.start(1), here.start + listed.end(1)
    yield [edit_of(span.source, start, end, ", ".join(n.strip() for n in names))]


def returned(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A function without results returns nothing."""
    here, text = statement_at(span.source, span.start), span.source.text
    heads = re.findall(r"^\s*func\.func\b[^{\n]*", text[: here.start], re.MULTILINE)
    if re.match(r"return\s*%", here.text) and heads and "->" not in heads[-1]:
        yield [edit_of(span.source, here.start, here.end, "return")]
