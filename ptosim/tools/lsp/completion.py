"""What can be written at a place: members of enums, keys of types, attributes, operations as
statements to fill in, and how the statement goes on, the likeliest first and at most `MOST`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ptosim.ground.ir.types import SPACE_SYNONYMS
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.isa.dates import holds
from ptosim.ground.isa.examples import all_examples, example_of
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef, Status, enums
from ptosim.ground.records import replace
from ptosim.language.bind.clauses import describe
from ptosim.language.syntax.tile_types import TILE_KEYS
from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.names import Kind, Piece, operation_of, pieces, results_of
from ptosim.tools.lsp.predict import (
    Offer,
    Rest,
    Scope,
    escaped,
    filled,
    lines_of,
    rests,
    values_for,
)
from ptosim.tools.lsp.trial import tried

MOST = 50
"""So many items at once: more are not read by anyone."""
NEAR = 12_000
"""So many characters before a place are looked at for what comes after what."""
OTHERS = 4
"""So many other ways to write an operation are tried, where the first has errors."""
FILLED = 12
"""So many operations are offered with their operands filled in."""


_MEMBER = re.compile(r"#pto(?:\.(\w+)<|<(\w+) )(\w*)\Z")
_ENUM_BEGUN = re.compile(r"#pto<(\w*)\Z")
_SHORT_MEMBER = re.compile(r"(?<=[\[\s,(])<(\w*)\Z")
_TYPE = re.compile(r"(!pto\.[\w.]+|memref)<([^<>]*(?:<[^<>]*>[^<>]*)*)\Z")
_PARTIAL = re.compile(r"[%@!#^]?[\w$.-]*\Z")
_IN_TEXT = re.compile(r'^(?:[^"/]|"(?:\\.|[^"\\])*"|/(?!/))*(?://|"(?:\\.|[^"\\])*\Z)')
_TYPES = (
    "!pto.ptr<f32>", "!pto.tensor_view<?x?xf32>", "!pto.partition_tensor_view<16x64xf32>",
    "!pto.tile_buf<vec, 16x64xf32>", "!pto.vreg<64xf32>", "!pto.mask<b32>",
    "!pto.vmi.vreg<128xf32>", "!pto.vmi.mask<128xpred>",
)  # fmt: skip


def offers(document: Document, offset: int) -> list[Offer]:
    """Return what can be written at an offset of a text that was checked."""
    return offers_at(Scope(document, document.text, offset))


def offers_at(scope: Scope) -> list[Offer]:
    """Return what can be written at the place of a scope, the likeliest first."""
    line = _line_before(scope)
    if _IN_TEXT.match(line) or scope.document.source.is_cpp:
        return []
    for place in (_members, _short_members, _in_type, _in_dictionary, _statement, _operand):
        found = place(scope, line)
        if found is not None:
            return tried(_best(found, scope, line), scope, line, _other_statements)
    return []


def _other_statements(scope: Scope, offer: Offer, line: str) -> Iterator[Offer]:
    """Other ways to write the operation of an offer."""
    bare = replace(offer, text=offer.label, snippet="")
    for number in range(1, OTHERS + 1) if offer.kind == "operation" else ():
        other = _statement_offer(scope, bare, line, number)
        if other.text not in (bare.text, offer.text):
            yield other


def _line_before(scope: Scope) -> str:
    return scope.text[scope.text.rfind("\n", 0, scope.offset) + 1 : scope.offset]


def _best(found: Iterable[Offer], scope: Scope, line: str) -> list[Offer]:
    """Those that what is typed could be meant for, each label once; of equals the order stays."""
    ranked: dict[str, tuple[int, Offer]] = {}
    for offer in found:
        rank = _match(scope.text[offer.start : scope.offset].lower(), offer.label.lower())
        if rank is not None and offer.label not in ranked:
            ranked[offer.label] = rank, offer
    return [offer for _, offer in sorted(ranked.values(), key=lambda one: one[0])][:MOST]


def _match(typed: str, label: str) -> int | None:
    """How far a label is from what is typed: it begins so (with or without its dialect), has it in
    it, has its letters in this order; None if not even that."""
    if label.startswith(typed) or label.partition(".")[2].startswith(typed):
        return 0
    if typed in label:
        return 1
    letters = iter(label)
    return 2 if all(letter in letters for letter in typed) else None


# -- members, keys, attributes ---------------------------------------------------------------------


def _members(scope: Scope, line: str) -> list[Offer] | None:
    found = _MEMBER.search(line)
    if found is not None:
        return list(_members_of(scope, found[1] or found[2], found[3]))
    begun = _ENUM_BEGUN.search(line)
    if begun is None:
        return None
    start = scope.offset - len(begun[1])
    return [Offer(n, "attribute", "", start, f"{n} ") for n in _enums_here(scope, line)]


def _enums_here(scope: Scope, line: str) -> list[str]:
    """The enum of the attribute whose value comes here, else all of them."""
    row, named = _row(scope, line), re.search(r"(\w+)\s*=\s*#pto<\w*\Z", line)
    attribute = row.attrs.get(named[1]) if row is not None and named is not None else None
    is_enum = attribute is not None and attribute.type in enums()
    return [attribute.type] if attribute is not None and is_enum else sorted(enums())


def _members_of(scope: Scope, name: str, typed: str) -> Iterator[Offer]:
    enum = enums().get(name)
    date = scope.document.resolved.date
    for member in enum.members_at(date) if enum is not None else ():
        yield Offer(member, "member", f"#pto.{name}", scope.offset - len(typed), member)


def _short_members(scope: Scope, line: str) -> list[Offer] | None:
    """Members of the enums that the operands of an operation have: `[<PIPE_V>, <`"""
    found, row = _SHORT_MEMBER.search(line), _row(scope, line)
    if found is None or row is None or not row.variants:
        return None
    wanted = [o.enums for v in row.variants for o in v.operands if o.enums]
    if not wanted:
        return None
    place = len(re.findall(r"<\w+>", line[line.find(row.name) :]))
    names = wanted[min(place, len(wanted) - 1)]
    return [one for name in names for one in _members_of(scope, name, found[1])]


_KEYED = re.compile(r"(?:^|[,<]\s*)(\w+)=(\w*)\Z")


def _in_type(scope: Scope, line: str) -> list[Offer] | None:
    found = _TYPE.search(line)
    if found is None or found[2].count("<") != found[2].count(">"):
        return None
    name, body = found[1], found[2]
    keyed = _KEYED.search(body)
    if keyed is not None:
        start = scope.offset - len(keyed[2])
        words = _values_of_key(keyed[1])
        return [Offer(word, "member", keyed[1], start, word) for word in words]
    typed = re.split(r"[,\s]|\d+x|\?x", body)[-1]
    start = scope.offset - len(typed)
    made = [Offer(w, "member", "space", start, w) for w in _spaces_of(name, body)]
    if name in ("!pto.tile_buf", "!pto.tile"):
        made += [
            Offer(k, "attribute", "key", start, f"{k}=") for k in TILE_KEYS if f"{k}=" not in body
        ]
    elif "," not in body:
        made = [Offer(w, "type", "element", start, w) for w in _elements(scope)] + made
    if re.search(r"(?:\d+|\?)x\w*\Z", body):
        made = [Offer(w, "type", "element", start, w) for w in _elements(scope)]
    return made


def _spaces_of(name: str, body: str) -> Iterable[str]:
    if name in ("!pto.tile_buf", "!pto.tile"):
        return SPACE_SYNONYMS if "," not in body and "x" not in body else ()
    return ("gm", "ub", *SPACE_SYNONYMS) if name == "!pto.ptr" and "," in body else ()


def _elements(scope: Scope) -> list[str]:
    rows = read_toml("dtypes.toml")["dtype"]
    counted = Counter(re.findall(r"(?<=x)[a-z]\w+(?=[,>])", scope.text[: scope.offset]))
    names = [n for n, row in rows.items() if holds(row, scope.document.resolved.date)]
    return sorted(names, key=lambda n: -counted[n])


def _values_of_key(key: str) -> Iterable[str]:
    if key == "loc":
        return SPACE_SYNONYMS
    if key == "dtype":
        return read_toml("dtypes.toml")["dtype"]
    if key in ("blayout", "slayout"):
        return enums()[key].members
    rows = read_toml("types.toml")["tile_buf"].get(key, ())
    return [str(row["value"]) for row in rows] or ["?"] if key != "rows" else []


_NAME_BEFORE = re.compile(r"(\w+)\s*=\s*(#?\w*)\Z")


def _in_dictionary(scope: Scope, line: str) -> list[Offer] | None:
    """Attributes that an operation still misses, those it must have first, and their values."""
    row = _row(scope, line)
    depth = line.count("{") - line.count("}")
    if row is None or depth <= 0 or not row.attrs:
        return None
    inside = line[line.rfind("{") + 1 :]
    valued = _NAME_BEFORE.search(inside)
    if valued is not None and (valued[2].isdigit() or valued[2] in ("true", "false")):
        return None
    if valued is not None:
        attribute = row.attrs.get(valued[1])
        start = scope.offset - len(valued[2])
        return list(_attribute_values(scope, attribute.type if attribute else "", start))
    word = _PARTIAL.search(line)
    typed = word[0] if word is not None else ""
    missing = [a for a in row.attrs.values() if not re.search(rf"\b{a.name}\s*=", inside)]
    missing.sort(key=lambda a: not a.required)
    if not typed and re.search(r"=\s*[^,]+\Z", inside):
        return None  # a comma or the bracket comes next
    if (typed or inside.split(",")[-1].strip()) in row.attrs:
        return [Offer("=", "rest", "", scope.offset, "= ")]
    return [
        Offer(a.name, "attribute", a.type + (" (required)" if a.required else ""),
              scope.offset - len(typed), f"{a.name} = ")
        for a in missing
    ]  # fmt: skip


def _attribute_values(scope: Scope, kind: str, start: int) -> Iterator[Offer]:
    if kind == "bool":
        yield from (Offer(w, "member", kind, start, w) for w in ("true", "false"))
    enum = enums().get(kind)
    for member in enum.members_at(scope.document.resolved.date) if enum is not None else ():
        yield Offer(f"#pto<{kind} {member}>", "member", kind, start, f"#pto<{kind} {member}>")


def _row(scope: Scope, line: str) -> OpDef | None:
    return isa(scope.document.resolved.date).get(operation_of(line))


# -- statements ------------------------------------------------------------------------------------

_NAMED = re.compile(r"\s*(?:%[\w$.-]+\s*,\s*)*(%[\w$.-]+)\s*")
_BEGUN = re.compile(r"[\w.]*\Z")


def _statement(scope: Scope, line: str) -> list[Offer] | None:
    """Operations, where the name of one is typed: the likely ones with their operands."""
    named = _NAMED.fullmatch(line)
    if named is not None:  # the name of a result, whose statement comes next
        begun = f"{line.rstrip()} ="
        made = _statement(Scope(scope.document, scope.text, scope.offset), begun) or []
        return [
            Offer(f"= {o.text}", "rest", o.detail, scope.offset, f"= {o.text}") for o in made
        ] + [_value_offer(scope, n, named[1]) for n in values_for(scope, [])]
    results = results_of(line)
    rest = line[len(results) :].lstrip()
    if not _BEGUN.fullmatch(rest):
        return None
    start = scope.offset - len(rest)
    known = _known(scope.document.resolved.date, scope.target)
    if rest in known and operation_of(line) == rest:
        whole = [_rest(one, scope.offset) for one in rests(scope, line)]
        longer = [_operation(known[n], start) for n in sorted(known) if n.startswith(rest)]
        return [*whole, *(_statement_offer(scope, o, line) for o in longer[1 : FILLED + 1])]
    after = _next_operations(scope, bool(results))
    likely = dict.fromkeys([*after, *_used(scope, known), *_usual(bool(results)), *known])
    found = [_begin(name, known, start) for name in likely if name in known or name == "}"]
    best = _best([*found, *([] if rest or results else [_begin("}", known, start)])], scope, line)
    return [
        _statement_offer(scope, o, line) if n < FILLED and o.kind == "operation" else o
        for n, o in enumerate(best)
    ]


def _value_offer(scope: Scope, name: str, typed: str) -> Offer:
    return Offer(name, "value", scope.type_of(name), scope.offset - len(typed), name)


def _begin(name: str, known: dict[str, OpDef], start: int) -> Offer:
    return Offer("}", "rest", "", start, "}") if name == "}" else _operation(known[name], start)


@lru_cache(maxsize=8)
def _known(date: str, target: str) -> dict[str, OpDef]:
    """The operations that a date has on a target."""
    rows = isa(date)
    found: dict[str, OpDef] = {}
    for name in rows.names():
        row = rows.get(name)
        if row is None or row.library or row.status.get(target) is Status.ABSENT:
            continue
        if holds({"since": row.since or "", "until": row.until}, date):
            found["return" if name == "func.return" else name] = row
    return found


def _used(scope: Scope, known: dict[str, OpDef]) -> list[str]:
    """The operations of the text, those that it has most first."""
    near = scope.text[max(scope.offset - 20_000, 0) : scope.offset]
    counted = Counter(re.findall(r"(?<![\w.%@!#])(?:[a-z]\w*\.)+\w+", near))
    return [name for name, _ in counted.most_common(40) if name in known]


def _next_operations(scope: Scope, has_results: bool) -> list[str]:
    """What came after statements like the two before this one, the last ones first, then after
    those like the one before."""
    here = scope.text.rfind("\n", 0, scope.offset) + 1
    begun = [_beginning(line) for line in scope.text[max(here - NEAR, 0) : here].split("\n")]
    names = ["", "", *(name for name, _ in filter(None, begun))]
    counted: Counter[str] = Counter()
    known = [("", False), ("", False), *(b for b in begun if b is not None)]
    for weight, order in ((100, known), (1, _order_of_examples())):
        for (first, _), (second, _), (name, results) in zip(
            order, order[1:], order[2:], strict=False
        ):
            if second == names[-1] and results == has_results:
                counted[name] += weight * (10 if first == names[-2] else 1)
    return [name for name, _ in counted.most_common()]


@lru_cache(maxsize=2)
def _usual(has_results: bool) -> list[str]:
    """The operations of the examples, those that they have most first."""
    counted = Counter(name for name, results in _order_of_examples() if results == has_results)
    return [name for name, _ in counted.most_common()]


@lru_cache(maxsize=1)
def _order_of_examples() -> list[tuple[str, bool]]:
    """The beginnings of all lines of the examples; nothing is between two of them."""
    lines = all_examples().split("\n")
    begun = ([("", False)] * 2 if not line.strip() else [_beginning(line)] for line in lines)
    return [one for some in begun for one in some if one is not None]


def _beginning(line: str) -> tuple[str, bool] | None:
    """The operation of a line (or the bracket that it is), and whether it has results."""
    name = operation_of(line)
    words = line.split()
    if not words or words[0].startswith(("//", "#")):
        return None
    return name or words[0], bool(results_of(line))


def _operation(row: OpDef, start: int) -> Offer:
    name = "return" if row.name == "func.return" else row.name
    return Offer(name, "operation", row.summary, start, name)


def _statement_offer(scope: Scope, offer: Offer, line: str, number: int = 0) -> Offer:
    """The same with its operands: as in the last statement of it, the ones before, its example."""
    lines = list(dict.fromkeys(lines_of(scope, offer.label)))
    if number >= len(lines):
        return offer
    words = pieces(lines[number])
    begin = next((n for n, w in enumerate(words) if w.text.strip('"') == offer.label), None)
    if begin is None or words[begin].kind == "string":
        return offer
    results = [] if results_of(line) else words[:begin]
    made = filled(scope, [], words[begin:])
    named = [_fresh(scope, w) for w in results]
    text, snippet = _texts([*named, *made])
    row = isa(scope.document.resolved.date).get(offer.label)
    example = example_of(row) if row is not None else None
    doc = f"```mlir\n{example.line}\n```" if example is not None else ""
    return Offer(offer.label, offer.kind, offer.detail, offer.start, text, doc, snippet)


def _fresh(scope: Scope, word: Piece) -> Piece:
    """A result with a name that nothing has, not after the place either."""
    if word.kind != "value" or not _is_taken(scope, word.text):
        return word
    stem = word.text.rstrip("0123456789")
    names = (f"{stem}{n}" for n in range(1, 10_000))
    return Piece(word.kind, next(n for n in names if not _is_taken(scope, n)), word.start, word.gap)


def _is_taken(scope: Scope, name: str) -> bool:
    return re.search(rf"{re.escape(name)}(?![\w$.-])", scope.text) is not None


def _texts(words: Iterable[Piece]) -> tuple[str, str]:
    """Return a statement plain, and with a tab stop at each value and number."""
    plain, snippet, stop = "", "", 0
    for word in words:
        gap = word.gap if plain else ""
        shown = escaped(word.text)
        if word.kind in ("value", "number"):
            stop += 1
            shown = f"${{{stop}:{shown}}}"
        plain, snippet = plain + gap + word.text, snippet + gap + shown
    return plain, f"{snippet}$0"


# -- inside a statement ----------------------------------------------------------------------------


def _operand(scope: Scope, line: str) -> list[Offer]:
    """How the statement goes on, then every name that fits the sign that is typed."""
    word = _PARTIAL.search(line)
    typed = word[0] if word is not None else ""
    start = scope.offset - len(typed)
    before = line[: len(line) - len(typed)]
    found = list(rests(scope, before))
    made = [*_after_word(scope, line, typed, found), *(_rest(one, start) for one in found)]
    if any(one.kind == "value" for one in found) or typed.startswith("%") or not found:
        model = next((one.word for one in found if one.kind == "value"), "")
        names = values_for(scope, pieces(before), scope.type_of(model), model)
        made += [Offer(n, "value", scope.type_of(n), start, n) for n in names]
    if any(one.kind == "type" for one in found):
        near = [*scope.types_near(), "index", "i32", "i64", "f32", *_TYPES, "!pto.ptr<f32, gm>"]
        made += [Offer(t, "type", "", start, t) for t in near]
    if any(one.kind in ("attribute", "string") for one in found):
        made += _bracketed_members(scope, line, start)
    keys = list(_keys(scope, before, typed))
    made = [*keys, *made] if [o.label for o in keys] == ["="] else [*made, *keys]
    return [*made, *_plain(scope, typed, start)]


def _keys(scope: Scope, before: str, typed: str) -> Iterator[Offer]:
    """What the row of a statement has by name (`addr = `) and the statement has not yet."""
    name = operation_of(before)
    row, rest = _row(scope, before), before.partition(name)[2] if name else ""
    is_in = any(rest.count(a) > rest.count(b) for a, b in ("()", "[]"))
    if row is None or is_in or ":" in rest or rest.rstrip().endswith("="):
        return
    known = (d for v in row.variants for d in v.named if not d.is_flag and not d.is_clause)
    named = {d.name: "= [" if "list" in d.kinds else "= " for d in known}
    last = typed or rest.rstrip().rpartition(" ")[2]
    if last in named:
        yield Offer("=", "rest", "", scope.offset, named[last])
        return
    start = scope.offset - len(typed)
    for name in (n for n in named if not re.search(rf"\b{n}\b", rest)):
        yield Offer(name, "attribute", "", start, f"{name} {named[name]}")


def _bracketed_members(scope: Scope, line: str, start: int) -> Iterator[Offer]:
    """The members that the enum at this place has, as `<PIPE_V>`."""
    for one in _short_members(scope, f"{line} <") or ():
        for text in (f"<{one.text}>", f'"{one.text}"'):
            yield Offer(text, "member", one.detail, start, text)


def _after_word(scope: Scope, line: str, typed: str, found: list[Rest]) -> list[Offer]:
    """How the statement goes on after a word that is typed to its end."""
    is_whole = (
        typed in scope.values
        or any(typed == one.word for one in found)
        or typed in scope.document.resolved.module.type_aliases
        or typed.lstrip("-").isdigit()
        or typed in ("ins", "outs", "to", "step", *read_toml("dtypes.toml")["dtype"])
        or (typed and operation_of(line) == typed)
        or (typed[:1] in "%@" and not any(n.startswith(typed) for n in scope.values))
    )
    return [_rest(one, scope.offset) for one in rests(scope, line)] if is_whole else []


def _rest(rest: Rest, start: int) -> Offer:
    return Offer(rest.text, "rest", "the rest of the statement", start, rest.text)


def _plain(scope: Scope, typed: str, start: int) -> Iterator[Offer]:
    sign = typed[:1]
    names = scope.document.names
    if sign in ("@", ""):
        for kind, name in names.made:
            if kind is Kind.FUNCTION:
                yield Offer(name, "function", "", start, name)
    if sign in ("!", ""):
        for name, text in scope.document.resolved.module.type_aliases.items():
            yield Offer(name, "type", text, start, name)
    if sign == "!":
        yield from (Offer(t.partition("<")[0], "type", t, start, t) for t in _TYPES)
    if sign == "#":
        for name in sorted(enums()):
            yield Offer(f"#pto.{name}", "attribute", "", start, f"#pto.{name}<")


def signature_at(scope: Scope) -> tuple[str, list[str], int] | None:
    """Return an operation with its operands as they are described, each of these, and the number of
    the one that comes next; None outside of operands."""
    line = _line_before(scope)
    row = _row(scope, line)
    rest = line.rpartition(row.name)[2] if row is not None else ""
    if row is None or not row.variants or not rest or rest.count("{") > rest.count("}"):
        return None
    variant = row.variants[0]
    typed = pieces(rest)
    written = sum(w.kind == "value" for w in typed) - bool(typed and typed[-1].kind == "value")
    if any(w.text == "outs" for w in typed):
        written = max(written, len(variant.ins))
    names = [operand.name for operand in variant.operands]
    label = f"{row.name} {describe(variant, row)}"
    return label, names, min(written, max(len(names) - 1, 0))
