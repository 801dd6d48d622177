"""Parser callbacks for PTO-AS lines (`isa/pto_line.lark`): the same operations as `builder`
makes."""

from __future__ import annotations

from typing import Any

from ptosim.ground.ir.core import Attr, Node, Operation, Tok
from ptosim.language.syntax.builder import node, placed


class LineBuilder:
    """Callbacks for one parse at a time (the parser holds a lock)."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget the previous parse."""
        self.end = 0
        self.aliases: list[tuple[Tok, Any]] = []
        self.twice: list[Tok] = []

    def start(self, parts: list[Any]) -> list[Operation]:
        return [p for p in parts if p.__class__ is Operation]

    def statement(self, parts: list[Any]) -> Operation:
        results = parts[0] if parts[0].type == "RESULTS" else None
        name: Tok = parts[1] if results is not None else parts[0]
        op = Operation(name.value, "line", name.start, self.end, name.end)
        op.ins, op.outs, op.ins_types, op.outs_types = [], [], [], []
        if results is not None:
            names = results.value[:-1].split(",")
            op.result_tokens = [(n.strip()[1:], 1, results.start) for n in names]
            op.start = results.start
        for part in parts[2 if results is not None else 1 :]:
            _add(op, part)
        if any(map(_is_word, op.ins)):  # operations on pipes have operands of no type
            op.form, op.items, op.ins, op.type_list = "items", op.ins, [], op.types
        return op

    types = node("types")
    arrow = node("arrow")
    indexed = placed("indexed")
    list = placed("list")
    group = placed("group")

    def symbol(self, parts: list[Any]) -> Any:
        return Node("symbol", parts, parts[0].start) if len(parts) > 1 else parts[0]

    def attr_dict(self, parts: list[Any]) -> dict[str, Attr]:
        found = {attr.key.value: attr for attr in parts}
        if len(found) < len(parts):
            self.twice += (a.key for a in parts if found[a.key.value] is not a)
        return found

    def pair(self, parts: list[Any]) -> Attr:
        return Attr(parts[0], parts[1] if len(parts) > 1 else None)


def _is_word(part: Any) -> bool:
    return part.kind == "list" if part.__class__ is Node else part.type == "ANGLE_ENUM"


def _add(op: Operation, part: Any) -> None:
    kind = part.__class__
    if kind is dict:
        op.attrs.update(part)
    elif kind is Node and part.kind == "types":
        op.types = [t for t in part.parts if t.__class__ is Tok]
        arrows = [t for t in part.parts if t.__class__ is Node]
        op.arrow = arrows[0].parts if arrows else None
    elif kind is Node and part.kind == "group":
        _add_group(op, part)
    elif kind is Tok and part.type == "HASHKV":
        key, _, value = part.value[1:].partition("=")
        atom = Tok("BARE_ID", value.strip(), part.start + part.value.index("=") + 1)
        op.attrs[key.strip()] = Attr(Tok("BARE_ID", key.strip(), part.start + 1), atom)
    else:
        op.ins = [*op.ins, part]


def _add_group(op: Operation, group: Node) -> None:
    """`ins(...)` and `outs(...)` on a line make it the DPS form."""
    name = group.parts[0].value
    values: list[Any] = []
    types: list[Tok] = []
    if name == "outs":
        op.outs, op.outs_types = values, types
    else:
        op.ins, op.ins_types = values, types
    op.form, op.is_listed = "dps", True
    for part in group.parts[1:]:
        if part.__class__ is dict:
            op.attrs.update(part)
        elif part.__class__ is Node and part.kind == "types":
            types.extend(t for t in part.parts if t.__class__ is Tok)
        else:
            values.append(part)
