"""Types of tiles that a reader would write: another layout, element type, memory or valid shape.

As in `proposals.py` a proposal may be wrong: `offer.py` tries each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic
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
)


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
