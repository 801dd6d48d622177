"""Between the SSA form and the destination-passing form of tile operations.

To DPS: a result becomes a tile of its own (`alloc_tile`; in a bare snippet simply a name in
`outs`). To SSA: a destination becomes a result where that says the same, that is, where the tile is
allocated in the same block without an address and this operation is the only one that writes it,
before every read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.errors import ProgramError
from ptosim.ground.ir.core import Module, Node, Operand, Operation, Tok, Value
from ptosim.ground.ir.types import AbstractTileType, TileType, Type
from ptosim.ground.isa.dates import DEFAULT_DATE, check_date
from ptosim.ground.isa.schema import Variant
from ptosim.ground.isa.targets import DEFAULT_TARGET
from ptosim.ground.source import Source
from ptosim.passes.bind.resolve import resolve
from ptosim.passes.targets import check_target_word
from ptosim.syntax.parser import parse
from ptosim.syntax.printer import print_module


def convert(source: Source, form: str, target: str | None = None, compat: str | None = None) -> str:
    """Return the canonical text of a program with its tile operations in a form (`ssa` or `dps`).

    Raises ProgramError if the program cannot be parsed or its names cannot be resolved.
    """
    sink = Sink()
    module = parse(source, sink)
    meant = check_target_word(target).architecture if target else DEFAULT_TARGET
    resolve(module, meant, sink, date=check_date(compat or DEFAULT_DATE))
    if sink.has_errors:
        raise ProgramError(list(sink))
    converter = _ToDps(module) if form == "dps" else _ToSsa(module)
    converter.run()
    return print_module(module)


def _tok(text: str, at: int, kind: str = "SSA") -> Tok:
    return Tok(kind, text, at)


def _tile_variant(op: Operation) -> Variant | None:
    """The operand lists of an operation on tiles, None for another one."""
    is_dps = op.definition is not None and op.definition.form == "dps"
    return op.variant if is_dps and op.variant is not None and op.variant.outs else None


def _spelled(type_: Type, *, ssa: bool) -> str:
    if isinstance(type_, TileType):
        return str(replace(type_, ssa=ssa))
    if isinstance(type_, AbstractTileType):
        return str(AbstractTileType("tile" if ssa else "tile_buf"))
    return str(type_)


class _Rewriter:
    """Walks blocks and lets `operation` put zero or more operations in the place of one."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def run(self) -> None:
        """Rewrite the module in place."""
        self.module.ops = self._block(self.module.ops)

    def _block(self, ops: Any) -> list[Operation]:
        rewritten: list[Operation] = []
        for op in ops:
            for region in op.regions:
                for block in region.blocks:
                    block.ops = self._block(block.ops)
            rewritten.extend(self.operation(op, ops))
        return rewritten

    def operation(self, op: Operation, block: Any) -> list[Operation]:
        """Return what an operation is replaced by."""
        return [op]


class _ToDps(_Rewriter):
    def operation(self, op: Operation, block: Any) -> list[Operation]:
        variant = _tile_variant(op)
        if variant is None or op.form == "dps":
            return [op]
        made: list[Operation] = []
        dps = Operation(op.name, "dps", op.start, op.end, op.name_end)
        dps.attrs = {k: a for k, a in op.attrs.items() if k != "operandSegmentSizes"}
        dps.loc = op.loc
        dps.ins, dps.ins_types = self._operands(op, variant.ins)
        outs, types = self._operands(op, variant.outs)
        for value in op.results:
            spelled = _spelled(value.type, ssa=False)
            outs.append(_tok(f"%{value.name}", op.start))
            types.append(_tok(spelled, op.start, "TYPE"))
            if self.module.kind != "snippet":
                made.append(_allocation(value, spelled, op.start))
        dps.outs, dps.outs_types = outs, types
        return [*made, dps]

    def _operands(self, op: Operation, definitions: Any) -> tuple[list[Any], list[Any]]:
        values: list[Any] = []
        types: list[Any] = []
        for definition in definitions:
            bound = op.bound.get(definition.name)
            for operand in bound if isinstance(bound, list) else [bound]:
                if not isinstance(operand, Operand):
                    continue
                values.append(operand.tok)
                if operand.type is not None:
                    types.append(_tok(_spelled(operand.type, ssa=False), op.start, "TYPE"))
        return values, types


def _allocation(value: Value, spelled: str, at: int) -> Operation:
    op = Operation("pto.alloc_tile", "items", at, at, at)
    op.result_tokens = [(value.name, 1, at)]
    op.types = op.type_list = [_tok(spelled, at, "TYPE")]
    return op


class _ToSsa(_Rewriter):
    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._writers: dict[Value, list[Operation]] = {}
        self._users: dict[Value, list[Operation]] = {}
        self._dropped: set[int] = set()
        for op in module.walk():
            self._count(op)

    def _count(self, op: Operation) -> None:
        roles = {d.name: d.role for d in op.variant.operands} if op.variant is not None else {}
        for name, bound in op.bound.items():
            for operand in bound if isinstance(bound, list) else [bound]:
                value = getattr(operand, "value", None)
                if value is None:
                    continue
                table = self._users if roles.get(name, "in") == "in" else self._writers
                table.setdefault(value, []).append(op)

    def operation(self, op: Operation, block: Any) -> list[Operation]:
        variant = _tile_variant(op)
        if variant is None or op.form != "dps":
            return [op]
        values = [getattr(op.bound.get(d.name), "value", None) for d in variant.outs]
        destinations = [v for v in values if v is not None]
        if not destinations or not all(self._can_be_result(v, op, block) for v in destinations):
            return [op]
        return [self._ssa(op, variant, destinations)]

    def _can_be_result(self, value: Value, op: Operation, block: Any) -> bool:
        if not isinstance(value.type, (TileType, AbstractTileType)):
            return False
        if self._writers.get(value) != [op]:
            return False
        owner = value.owner
        if self.module.kind == "snippet" and owner is None:
            return all(user.start > op.start for user in self._users.get(value, ()))
        if (
            owner is None
            or "makes_storage" not in owner.traits
            or owner not in block
            or owner.items
        ):
            return False
        return all(user.start > op.start for user in self._users.get(value, ()))

    def _ssa(self, op: Operation, variant: Variant, destinations: list[Value]) -> Operation:
        ssa = Operation(op.name, "items", op.start, op.end, op.name_end)
        ssa.result_tokens = [(v.name, 1, op.start) for v in destinations]
        ssa.attrs = dict(op.attrs)
        ssa.loc = op.loc
        items: list[Any] = []
        types: list[Any] = []
        for definition in variant.ins:
            bound = op.bound.get(definition.name)
            for operand in bound if isinstance(bound, list) else [bound]:
                if isinstance(operand, Operand):
                    items.append(operand.tok)
                    if operand.type is not None:
                        types.append(_tok(_spelled(operand.type, ssa=True), op.start, "TYPE"))
        ssa.items = items
        ssa.types = types
        ssa.type_list = [_paren(types)]
        ssa.arrow = [_tok(_spelled(v.type, ssa=True), op.start, "TYPE") for v in destinations]
        for value in destinations:
            if value.owner is not None:
                self._dropped.add(id(value.owner))
        return ssa

    def _block(self, ops: Any) -> list[Operation]:
        return [op for op in super()._block(ops) if id(op) not in self._dropped]


def _paren(types: list[Any]) -> Any:
    return Node("paren_types", types, 0)
