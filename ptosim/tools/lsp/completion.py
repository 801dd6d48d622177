"""What can follow what is typed: operations, values, functions, types, members of enums."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ptosim.ground.isa.dates import holds
from ptosim.ground.isa.enums import enums
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef, Status
from ptosim.ground.records import dataclass
from ptosim.language.bind.bind import describe
from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.names import Kind

_BEFORE = re.compile(r"[%@!#]?[\w$.-]*\Z")
_ATTRIBUTE = re.compile(r"#pto\.(\w+)<(\w*)\Z")
_OPERATION = re.compile(r"(?:pto|arith|math|scf|func|memref|cf|quant)\.[\w.]+")
_TYPES = (
    ("!pto.ptr", "!pto.ptr<f32>"), ("!pto.tensor_view", "!pto.tensor_view<?x?xf32>"),
    ("!pto.partition_tensor_view", "!pto.partition_tensor_view<16x64xf32>"),
    ("!pto.tile_buf", "!pto.tile_buf<vec, 16x64xf32>"), ("!pto.vreg", "!pto.vreg<64xf32>"),
    ("!pto.mask", "!pto.mask<b32>"), ("!pto.vmi.vreg", "!pto.vmi.vreg<128xf32>"),
)  # fmt: skip
_FIRST_WORD = re.compile(r"^\s*(?:%[\w$.:,\s#%-]*=\s*)?[\w.]*\Z")


@dataclass(frozen=True, slots=True)
class Offer:
    """A word that fits: what is written for the characters from `start` on."""

    label: str
    kind: str  # operation, value, function, type, member, attribute
    detail: str
    start: int
    text: str
    doc: str = ""


def offers(document: Document, offset: int) -> list[Offer]:
    """Return what can be written at an offset."""
    before = document.text[:offset]
    line = before[before.rfind("\n") + 1 :]
    member = _ATTRIBUTE.search(line)
    if member is not None:
        return list(_members(member[1], offset - len(member[2]), document.resolved.date))
    found = _BEFORE.search(line)
    word = found[0] if found is not None else ""
    start = offset - len(word)
    if word.startswith("%"):
        return list(_values(document, start))
    if word.startswith("@"):
        return list(_functions(document, start))
    if word.startswith("!"):
        return [*_aliases(document, start), *(Offer(n, "type", t, start, t) for n, t in _TYPES)]
    if word.startswith("#"):
        names = sorted(enums())
        return [Offer(f"#pto.{n}", "attribute", "", start, f"#pto.{n}<") for n in names]
    if _FIRST_WORD.match(line):
        return list(_operations(document, start))
    return list(_attributes(line, start))


def _operations(document: Document, start: int) -> Iterator[Offer]:
    date, target = document.resolved.date, document.resolved.target
    rows = isa(date)
    for name in rows.names():
        row = rows.get(name)
        if (
            row is None
            or row.library
            or not holds({"since": row.since or "", "until": row.until}, date)
        ):
            continue
        if row.status.get(target) is Status.ABSENT:
            continue
        yield Offer(name, "operation", row.summary, start, _text(row))


def _text(row: OpDef) -> str:
    """The operation with its operands as they are described: a form to fill in."""
    if not row.variants or row.form != "dps":
        return row.name
    return f"{row.name} {describe(row.variants[0], row)}"


def _values(document: Document, start: int) -> Iterator[Offer]:
    for made in document.names.visible(start):
        kind = str(made.value.type) if made.value is not None else ""
        yield Offer(made.word.text, "value", kind, start, made.word.text)


def _functions(document: Document, start: int) -> Iterator[Offer]:
    for kind, name in document.names.made:
        if kind is Kind.FUNCTION:
            yield Offer(name, "function", "", start, name)


def _aliases(document: Document, start: int) -> Iterator[Offer]:
    for name, text in document.resolved.module.type_aliases.items():
        yield Offer(name, "type", text, start, name)


def _members(name: str, start: int, date: str) -> Iterable[Offer]:
    enum = enums().get(name)
    members = enum.members_at(date) if enum is not None else ()
    return (Offer(m, "member", f"#pto.{name}", start, m) for m in members)


def _attributes(line: str, start: int) -> Iterator[Offer]:
    """Attributes of the operation on the line, inside its braces."""
    found = _OPERATION.search(line)
    row = isa().get(found[0]) if found is not None else None
    if row is None or line.count("{") <= line.count("}"):
        return
    for attribute in row.attrs.values():
        detail = attribute.type + (" (required)" if attribute.required else "")
        yield Offer(attribute.name, "attribute", detail, start, f"{attribute.name} = ")
