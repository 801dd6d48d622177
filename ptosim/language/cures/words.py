"""What a reader would write where a name, a sign or an attribute is missing or misspelled.

As in `proposals.py` a proposal may be wrong: `offer.py` tries each."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Mapping

from ptosim.ground.diagnostics.model import Diagnostic, Fix
from ptosim.ground.isa.dates import DEFAULT_DATE
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import enums
from ptosim.ground.source import Source, Span
from ptosim.language.cures.statements import (
    EXTENTS,
    Edits,
    Piece,
    Statement,
    Types,
    all_of,
    constant,
    edit_of,
    everywhere,
    facets,
    fresh,
    indent_of,
    names_in,
    row_of,
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


# Types of tiles that a reader would write: another layout, element type, memory or valid shape.
#
# As in `proposals.py` a proposal may be wrong: `offer.py` tries each.


def as_row(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A column of N elements is a row of N elements: a reshape moves nothing."""
    here, source = statement_at(span.source, span.start), span.source
    types, indent = Types(source), indent_of(here, source)
    lines: list[str] = []
    edits: Edits = []
    named: dict[str, tuple[str, str]] = {}
    for group in here.groups:
        operands, texts = [], []
        for operand in group.operands:
            known = types.of(operand.text, here.start)
            row = row_of(known.text) if known is not None else None
            if known is not None and row is not None and operand.text not in named:
                new = next(n for n in fresh(f"{operand.text}_row") if n not in source.text)
                lines.append(f"{new} = pto.treshape {operand.text} : {known.text} -> {row}")
                named[operand.text] = (new, row)
            name, type_ = named.get(operand.text, (operand.text, known.text if known else ""))
            operands.append(name)
            texts.append(type_)
        edits.append(edit_of(source, group.start, group.end, group.text(operands, texts)))
    if lines:
        made = "".join(f"{line}\n{indent}" for line in lines)
        yield [edit_of(source, here.start, here.start, made), *edits]


def by_columns(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """An operand of one column is column-major, wherever its type is written."""
    here, source = statement_at(span.source, span.start), span.source
    types = dict.fromkeys(t.text for group in here.groups for t in group.types)
    for type_ in (written_out(source, t) for t in types):
        extents = EXTENTS.search(type_)
        if extents is not None and extents[3] == "1" and "blayout" not in type_:
            yield all_of(source, type_, f"{type_[:-1]}, blayout=col_major>")


_TILE = re.compile(r"!pto\.tile_buf<[^>]*>")
_BITS = re.compile(r"\d+")


def aligned(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A tile of one column is column-major; another one has longer rows or columns, of which a
    part is valid."""
    here, source = statement_at(span.source, span.start), span.source
    written = here.text.rpartition(":")[2].strip()
    type_ = _TILE.search(written_out(source, written)) or _TILE.search(here.text)
    extents = EXTENTS.search(type_.group()) if type_ is not None else None
    if extents is None or type_ is None or not names_in(here.text):
        return
    old = type_.group()
    if extents[3] == "1" and "blayout" not in old:
        yield from _as(source, here, old, f"{old[:-1]}, blayout=col_major>")
    rows, columns = int(extents[2]), int(extents[3])
    bits = _BITS.search(extents[4])
    if bits is None or "valid" in old:
        return
    whole = _WHOLE.search(found.message)
    unit = int(whole[1]) if whole is not None else max(256 // int(bits.group()), 1)
    longer, wider = -(-rows // unit) * unit, -(-columns // unit) * unit
    for high, wide in dict.fromkeys(((rows, wider), (longer, columns), (longer, wider))):
        if (high, wide) != (rows, columns):
            shape = f"{extents[1]}, {high}x{wide}x{extents[4]}, valid={rows}x{columns}"
            yield from _as(source, here, old, old.replace(extents.group(), shape))


_WHOLE = re.compile(r"multiple of inner\w+ \((\d+)\)")


def _as(source: Source, here: Statement, old: str, new: str) -> Iterator[Edits]:
    """A tile of another type, or all tiles of this type: those of an alias are one."""
    if old in here.text:
        yield everywhere(source, here, old, new)
    yield all_of(source, old, new)


def like_the_others(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A tile of the function that differs from another operand in what the rule is about: its type
    with the valid shape, the element type or the memory of the other one, or all of it."""
    here, types = statement_at(span.source, span.start), Types(span.source)
    operands = [o.text for group in reversed(here.groups) for o in group.operands]
    known = {name: types.of(name, here.start) for name in operands}
    tiles = {name: written_out(span.source, t.text) for name, t in known.items() if t is not None}
    for name, other in itertools.permutations(tiles, 2):
        at, old, model = known[name], tiles[name], tiles[other]
        if at is None or old == model:
            continue
        made = statement_at(span.source, at.start)
        is_argument = re.match(r"func\b", made.text) is not None
        if not is_argument and not _ALLOCATED.match(made.text):
            continue
        for new in dict.fromkeys((*facets(old, model), model)):
            if new != old and is_argument:
                yield _retyped(span.source, name, at, new)
            elif new != old:
                yield everywhere(span.source, made, at.text, new)


_ALLOCATED = re.compile(r"%[\w$.-]+\s*=\s*pto\.alloc_tile(?!.*valid_)")


def valid(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A valid shape that the type leaves open: the extents of the type."""
    here = statement_at(span.source, span.start)
    written = written_out(span.source, here.text.rpartition(":")[2].strip())
    extents = EXTENTS.search(written) or EXTENTS.search(here.text)
    if extents is None:
        return
    given, made = [], []
    open_ = re.search(r"valid=(\?|\d+)x(\?|\d+)", written)
    for word, number, sign in (("valid_row", extents[2], 1), ("valid_col", extents[3], 2)):
        if word in here.text or (open_ is not None and open_[sign] != "?"):
            continue
        name = constant(span.source, int(number), here.start)
        if name is None:
            name = next(n for n in fresh(f"%c{number}") if n not in span.source.text)
            made.append(f"{name} = arith.constant {number} : index\n{indent_of(here, span.source)}")
        given.append(f" {word} = {name}")
    at = here.start + len(here.text.partition(":")[0].rstrip())
    new = edit_of(span.source, here.start, here.start, "".join(made))
    yield [*([new] if made else []), edit_of(span.source, at, at, "".join(given))]
    closed = re.sub(r", ?valid=[?\d]+x[?\d]+", "", here.text)
    if closed != here.text:
        yield [edit_of(span.source, here.start, here.end, closed)]


# -- what a message says -------------------------------------------------------------------------


def _tiles_of(found: Diagnostic, here: Statement, source: Source) -> Iterator[tuple[str, Piece]]:
    """The operands that are tiles, with where their types are said: results first where the message
    is about `dst`."""
    types = Types(source)
    groups = here.groups[::-1] if re.search(r"\bdst\b", found.message) else here.groups
    for operand in (o for group in groups for o in group.operands):
        known = types.of(operand.text, here.start)
        if known is not None and "tile_buf<" in written_out(source, known.text):
            yield operand.text, known


def _retyped(source: Source, name: str, at: Piece, new: str) -> Edits:
    """Another type for a value: where it is defined, and wherever the text repeats it."""
    edits = [edit_of(source, at.start, at.end, new)]
    for line in re.finditer(rf"^.*{re.escape(name)}(?![\w$.-]).*$", source.text, re.MULTILINE):
        for group in statement_at(source, line.start() + 1).groups:
            for operand, type_ in zip(group.operands, group.types, strict=False):
                is_there = at.start <= type_.start < at.end
                if operand.text == name and type_.text == at.text and not is_there:
                    edits.append(edit_of(source, type_.start, type_.end, new))
    return edits


def _changed(found: Diagnostic, span: Span, old: str, words: list[str]) -> Iterator[Edits]:
    """Each tile of the statement with a part of its type (a pattern) in other words."""
    here, source = statement_at(span.source, span.start), span.source
    for name, at in _tiles_of(found, here, source):
        type_ = written_out(source, at.text)
        for word in words:
            new = re.sub(old, word, type_, count=1)
            if new != type_:
                yield _retyped(source, name, at, new)


_MEMORIES = "vec|mat|left|right|acc|bias|scaling"
_DTYPES = r"bf16|tf32|hif8|f(?:16|32|64)|[su]?i(?:8|16|32|64)|f8E\w+|f4E\w+"


def in_memory(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """The memory that the message asks for."""
    words = re.findall(rf"\b(?:loc=)?({_MEMORIES})\b", found.message)
    yield from _changed(found, span, rf"(?<=<)(?:{_MEMORIES})\b", list(dict.fromkeys(words)))


def of_element(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """One of the element types that the message lists."""
    words = re.findall(rf"(?<![\w!])(?:{_DTYPES})\b", found.message)
    yield from _changed(found, span, rf"(?<=\dx)(?:{_DTYPES})\b", list(dict.fromkeys(words)))


def laid_out(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """The layout that the message asks for: its keys, or none for rows one after the other."""
    here, source = statement_at(span.source, span.start), span.source
    keys = re.findall(r"\b((?:blayout|slayout|fractal)=\w+)", found.message)
    wanted = [k for k in keys if k not in ("blayout=row_major", "slayout=none_box")]
    if not keys and not re.search(r"\bND\b|unboxed|(?<!non-)row-major", found.message):
        return
    for name, at in _tiles_of(found, here, source):
        type_ = written_out(source, at.text)
        bare = re.sub(r", ?(?:blayout|slayout|fractal)=\w+", "", type_)
        new = f"{bare[:-1]}{''.join(f', {key}' for key in wanted)}>"
        if new != type_:
            yield _retyped(source, name, at, new)


def enough(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """Scratch of as many bytes as the message asks for, in one row."""
    here, source = statement_at(span.source, span.start), span.source
    told = re.search(r"at least (\d+) bytes", found.message)
    for name, at in _tiles_of(found, here, source) if told is not None else ():
        type_ = written_out(source, at.text)
        extents = EXTENTS.search(type_)
        bits = _BITS.search(extents[4]) if extents is not None else None
        if told is None or extents is None or bits is None or "valid" in type_:
            continue
        count = -(-int(told[1]) // 32) * 256 // int(bits.group())
        new = type_.replace(extents.group(), f"{extents[1]}, 1x{count}x{extents[4]}")
        if new != type_ and re.search("tmp|temp|scratch", name):
            yield _retyped(source, name, at, new)


def without_clause(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A clause that the help line says to remove."""
    here, source = statement_at(span.source, span.start), span.source
    told = re.search(r"remove `(\w+) = ", found.help or "")
    given = re.search(rf"[ \t]+{told[1]}\s*=\s*%?[\w.-]+", here.text) if told else None
    if given is not None:
        yield [edit_of(source, here.start + given.start(), here.start + given.end(), "")]
