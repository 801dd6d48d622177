"""What a reader would write where a rule is broken, by the code of the finding.

A proposal is a list of edits. It may be wrong: whoever asks tries it (`offer.py`), so a proposer
need not know the rule whose finding it mends, only what people write instead."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Fix
from ptosim.ground.isa.dates import DEFAULT_DATE
from ptosim.ground.isa.rows import isa
from ptosim.ground.source import Source, Span
from ptosim.language.cures.statements import (
    Edits,
    Group,
    Statement,
    Types,
    address,
    apart,
    edit_of,
    free_address,
    fresh,
    indent_of,
    names_in,
    region_around,
    statement_at,
    with_address,
    without_address,
    written_out,
    zero_at,
)
from ptosim.language.cures.words import (
    added_attribute,
    aligned,
    as_row,
    at_the_start,
    by_columns,
    enough,
    in_memory,
    key_of_message,
    laid_out,
    like_the_others,
    literal,
    of_element,
    on_function,
    other_name,
    other_word,
    returned,
    signs,
    valid,
    whole_lists,
    without_clause,
)

Proposer = Callable[[Diagnostic, Span], Iterator[Edits]]

WORD = re.compile(r"[!#%]?[\w.$]+")
_KNOWN = re.compile(r"[!#%]?[\w.$<>]+")
_LIKE = 0.3
"""Likeness from which on a word may be meant for another one; what is tried is checked."""
_MOST_KNOWN = 4


def nearest(text: str, told: str) -> list[str]:
    """Of a list of known words those that are most like a word of the text."""
    known = [w for w in _KNOWN.findall(told) if w not in ("known", "or")]
    words = [w.group() for w in WORD.finditer(text)] or [text]
    near = (difflib.get_close_matches(w, known, n=2, cutoff=_LIKE) for w in reversed(words))
    return list(dict.fromkeys(itertools.chain.from_iterable(near)))[:_MOST_KNOWN]


def _operation(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """Names of operations that are most like the unknown one, with the prefix or without it."""
    bare = span.text.removeprefix("pto.")
    for word in difflib.get_close_matches(f"pto.{bare}", isa(DEFAULT_DATE).names(), n=_MOST_KNOWN):
        yield [Fix(span, word)]


# -- types -----------------------------------------------------------------------------------------


def _defined_otherwise(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A use and the definition have two types: either may be the wrong one."""
    here, source = statement_at(span.source, span.start), span.source
    known = Types(source).of(span.text, here.start)
    told = re.match("write `([^`]+)`$", found.help or "")
    for group in here.groups:
        for operand, type_ in zip(group.operands, group.types, strict=False):
            if span.text not in names_in(operand.text):
                continue
            for meant in (told[1] if told is not None else "", known.text if known else ""):
                if meant not in ("", type_.text):
                    yield [edit_of(source, type_.start, type_.end, meant)]
            if known is not None and type_.text != known.text:
                yield [edit_of(source, known.start, known.end, type_.text)]


def _of_another_width(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A mask that was made for elements of another width: `pset_b16` is `pset_b32`."""
    here, source = statement_at(span.source, span.start), span.source
    known = Types(source).of(span.text, here.start)
    made = statement_at(source, known.start) if known is not None else here
    old = _GRANULE.search(made.text)
    if old is None:
        return
    wanted = _GRANULE.findall(f"{found.message} {here.text}")
    places = list(re.finditer(rf"\bb{old[1]}\b|(?<=_)b{old[1]}\b", made.text))
    for width in dict.fromkeys(w for w in wanted if w != old[1]):
        yield [
            edit_of(source, made.start + p.start(), made.start + p.end(), f"b{width}")
            for p in places
        ]


_GRANULE = re.compile(r"mask<b(\d+)>")


def _the_only_one(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """Of the values that are defined, the only one of the type that is meant here: the one written
    beside the operand, or a scalar of the elements."""
    here, types = statement_at(span.source, span.start), Types(span.source)
    for group in here.groups:
        element = _ELEMENT.search(group.types[0].text) if group.types else None
        for operand, type_ in zip(group.operands, group.types, strict=False):
            name = next(iter(names_in(operand.text)), None)
            if name is None:
                continue
            is_scalar = "!" not in type_.text and type_.text != "index"
            meant = element[1] if is_scalar and element is not None else type_.text
            others = [n for n in types.named(meant, here.start) if n != name]
            if len(others) == 1:
                start = operand.start + operand.text.index(name)
                named = edit_of(span.source, start, start + len(name), others[0])
                yield [named, edit_of(span.source, type_.start, type_.end, meant)]


def _left_out(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """Types that were left out are those of the definitions."""
    here, types = statement_at(span.source, span.start), Types(span.source)
    edits: Edits = []
    for group in here.groups:
        known = types.of_all(group.operands, here.start)
        if known is not None and len(group.types) != len(group.operands):
            text = group.text([p.text for p in group.operands], known)
            edits.append(edit_of(span.source, group.start, group.end, text))
    if edits:
        yield edits


def _string(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """The text that an attribute is given."""
    given = re.compile(r'\s*=\s*"([^"\n]*)"').match(span.source.text, span.end)
    for word in nearest(given[1], found.help or "") if given is not None else ():
        yield [edit_of(span.source, *given.span(1), word)]  # type: ignore[union-attr]


# -- operands --------------------------------------------------------------------------------------


def _reordered(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """Operands in another order, or inputs and outputs exchanged."""
    here = statement_at(span.source, span.start)
    for group in here.groups:
        count = len(group.operands)
        if count == len(group.types) and 1 < count <= 3:
            for order in itertools.islice(itertools.permutations(range(count)), 1, None):
                operands = [group.operands[i].text for i in order]
                types = [group.types[i].text for i in order]
                text = group.text(operands, types)
                yield [edit_of(span.source, group.start, group.end, text)]
    ins, outs = here.group("ins"), here.group("outs")
    if ins is not None and outs is not None:
        yield [_moved(span.source, ins, outs), _moved(span.source, outs, ins)]


def _moved(source: Source, to: Group, group: Group) -> Fix:
    return edit_of(source, to.start, to.end, source.text[group.start : group.end])


def _one_more(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """An operand that is missing: a scratch tile like the source, a mask, an index of 0."""
    here, types = statement_at(span.source, span.start), Types(span.source)
    group = here.group("ins") or next(iter(here.groups), None)
    if group is None or not group.operands:
        return
    first = types.of(next(iter(names_in(group.operands[0].text)), ""), here.start)
    if first is not None and "tile_buf" in written_out(span.source, first.text):
        yield from _with_known_scratch(group, types, here, span.source)
        for type_ in dict.fromkeys((first.text, *(t.text for t in group.types[-1:]))):
            yield from _with_scratch(here, group, type_, span.source)
    yield from _indexed(group, types, here, span.source)
    yield from _with_mask(group, types, here, span.source)
    yield from _with_scalar(group, types, here, span.source)


def _with_known_scratch(
    group: Group, types: Types, here: Statement, source: Source
) -> Iterator[Edits]:
    """The scratch tile that is there: the nearest that is called so."""
    named = re.findall(r"%[\w$.-]*(?:tmp|temp|scratch)[\w$.-]*", source.text[: here.start])
    for name in dict.fromkeys(reversed(named)):
        known = types.of(name, here.start)
        is_tile = known is not None and "tile_buf" in written_out(source, known.text)
        if known is not None and is_tile and name not in names_in(here.text):
            operands = [*(p.text for p in group.operands), name]
            texts = [*(p.text for p in group.types), known.text]
            yield [edit_of(source, group.start, group.end, group.text(operands, texts))]
            return


def _with_scratch(here: Statement, group: Group, type_: str, source: Source) -> Iterator[Edits]:
    name = next(n for n in fresh("%tmp") if n not in source.text)
    indent = indent_of(here, source)
    constant_, address_ = free_address(source, type_, indent) or ("", "")
    given = f" addr = {address_}" if address_ else ""
    line = f"{constant_}{name} = pto.alloc_tile{given} : {type_}\n{indent}"
    made = edit_of(source, here.start, here.start, line)
    operands = [*(p.text for p in group.operands), name]
    types = [*(p.text for p in group.types), type_]
    for at in range(len(operands) - 1, 0, -1):
        moved = [*operands[:at], name, *operands[at:-1]], [*types[:at], type_, *types[at:-1]]
        yield [made, edit_of(source, group.start, group.end, group.text(*moved))]


def _indexed(group: Group, types: Types, here: Statement, source: Source) -> Iterator[Edits]:
    """`%ub` is `%ub[%c0]` where registers are loaded and stored."""
    zero = zero_at(source, here.start)
    for operand in group.operands:
        known = types.of(operand.text, here.start)
        if zero and known is not None and "ptr<" in known.text:
            yield [edit_of(source, operand.end, operand.end, f"[{zero}]")]


_ELEMENT = re.compile(r"x([a-z]\w*)(?=[,>])")


def _with_scalar(group: Group, types: Types, here: Statement, source: Source) -> Iterator[Edits]:
    """The only scalar of the element type that there is, in every place."""
    for operand in group.types[:1]:
        element = _ELEMENT.search(operand.text)
        names = types.named(element[1], here.start) if element is not None else []
        if element is None or len(names) != 1:
            return
        for at in range(1, len(group.operands) + 1):
            operands, texts = [p.text for p in group.operands], [p.text for p in group.types]
            operands.insert(at, names[0])
            if len(texts) < len(operands):  # else the type is there, and only the operand is not
                texts.insert(at, element[1])
            yield [edit_of(source, group.start, group.end, group.text(operands, texts))]


def _with_mask(group: Group, types: Types, here: Statement, source: Source) -> Iterator[Edits]:
    """The nearest mask, as the last operand."""
    for width in ("b8", "b16", "b32"):
        type_ = f"!pto.mask<{width}>"
        for name in types.named(type_, here.start)[:1]:
            operands = [*(p.text for p in group.operands), name]
            texts = [*(p.text for p in group.types), type_]
            yield [edit_of(source, group.start, group.end, group.text(operands, texts))]


def _one_less(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """Scratch that this operation, or this target, does not take. What else is one too many has a
    meaning, and nobody but its writer knows which."""
    here = statement_at(span.source, span.start)
    for group in here.groups:
        count = len(group.operands)
        is_scratch = count > 1 and re.search("tmp|temp|scratch", group.operands[-1].text)
        if count == len(group.types) and is_scratch:
            operands = [p.text for p in group.operands[:-1]]
            types = [p.text for p in group.types[:-1]]
            yield [edit_of(span.source, group.start, group.end, group.text(operands, types))]


# -- flags --------------------------------------------------------------------------------


def _other_event(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """The event id that the other side of the pair has."""
    here = statement_at(span.source, span.start)
    event = re.search(r"EVENT_ID\d+", here.text)
    for word in (f"EVENT_ID{n}" for n in range(8) if event is not None):
        if event is not None and word != event.group():
            start, end = here.start + event.start(), here.start + event.end()
            yield [edit_of(span.source, start, end, word)]


def _event_without_wait(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """A wait that no set can end, beside one set of the same pipes that nothing waits for: it is
    the event of that set."""
    here, source = statement_at(span.source, span.start), span.source
    wait = _FLAG.search(here.text)
    if wait is None or wait[1] != "wait":
        return
    flags = [m for m in _FLAG.finditer(source.text) if m[2] == wait[2]]
    ids = {word: [m[3] for m in flags if m[1] == word] for word in ("set", "wait")}
    alone = [event for event in ids["set"] if event not in ids["wait"]]
    if wait[3] not in ids["set"] and len(alone) == 1:
        yield [edit_of(source, here.start + wait.start(3), here.start + wait.end(3), alone[0])]


_FLAG = re.compile(r"pto\.(set|wait)_flag\s*\[(<\w+>,\s*<\w+>),\s*<(\w+)>\]")


def _out_of_its_region(found: Diagnostic, span: Span) -> Iterator[Edits]:
    """What orders pipes is before a vector region where vectors wait, and after it otherwise; a
    second wait for one set is none."""
    here, source = statement_at(span.source, span.start), span.source
    text, flag = source.text, _FLAG.search(here.text)
    line = text.rfind("\n", 0, here.start) + 1, text.find("\n", here.end) + 1
    begin, end = region_around(text, here.start)
    if not line[1] or begin < 0:
        return
    gone = edit_of(source, *line, "")
    word, pipes = (flag[1], flag[2]) if flag is not None else ("", "")
    if flag is not None and word == "wait":
        pair = [m[1] for m in _FLAG.finditer(text) if m.groups()[1:] == flag.groups()[1:]]
        if pair.count("wait") > pair.count("set"):
            yield [gone]
    first = text.rfind("\n", 0, begin) + 1
    moved = f"{text[first:begin][: -len(text[first:begin].lstrip())]}{here.text}\n"
    places = [first, text.find("\n", end) + 1]
    for at in places if word == "wait" and pipes.endswith("<PIPE_V>") else places[::-1]:
        yield [gone, edit_of(source, at, at, moved)]


BY_CODE: dict[str, tuple[Proposer, ...]] = {
    "PTO0002": (_left_out, returned, other_word),
    "PTO1001": (other_name,),
    "PTO1003": (_operation,),
    "PTO1005": (_defined_otherwise, _of_another_width, _the_only_one),
    "PTO1008": (literal,),
    "PTO1014": (_left_out,),
    "PTO2001": (signs, _reordered, _one_more, _one_less),
    "PTO2004": (_other_event,),
    "PTO2005": (key_of_message, added_attribute),
    "PTO2010": (like_the_others,),
    "PTO2011": (as_row, by_columns, like_the_others),
    "PTO2012": (_one_more,),
    "PTO2013": (of_element,),
    "PTO2014": (like_the_others,),
    "PTO2015": (_the_only_one, in_memory, like_the_others),
    "PTO2016": (as_row, aligned, like_the_others),
    "PTO2018": (as_row, by_columns, laid_out),
    "PTO2019": (enough, like_the_others),
    "PTO2020": (_the_only_one,),
    "PTO2026": (at_the_start,),
    "PTO2027": (whole_lists,),
    "PTO2028": (valid, without_clause),
    "PTO2029": (like_the_others,),
    "PTO2036": (signs,),
    "PTO2041": (_one_more,),
    "PTO2081": (_one_more,),
    "PTO2160": (aligned,),
    "PTO3004": (_string,),
    "PTO3011": (with_address, without_address),
    "PTO3070": (_out_of_its_region,),
    "PTO4353": (apart,),
    "PTO4354": (address,),
    "PTO5006": (_event_without_wait,),
    "PTO5011": (on_function,),
    "PTO6401": (apart,),
    "PTO7104": (apart,),
    "PTO7108": (apart,),
}
ALWAYS: tuple[Proposer, ...] = (key_of_message,)
"""What is proposed for any finding, after what is proposed for its code."""
