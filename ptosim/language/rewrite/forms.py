"""Between the SSA form and the destination-passing form of tile operations.

To DPS: a result becomes a tile of its own (`alloc_tile`; in a bare snippet simply a name in
`outs`). To SSA: a destination becomes a result where that says the same, that is, where the tile is
allocated in the same block without an address and this operation is the only one that writes it,
before every read. A comment keeps the place and the type of an allocation where they would not come
back of themselves (`spelling.py`)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ptosim.ground.diagnostics.fix import repair
from ptosim.ground.diagnostics.model import OLD_SPELLINGS, Diagnostic, ProgramError, Sink
from ptosim.ground.ir.core import Module, Node, Operand, Operation, Region, Tok, Value
from ptosim.ground.ir.types import AbstractTileType, TileType, Type
from ptosim.ground.isa.dates import DEFAULT_DATE, check_date
from ptosim.ground.isa.schema import Variant
from ptosim.ground.isa.targets import DEFAULT_TARGET
from ptosim.ground.records import NamedTuple, replace
from ptosim.ground.source import Source
from ptosim.language.bind.names import for_target
from ptosim.language.bind.resolve import resolve
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.language.syntax.parser import parse, parse_type
from ptosim.language.syntax.printer import print_module
from ptosim.language.targets import check_target_word

# How types are written in a program, so that what is rewritten is written the same way again.
#
# Where the allocation of a tile is no longer needed because the tile is a result, a comment keeps
# its place and its text: `// alloc_tile %a : !pto.tile_buf<vec, 16x64xf32>`. Written back to the
# form with destinations, the allocation takes the place of the comment.

_NOTE = re.compile(r"// alloc_tile %([\w$.\-]+) : (\S.*?)\s*$")


class Spelling:
    """The texts of the types of values: as they are where a value is defined."""

    def __init__(self, module: Module, target: str) -> None:
        self._module = module
        self._target = target
        self._texts: dict[Value, str] = {}
        for op in module.walk():
            for value, token in _defined(op):
                self._texts[value] = token.value

    def of(self, value: Value | None, type_: Type, *, ssa: bool) -> str:
        """Return the text of the type of a value in a form. An alias stays one; a tile of the other
        form is written in this one."""
        text = self._texts.get(value) if value is not None else None
        if text is not None and self._fits(text, type_, ssa=ssa):
            return text
        return plain(type_, ssa=ssa)

    def _fits(self, text: str, type_: Type, *, ssa: bool) -> bool:
        is_alias = text in self._module.type_aliases
        if isinstance(type_, (TileType, AbstractTileType)) and not is_alias:
            return not ssa and not text.startswith("!pto.tile<") and self.means(text, type_)
        return self.means(text, type_)

    def means(self, text: str, type_: Type) -> bool:
        """True for a text of this type, in either form."""
        found = for_target(parse_type(self._module.spelled_out(text)).type, self._target)
        return plain(found, ssa=False) == plain(type_, ssa=False)

    def learn(self, value: Value, text: str) -> None:
        """Note how the type of a value is written."""
        self._texts[value] = text

    def text_of(self, value: Value) -> str | None:
        """Return how the type of a value is written where it is defined."""
        return self._texts.get(value)


def plain(type_: Type, *, ssa: bool) -> str:
    """Return a type as it is written without regard to how it was written."""
    if isinstance(type_, TileType):
        return str(replace(type_, ssa=ssa))
    if isinstance(type_, AbstractTileType):
        return str(AbstractTileType("tile" if ssa else "tile_buf"))
    return str(type_)


def _defined(op: Operation) -> Iterator[tuple[Value, Tok]]:
    """The values that an operation defines, with their types where the text has them."""
    tokens = op.arrow if op.arrow else op.types if op.has("makes_storage") else ()
    if len(tokens or ()) == len(op.results):
        yield from zip(op.results, tokens or (), strict=True)
    for block in (block for region in op.regions for block in region.blocks):
        for value, (_, token) in zip(block.values, block.args, strict=False):
            if token is not None:
                yield value, token


# -- the comments ----------------------------------------------------------------------------------


def note(name: str, text: str, at: int) -> Tok:
    """Return the comment that keeps the place of an allocation."""
    return Tok("COMMENT", f"// alloc_tile %{name} : {text}", at)


class Notes:
    """The comments of a module that keep places of allocations."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._found: dict[str, list[tuple[Tok, str]]] = {}
        for comment in module.comments:
            if (found := _NOTE.match(comment.value)) is not None:
                self._found.setdefault(found[1], []).append((comment, found[2]))

    def take(self, value: Value, block: Sequence[Operation], start: int) -> tuple[int, str] | None:
        """Return the place and the type of the allocation of a value that an operation of a block
        defines, if a comment of the block, which begins after `start`, has them; it goes."""
        for found in self._found.get(value.name, ()):
            at = found[0].start
            nested = any(op.start < at < op.end for op in block)
            if not nested and start < at < value.start:
                self._found[value.name].remove(found)
                self._module.comments = [c for c in self._module.comments if c is not found[0]]
                return at, found[1]
        return None


def starts(op: Operation) -> Iterator[tuple[Region, int]]:
    """Return each region of an operation with the place after which its text is."""
    at = op.name_end
    for region in op.regions:
        yield region, at
        at = region.end


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
    converter = _ToDps(module, meant) if form == "dps" else _ToSsa(module, meant)
    converter.run()
    return print_module(module)


def _tok(text: str, at: int, kind: str = "SSA") -> Tok:
    return Tok(kind, text, at)


def _tile_variant(op: Operation) -> Variant | None:
    """The operand lists of an operation on tiles, None for another one."""
    is_dps = op.definition is not None and op.definition.form == "dps"
    return op.variant if is_dps and op.variant is not None and op.variant.outs else None


class Rewriter:
    """Walks blocks and lets `operation` put zero or more operations in the place of one."""

    def __init__(self, module: Module, target: str) -> None:
        self.module = module
        self.spelling = Spelling(module, target)

    def run(self) -> None:
        """Rewrite the module in place."""
        self.module.ops = self._block(self.module.ops, -1)

    def _block(self, ops: Any, start: int) -> list[Operation]:
        rewritten: list[Operation] = []
        for op in ops:
            for region, at in starts(op):
                for block in region.blocks:
                    block.ops = self._block(block.ops, at)
            rewritten.extend(self.operation(op, ops, start))
        return rewritten

    def operation(self, op: Operation, block: Any, start: int) -> list[Operation]:
        """Return what an operation of a block, whose text begins at `start`, is replaced by."""
        return [op]

    def operands(self, op: Operation, definitions: Any, *, ssa: bool) -> tuple[list, list]:
        """Return the operands of names, and the tokens of their types."""
        values: list[Any] = []
        types: list[Any] = []
        for definition in definitions:
            bound = op.bound.get(definition.name)
            for operand in bound if isinstance(bound, list) else [bound]:
                if not isinstance(operand, Operand):
                    continue
                values.append(operand.tok)
                if operand.type is not None:
                    text = self.spelling.of(operand.value, operand.type, ssa=ssa)
                    types.append(_tok(text, op.start, "TYPE"))
        return values, types


class _ToDps(Rewriter):
    def __init__(self, module: Module, target: str) -> None:
        super().__init__(module, target)
        self._notes = Notes(module)

    def _block(self, ops: Any, start: int) -> list[Operation]:
        """Allocations whose place a comment kept are there again."""
        rewritten = super()._block(ops, start)
        return sorted(rewritten, key=lambda op: op.start)

    def operation(self, op: Operation, block: Any, start: int) -> list[Operation]:
        variant = _tile_variant(op)
        if variant is None or op.form == "dps":
            return [op]
        made: list[Operation] = []
        results: list[tuple[Any, Any]] = []
        for value in op.results:
            place, text = self._allocated(value, block, start) or (op.start, None)
            spelled = text or self.spelling.of(value, value.type, ssa=False)
            results.append((_tok(f"%{value.name}", op.start), _tok(spelled, op.start, "TYPE")))
            self.spelling.learn(value, spelled)
            if self.module.kind != "snippet":
                made.append(_allocation(value, spelled, place))
        dps = Operation(op.name, "dps", op.start, op.end, op.name_end)
        dps.attrs = {k: a for k, a in op.attrs.items() if k != "operandSegmentSizes"}
        dps.loc = op.loc
        dps.ins, dps.ins_types = self.operands(op, variant.ins, ssa=False)
        outs, types = self.operands(op, variant.outs, ssa=False)
        dps.outs = [*outs, *(name for name, _ in results)]
        dps.outs_types = [*types, *(type_ for _, type_ in results)]
        return [*made, dps]

    def _allocated(self, value: Value, block: Any, start: int) -> tuple[int, str] | None:
        found = self._notes.take(value, block, start)
        return found if found is not None and self.spelling.means(found[1], value.type) else None


def _allocation(value: Value, spelled: str, at: int) -> Operation:
    op = Operation("pto.alloc_tile", "items", at, at, at)
    op.result_tokens = [(value.name, 1, at)]
    op.types = op.type_list = [_tok(spelled, at, "TYPE")]
    return op


class _ToSsa(Rewriter):
    def __init__(self, module: Module, target: str) -> None:
        super().__init__(module, target)
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

    def operation(self, op: Operation, block: Any, start: int) -> list[Operation]:
        variant = _tile_variant(op)
        if variant is None or op.form != "dps" or any(isinstance(v, dict) for v in op.ins):
            return [op]
        values = [getattr(op.bound.get(d.name), "value", None) for d in variant.outs]
        destinations = [v for v in values if v is not None]
        if not destinations or not all(self._can_be_result(v, op, block) for v in destinations):
            return [op]
        return [self._ssa(op, variant, destinations, block)]

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

    def _ssa(
        self, op: Operation, variant: Variant, destinations: list[Value], block: Any
    ) -> Operation:
        ssa = Operation(op.name, "items", op.start, op.end, op.name_end)
        ssa.result_tokens = [(v.name, 1, op.start) for v in destinations]
        ssa.attrs = dict(op.attrs)
        ssa.loc = op.loc
        ssa.items, types = self.operands(op, variant.ins, ssa=True)
        ssa.types = types
        ssa.type_list = [_paren(types)]
        ssa.arrow = [
            _tok(self.spelling.of(v, v.type, ssa=True), op.start, "TYPE") for v in destinations
        ]
        before = block[block.index(op) - len(destinations) : block.index(op)]
        for value, other in itertools.zip_longest(destinations, before):
            if value is None or value.owner is None:
                continue
            self._dropped.add(id(value.owner))
            text = self.spelling.text_of(value)
            is_there = value.owner is other and text == self._made_again(value)
            if text is not None and not is_there:
                self.module.comments.append(note(value.name, text, value.owner.start))
        return ssa

    def _made_again(self, value: Value) -> str:
        """How the type of an allocation is written that no comment keeps."""
        found = self.spelling.of(value, value.type, ssa=True)
        return found if found in self.module.type_aliases else plain(value.type, ssa=False)

    def run(self) -> None:
        super().run()
        self.module.comments.sort(key=lambda comment: comment.start)

    def _block(self, ops: Any, start: int) -> list[Operation]:
        return [op for op in super()._block(ops, start) if id(op) not in self._dropped]


def _paren(types: list[Any]) -> Any:
    return Node("paren_types", types, 0)


# -- a program moved to another date of the language: the edits that its findings there carry ------


_OF_DATES = (*OLD_SPELLINGS, "PTO1003", "PTO8004", "PTO1028", "PTO3006")
"""Codes of what a date does not read, or reads on one target only."""


class Moved(NamedTuple):
    """The text at the date, the findings on what could not be moved, and those on attributes that
    the date does not have, which are gone."""

    text: str
    left: tuple[Diagnostic, ...]
    gone: tuple[Diagnostic, ...]


def to_date(source: Source, options: FrontOptions, date: str) -> Moved:
    """Move a program to a date of the language, as far as findings carry edits; what the date
    refuses and its own date does not is left."""

    def found(text: Source, at: str | None) -> list[Diagnostic]:
        return list(run_frontend(text, replace(options, compat=at, legacy=False)).sink)

    def check(text: Source) -> list[Diagnostic]:
        return [d for d in found(text, date) if d.code in _OF_DATES]

    moved = repair(source, check)
    own = {d.code for d in found(source, options.compat)}
    left = [
        d for d in found(moved.source, date)
        if d.code in _OF_DATES[:-1] or (d.fixes and d.code in _OF_DATES)
        or (d.is_rejection and d.code not in own)
    ]  # fmt: skip
    gone = [d for d in moved.fixed if d.code == "PTO1028"]
    return Moved(moved.source.text, tuple(left), tuple(gone))
