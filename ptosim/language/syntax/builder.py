"""Parser callbacks: each rule of `isa/pto.lark` builds its part of the program as it is reduced.

There is no parse tree in between. `end` is the offset after the last token that the parser shifted,
that is, the end of whatever is being reduced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ptosim.ground.ir.core import Attr, Block, Node, Operation, Region, Tok
from ptosim.language.syntax.quoted import sorted_list, to_core

Callback = Callable[[Any, list[Any]], Node]


def node(kind: str) -> Callback:
    """A callback that only keeps the parts together."""
    return lambda self, parts: Node(kind, parts, 0)


def placed(kind: str) -> Callback:
    """The same for parts that findings point at: it begins where they do."""
    return lambda self, parts: Node(kind, parts, parts[0].start)


class Builder:
    """Callbacks for one parse at a time (the parser holds a lock)."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget the previous parse."""
        self.end = 0
        self.aliases: list[tuple[Tok, Any]] = []
        self.twice: list[Tok] = []  # keys that a dictionary had before

    # -- file ---------------------------------------------------------------------------------

    def start(self, parts: list[Any]) -> list[Operation]:
        return [p for p in parts if p.__class__ is Operation]

    def alias_def(self, parts: list[Any]) -> None:
        self.aliases.append((parts[0], parts[1]))

    def op_results(self, parts: list[Any]) -> Operation:
        results: Tok = parts[0]
        op: Operation = parts[1]
        text = results.value
        if "," in text or ":" in text:
            op.result_tokens = _split_results(results)
        else:
            op.result_tokens = [(text[1:-1].rstrip(), 1, results.start)]
        op.start = results.start
        if len(parts) > 2:
            op.loc = parts[2]
        return op

    def op_plain(self, parts: list[Any]) -> Operation:
        op: Operation = parts[0]
        if len(parts) > 1:
            op.loc = parts[1]
        return op

    def loc(self, parts: list[Any]) -> tuple[int, int]:
        return parts[0].start, self.end

    def _op(self, name: Tok, form: str) -> Operation:
        start = name.start
        return Operation(name.value, form, start, self.end, start + len(name.value))

    # -- operations without a syntax of their own -----------------------------------------------

    def dps_op(self, parts: list[Any]) -> Operation:
        name: Tok = parts[0]
        op = self._op(name, "dps")
        op.ins, op.ins_types, op.outs, op.outs_types = [], [], [], []
        values, types = op.outs, op.outs_types
        for part in parts[1:]:
            if part.__class__ is not Tok:
                _dps_part(op, part)
            elif part.type == "TYPE":
                types.append(part)
            elif part.type != "OUTS":
                values.append(part)
        return op

    def ins_list(self, parts: list[Any]) -> Node:
        return Node("ins_list", sorted_list(parts[1:]), parts[0].start)

    ins_word = placed("ins_word")
    dps_clause = placed("dps_clause")
    dps_word = placed("dps_word")

    def item_op(self, parts: list[Any]) -> Operation:
        name: Tok = parts[0]
        op = self._op(name, "items")
        for part in parts[1:]:
            if part.__class__ is Node:
                _item_part(op, part)
            else:
                _regions_and_types(op, [part])
        for item in op.items:
            if item.__class__ is dict:
                op.attrs.update(item)
        return op

    def items(self, parts: list[Any]) -> Node:
        return Node("items", _with_flags(parts), 0)

    after_types = node("after_types")
    types = node("types")
    word_types = placed("word_types")

    def arrow(self, parts: list[Any]) -> Node:
        return Node("arrow", _flatten(parts), 0)

    dps_arrow = arrow

    indexed = placed("indexed")
    keyword = placed("keyword")
    clause = placed("clause")

    def launch(self, parts: list[Any]) -> Node:
        return Node("launch", [p for p in parts if p.type in ("SSA", "INT")], parts[0].start)

    def list(self, parts: list[Any]) -> Node:
        first = next((p.start for p in parts if not isinstance(p, dict)), self.end)
        return Node("list", parts, first)

    def paren(self, parts: list[Any]) -> Node:
        return Node("paren", parts, self.end)

    def generic_op(self, parts: list[Any]) -> Operation:
        name: Tok = parts[0]
        op = self._op(name, "generic")
        op.name = name.value.strip('"')
        op.ins = parts[1].parts
        for part in parts[2:]:
            if part.__class__ is dict:
                op.attrs.update(part)
            elif part.kind == "props":
                op.props = part.parts[0]
                op.attrs.update(part.parts[0])
            elif part.kind == "regions":
                op.regions = part.parts
            elif part.kind == "succs":
                op.items = part.parts
            else:
                op.ins_types, op.arrow = part.parts
        return to_core(op)

    succs = node("succs")
    prop_dict = node("props")
    regions = node("regions")

    # -- module, func ---------------------------------------------------------------------------

    def _core(self, tok: Tok) -> Operation:
        return self._op(tok, "core")

    def module_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        for part in parts[1:]:
            if part.__class__ is Tok:
                op.items = [part]
            elif part.__class__ is dict:
                op.attrs.update(part)
            else:
                op.regions = [part]
        return op

    def attributes(self, parts: list[Any]) -> dict[str, Attr]:
        return parts[1]

    def func_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        args: list[Any] = []
        for part in parts[1:]:
            kind = part.__class__
            if kind is Tok:
                op.items = [*op.items, part]
            elif kind is dict:
                op.attrs.update(part)
            elif kind is Region:
                op.regions = [part]
            elif part.kind == "func_args":
                args = part.parts
            else:
                op.arrow = part.parts
        op.ins = args
        if op.regions:
            op.regions[0].blocks[0].args = [(a.parts[0], a.parts[1]) for a in args if a.parts[0]]
        return op

    func_args = node("func_args")

    def func_arg(self, parts: list[Any]) -> Node:
        named = parts[0].type == "SSA"
        value, type_ = (parts[0], parts[1]) if named else (None, parts[0])
        attrs = next((p for p in parts if p.__class__ is dict), {})
        return Node("func_arg", [value, type_, attrs], parts[0].start)

    def func_results(self, parts: list[Any]) -> Node:
        return Node("func_results", [p if p.__class__ is Tok else p.parts[0] for p in parts], 0)

    func_result = node("func_result")

    def return_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        op.name = "func.return"
        _typed(op, parts[1:])
        return op

    def call_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        op.name = "func.call"
        op.items = [parts[1]]
        op.ins = parts[2].parts
        for part in parts[3:]:
            if part.__class__ is dict:
                op.attrs.update(part)
            else:
                op.ins_types, op.arrow = part.parts
        return op

    values = node("values")
    typed_values = node("typed")

    # -- arith.constant, scf ----------------------------------------------------------------------

    def const_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        rest = parts[1:]
        if len(rest) > 1 and rest[0].__class__ is dict:
            op.attrs.update(rest[0])
            rest = rest[1:]
        op.items = [rest[0]]
        op.types = rest[1:]
        return op

    def for_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        variable = parts[1]
        op.ins = [parts[2], parts[4], parts[6]]
        carried: list[Any] = []
        for part in parts[7:]:
            kind = part.__class__
            if kind is Tok:
                op.types = [part]
            elif kind is dict:
                op.attrs.update(part)
            elif kind is Region:
                op.regions = [part]
            else:
                carried, op.arrow = part.parts
        op.outs = [init.parts[1] for init in carried]
        index_type = op.types[0] if op.types else None
        op.regions[0].blocks[0].args = [
            (variable, index_type),
            *_carried(carried, op.arrow or ()),
        ]
        return op

    def iter_args(self, parts: list[Any]) -> Node:
        types = parts[2].parts if parts[2].__class__ is Node else [parts[2]]
        return Node("iter_args", [parts[1].parts, types], 0)

    inits = node("inits")
    init = node("init")

    def if_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        op.ins = [parts[1]]
        _regions_and_types(op, parts[2:])
        return op

    def while_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        carried: list[Any] = []
        for part in parts[1:]:
            kind = part.__class__
            if kind is dict:
                op.attrs.update(part)
            elif kind is Region:
                op.regions = [*op.regions, part]
            elif kind is Node and part.kind == "inits":
                carried = part.parts
            elif kind is Node:
                op.ins_types, op.arrow = part.parts
        op.ins = [init.parts[1] for init in carried]
        op.regions[0].blocks[0].args = _carried(carried, op.ins_types)
        return op

    def condition_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        op.outs = [parts[1]]
        _typed(op, parts[2:])
        return op

    def yield_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        _typed(op, parts[1:])
        return op

    def exec_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        _regions_and_types(op, parts[1:])
        return op

    def switch_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        op.ins = [parts[1]]
        for part in parts[2:]:
            if part.__class__ is Node and part.kind == "case":
                op.items = [*op.items, part.parts[1]]
                op.regions = [*op.regions, part.parts[2]]
            else:
                _regions_and_types(op, [part])
        return op

    case = node("case")

    # -- branches between blocks ------------------------------------------------------------------

    def br_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        for part in parts[1:]:
            if part.__class__ is dict:
                op.attrs.update(part)
            elif part.__class__ is Tok:
                op.ins = [part]
            else:
                op.clauses = [*op.clauses, part]
        return op

    cond_br_op = br_op

    def cf_switch_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        op.ins, op.ins_types = [parts[1]], [parts[2]]
        for part in parts[3:]:
            if part.__class__ is dict:
                op.attrs.update(part)
            elif part.__class__ is Node:
                if part.kind == "cf_case":
                    number, part = part.parts
                    op.items = [*op.items, number]
                op.clauses = [*op.clauses, part]
        return op

    cf_case = node("cf_case")

    def succ(self, parts: list[Any]) -> Node:
        """A label with the values, and their types, that go to its arguments."""
        typed = parts[1].parts if len(parts) > 1 else []
        values = [p for p in typed if p.type == "SSA"]
        return Node("succ", [parts[0], values, typed[len(values) :]], parts[0].start)

    def region_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        _regions_and_types(op, parts[1:])
        return op

    def strict_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        op.ins = parts[1].parts
        op.regions = [parts[2]]
        op.ins_types, op.arrow = parts[3].parts
        return op

    def reinterpret_op(self, parts: list[Any]) -> Operation:
        op = self._core(parts[0])
        op.ins = [parts[1]]
        types = [p for p in parts[2:] if p.__class__ is Tok and p.type == "TYPE"]
        op.types, op.arrow = types[:1], types[1:]
        key: Tok | None = None
        for part in parts[2:]:
            if part.__class__ is dict:
                op.attrs.update(part)
            elif part.__class__ is Node:
                op.clauses = [*op.clauses, Node("keyword", [key, part], part.start)]
            elif part.type == "BARE_ID":
                key = part
        return op

    def region(self, parts: list[Any]) -> Region:
        ops = [p for p in parts if p.__class__ is Operation]
        labelled = [p for p in parts if p.__class__ is Block]
        blocks = [Block(ops, [])] if ops or not labelled else []
        return Region(blocks + labelled, self.end)

    def block(self, parts: list[Any]) -> Block:
        args: list[tuple[Tok, Tok | None]] = []
        first = 1
        if len(parts) > 1 and parts[1].__class__ is Node:
            args = [(a.parts[0], a.parts[1]) for a in parts[1].parts]
            first = 2
        ops = [p for p in parts[first:] if p.__class__ is Operation]
        return Block(ops, args, parts[0])

    block_args = node("block_args")
    block_arg = node("block_arg")

    # -- types and attributes -----------------------------------------------------------------

    paren_types = node("paren_types")

    def func_type(self, parts: list[Any]) -> Node:
        results = parts[1].parts if parts[1].__class__ is Node else [parts[1]]
        return Node("func_type", [parts[0].parts, results], 0)

    def attr_dict(self, parts: list[Any]) -> dict[str, Attr]:
        found = {_key(attr.key): attr for attr in parts}
        if len(found) < len(parts):
            self.twice += (a.key for a in parts if a.key and found[_key(a.key)] is not a)
        return found

    def named_attr(self, parts: list[Any]) -> Attr:
        if len(parts) == 1:
            return Attr(parts[0], None)
        attr: Attr = parts[1]
        attr.key = parts[0]
        return attr

    def attr_value(self, parts: list[Any]) -> Attr:
        atom = parts[0]
        if atom.__class__ is Node and atom.kind == "func_type":
            atom.parts = [Node("paren_types", types, 0) for types in atom.parts]
        return Attr(None, atom, parts[1] if len(parts) > 1 else None)

    def attr_list(self, parts: list[Any]) -> list[Attr]:
        return parts


def _dps_part(op: Operation, part: Any) -> None:
    """Add one part of a DPS operation: inputs, attributes, a clause, an arrow's types."""
    if part.__class__ is dict:
        op.attrs.update(part)
    elif part.kind == "ins_list":
        values, types, words = part.parts
        op.ins, op.ins_types, op.clauses = values, types, words
        for value in values:
            if value.__class__ is dict:
                op.attrs.update(value)
    elif part.kind == "arrow":
        op.arrow = part.parts
    elif part.kind in ("dps_clause", "dps_word", "clause"):
        op.clauses = [*op.clauses, part]
    else:
        op.outs = [*op.outs, part]


def _item_part(op: Operation, part: Node) -> None:
    kind = part.kind
    if kind == "items":
        op.items = part.parts
    elif kind == "types":
        if part.parts[-1].__class__ is dict:
            op.attrs.update(part.parts.pop())
        op.type_list = part.parts
        op.types = _flatten(part.parts)
    elif kind == "after_types":
        op.outs_types = _flatten(part.parts)
    else:
        arrow = part.parts
        if arrow and arrow[-1].__class__ is dict:
            op.attrs.update(arrow.pop())
        op.arrow = arrow


def _with_flags(parts: list[Any]) -> list[Any]:
    """Put a word and the `<…>` that touches it together: `overflow<nsw, nuw>` is one item."""
    kinds = [getattr(p, "type", "") for p in parts]
    if "ANGLE_ENUM" not in kinds:
        return parts
    found: list[Any] = []
    for part, kind in zip(parts, kinds, strict=True):
        last = found[-1] if kind == "ANGLE_ENUM" and found else None
        if isinstance(last, Tok) and last.type == "BARE_ID" and last.end == part.start:
            found[-1] = Node("flags", [last, part], last.start)
        else:
            found.append(part)
    return found


def _key(tok: Tok | None) -> str:
    """Return the name of an attribute without its quotes."""
    text = tok.value if tok is not None else ""
    return text[1:-1] if text.startswith('"') else text


def _flatten(parts: list[Any]) -> list[Any]:
    """Return the parts with lists of types in their place."""
    flat: list[Any] = []
    for part in parts:
        if part.__class__ is Node and part.kind in ("paren_types", "word_types"):
            flat.extend(_flatten(part.parts))
        else:
            flat.append(part)
    return flat


def _typed(op: Operation, parts: list[Any]) -> None:
    """Add values with their types, or attributes."""
    for part in parts:
        if part.__class__ is dict:
            op.attrs.update(part)
        else:
            op.ins = [p for p in part.parts if p.type == "SSA"]
            op.ins_types = [p for p in part.parts if p.type == "TYPE"]


def _regions_and_types(op: Operation, parts: list[Any]) -> None:
    """Add regions, attributes and result types."""
    for part in parts:
        kind = part.__class__
        if kind is Region:
            op.regions = [*op.regions, part]
        elif kind is dict:
            op.attrs.update(part)
        elif kind is Node:
            op.arrow = part.parts
        elif part.type == "TYPE":
            op.arrow = [part]


def _carried(inits: list[Any], types: Sequence[Tok]) -> list[tuple[Tok, Tok | None]]:
    """Return the name and the type of each value that a loop carries; one for which the text has no
    type keeps its name."""
    return [(init.parts[0], types[i] if i < len(types) else None) for i, init in enumerate(inits)]


def _split_results(results: Tok) -> list[tuple[str, int, int]]:
    """Return (name, count, offset) for each of `%a, %b:2 =`."""
    found: list[tuple[str, int, int]] = []
    at = results.start
    for piece in results.value[:-1].split(","):
        name = piece.strip()
        start = at + (len(piece) - len(piece.lstrip()))
        base, _, count = name.partition(":")
        found.append((base[1:], int(count) if count else 1, start))
        at += len(piece) + 1
    return found
